// How values are spelled over HTTP: durations, times, versions, places in lists.
#pragma once

#include <semel/error.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace semel::serve {

/// "500ms", "30s", "15m", "24h", "30d". None where it is none of these or longer than a hundred years.
std::optional<Millis> read_duration(std::string_view text);

/// The same for a duration that is none of a user's: in seconds where it is whole ones.
std::string duration_text(std::chrono::nanoseconds duration);

/// "2026-01-31T12:00:00.000Z".
std::string time_text(TimePoint time);

/// RFC 3339. None where it is not.
std::optional<TimePoint> read_time(std::string_view text);

/// Digits alone: no sign, no spaces.
std::optional<std::uint64_t> read_whole_number(std::string_view text);

/// `"7"`, as in ETag.
std::string version_text(std::uint64_t version);

/// The value of If-Match: `"7"`, or `*` for any version. Throws ProblemError, 400.
std::optional<std::uint64_t> read_version(std::string_view text);

/// Where the next page of a list begins. Says nothing to whoever reads it, and is no secret.
std::string cursor_text(TimePoint created_at, std::string_view id);
std::string cursor_text(std::int64_t number);

/// Throw ProblemError, 400.
std::pair<TimePoint, std::string> read_run_cursor(std::string_view cursor);
std::int64_t read_number_cursor(std::string_view cursor);

/// URL-safe base64 without padding.
std::string base64url(std::string_view bytes);

}  // namespace semel::serve
