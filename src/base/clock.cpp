#include "base/clock.hpp"

namespace semel::base {

TimePoint SystemClock::now() const { return std::chrono::system_clock::now(); }

std::chrono::nanoseconds monotonic_now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace semel::base
