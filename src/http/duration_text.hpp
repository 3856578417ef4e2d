// Durations as they stand in JSON: "500ms", "30s", "5m", "24h", "30d".
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace semel::http {

/// Nothing where it is not a whole number with one of the units, or longer than anything may take.
std::optional<std::chrono::nanoseconds> read_duration(std::string_view text);

}  // namespace semel::http
