// Which seeds to simulate, from the environment: SEMEL_SEED=n replays one, SEMEL_SEEDS=n sets how many.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

namespace semel::sim {

inline std::optional<std::uint64_t> number_from(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::stoull(text);
}

/// The one to replay.
inline std::optional<std::uint64_t> only_seed() { return number_from("SEMEL_SEED"); }

inline bool is_traced() { return number_from("SEMEL_TRACE").value_or(0) != 0; }

}  // namespace semel::sim
