// What others do to our runs: other nodes, and transactions of the program's own, for which it makes what they stand on.
#pragma once

#include "app/idempotency_port.hpp"
#include "engine/driver.hpp"
#include "store/hints.hpp"
#include "store/unit_of_work.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <thread>

struct pg_conn;

namespace semel::app {

class Adoption {
 public:
  /// `has_thread`: looks by itself, when it is told that there is something and at least once a second. Otherwise when told
  /// to.
  Adoption(std::unique_ptr<store::Hints> hints, std::shared_ptr<engine::Driver> driver,
           bool has_thread);
  Adoption(const Adoption&) = delete;
  Adoption& operator=(const Adoption&) = delete;
  ~Adoption() = default;

  std::shared_ptr<store::UnitOfWork> adopt(pg_conn* connection);

  /// Tells the engine what was committed. False: there is nobody to tell any more.
  bool look();

 private:
  void watch(const std::stop_token& stopped);
  store::RunKey new_run_key();

  std::shared_ptr<engine::Driver> driver_;
  EnginePort port_;
  std::unique_ptr<store::Hints> hints_;
  bool has_lost_some_ = false;  ///< hints; of whoever looks
  std::mutex mutex_;
  store::RunKey next_key_ = 0;
  store::RunKey keys_end_ = 0;
  std::jthread thread_;  ///< the last: it uses the others
};

}  // namespace semel::app
