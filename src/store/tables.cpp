#include "store/tables.hpp"

#include "base/clock.hpp"

#include <algorithm>

namespace semel::store {

std::int64_t stored_duration(std::chrono::nanoseconds duration) {
  return std::clamp<std::chrono::nanoseconds>(duration, std::chrono::nanoseconds{0}, base::longest)
      .count();
}

}  // namespace semel::store
