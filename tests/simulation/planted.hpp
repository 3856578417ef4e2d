// Deliberately broken variants of the engine's surroundings. A simulator that does not find them proves nothing.
#pragma once

#include "tests/simulation/sabotage.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace semel::sim {

struct Planted {
  std::string_view name;
  std::unique_ptr<Sabotage> (*make)();
  /// The invariants it breaks, one of which it has to be found by.
  std::string_view breaks{};
  std::uint64_t first_seed = 1;  ///< where to look for one that shows itself rarely
};

/// Each breaks a promise.
std::span<const Planted> planted_bugs();

/// These look alike and break none: the engine copes. The first of them does nothing at all.
std::span<const Planted> harmless_oddities();

}  // namespace semel::sim
