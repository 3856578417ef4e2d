// Clients that read a run's journal as it grows, as server-sent events. One look at the store serves them all; a client
// that does not read is not written to.
#pragma once

#include "base/clock.hpp"
#include "engine/driver.hpp"
#include "http/listener.hpp"
#include "idempotency/timers.hpp"

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

namespace semel::serve {

class Tails : public std::enable_shared_from_this<Tails> {
 public:
  /// `submit` has work done by a thread that may block.
  Tails(std::shared_ptr<engine::Driver> driver, std::function<void(std::function<void()>)> submit)
      : driver_(std::move(driver)), submit_(std::move(submit)) {}

  /// Entries from `from` on, and then those to come, until the run is over.
  void add(std::string workspace, std::string id, store::Seq from, http::Responder responder);

  std::size_t count();

  /// Ends all streams, those to come too.
  void dismiss();

 private:
  struct Tail;

  void look_soon();
  void look_at_all();
  bool look(const std::shared_ptr<Tail>& tail);

  std::shared_ptr<engine::Driver> driver_;
  std::function<void(std::function<void()>)> submit_;
  std::mutex mutex_;
  std::list<std::shared_ptr<Tail>> tails_;
  bool is_looking_ = false;
  bool is_dismissed_ = false;
  idempotency::Timers timers_;
};

}  // namespace semel::serve
