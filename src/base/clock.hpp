// Time, passed in. Production reads the system's clocks; tests and simulation own theirs.
#pragma once

#include <semel/error.hpp>

namespace semel::base {

/// Wall-clock time, as written to the store. May jump.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

class SystemClock final : public Clock {
 public:
  TimePoint now() const override;
};

/// A clock that moves only when told to.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(TimePoint start) : now_(start) {}

  TimePoint now() const override { return now_; }

  void set(TimePoint now) { now_ = now; }

 private:
  TimePoint now_;
};

/// As long as anything may take. What is longer is taken for this: it would not fit into nanoseconds.
inline constexpr std::chrono::hours longest{24 * 365 * 100};

template <class Rep, class Period>
constexpr std::chrono::nanoseconds bounded(std::chrono::duration<Rep, Period> duration) {
  if (duration >= longest) return longest;
  if (duration <= -longest) return -longest;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration);
}

/// Never runs backwards; only differences mean anything. For measuring, not for deciding what is due.
std::chrono::nanoseconds monotonic_now();

/// How long the calling thread has been computing: what is missing to `monotonic_now`, it has waited.
std::chrono::nanoseconds thread_cpu_time();

}  // namespace semel::base
