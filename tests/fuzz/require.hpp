// What must hold whatever the input.
#pragma once

#include <cstdlib>

namespace semel::fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace semel::fuzz
