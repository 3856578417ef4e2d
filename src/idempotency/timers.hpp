// Things to be done later, on a thread of their own that sleeps until the first is due.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

namespace semel::idempotency {

class Timers {
 public:
  using Id = std::uint64_t;

  Timers() = default;
  Timers(const Timers&) = delete;
  Timers& operator=(const Timers&) = delete;
  /// What has not begun is dropped. An action may destroy its own timers.
  ~Timers();

  /// Calls `action` once, so long from now. It must be quick: all others wait for it.
  Id after(std::chrono::nanoseconds delay, std::function<void()> action);

  /// False: it has begun or is over.
  bool cancel(Id id);

 private:
  struct State {
    using Due = std::pair<std::chrono::nanoseconds, Id>;

    std::mutex mutex;
    std::condition_variable changed;
    std::map<Due, std::function<void()>> actions;
    std::unordered_map<Id, std::chrono::nanoseconds> due;
    Id next = 1;
    /// The thread looks again by then, also for what was cancelled: whoever is later need not wake it.
    std::chrono::nanoseconds looks_at = std::chrono::nanoseconds::max();
    bool stopping = false;
  };

  static void run(State& state);

  // Shared with the thread, which outlives this object where an action destroys it.
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;  ///< made when first needed
};

}  // namespace semel::idempotency
