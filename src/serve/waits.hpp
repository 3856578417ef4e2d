// Clients that wait for the end of a run. Nobody holds a thread: the engine calls, or the time is over.
#pragma once

#include "engine/driver.hpp"
#include "http/listener.hpp"
#include "idempotency/timers.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace semel::serve {

class Waits : public std::enable_shared_from_this<Waits> {
 public:
  /// Answers whoever has waited for long enough: as one who does not wait at all. May block.
  using Late = std::function<void(http::Responder)>;

  explicit Waits(std::shared_ptr<engine::Driver> driver) : driver_(std::move(driver)) {}

  /// `late` is called on the thread of the timers and must pass on what blocks.
  void add(const std::string& workspace, const std::string& id, std::chrono::nanoseconds limit,
           http::Responder responder, Late late);

  /// Nobody waits any more, and nobody will.
  void dismiss();

 private:
  struct Wait {
    http::Responder responder;
    Late late;
    idempotency::Timers::Id timer = 0;
  };

  std::shared_ptr<Wait> take(std::uint64_t number);
  void over(std::uint64_t number, const std::variant<detail::RunEnd, engine::Refusal>& end);
  void give_up(std::uint64_t number);

  std::shared_ptr<engine::Driver> driver_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Wait>> waits_;
  std::uint64_t next_ = 1;
  bool is_dismissed_ = false;
  idempotency::Timers timers_;
};

}  // namespace semel::serve
