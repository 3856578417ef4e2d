#include "serve/text.hpp"

#include "base/base64.hpp"
#include "base/utf8.hpp"
#include "http/duration_text.hpp"

#include <semel/http.hpp>

#include <algorithm>
#include <charconv>
#include <span>

namespace semel::serve {

namespace {

/// Digits alone: no sign, no spaces, nothing behind them.
template <class T>
std::optional<T> read_number(std::string_view text) {
  T number{};
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (wrong != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

[[noreturn]] void refuse_cursor() {
  throw http::ProblemError(400, "MALFORMED", "the cursor is not one that was given out",
                           {{"field", "cursor"}});
}

/// What `cursor_text` wrote, taken apart at the colon.
std::pair<std::int64_t, std::string> read_cursor(std::string_view cursor) {
  std::string padded{cursor};
  std::ranges::replace(padded, '-', '+');
  std::ranges::replace(padded, '_', '/');
  padded.append((4 - padded.size() % 4) % 4, '=');
  std::vector<std::byte> bytes;
  if (!base::read_base64(padded, bytes)) refuse_cursor();
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || !base::is_utf8(text)) refuse_cursor();
  const auto number = read_number<std::int64_t>(std::string_view{text}.substr(0, colon));
  if (!number) refuse_cursor();
  return {*number, text.substr(colon + 1)};
}

}  // namespace

std::optional<Millis> read_duration(std::string_view text) {
  const auto duration = http::read_duration(text);
  if (!duration) return std::nullopt;
  return std::chrono::duration_cast<Millis>(*duration);
}

std::string duration_text(std::chrono::nanoseconds duration) {
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return whole % 1000 == 0 ? std::to_string(whole / 1000) + "s" : std::to_string(whole) + "ms";
}

std::string time_text(TimePoint time) {
  const std::string quoted = value::encode(time);  // with quotes and nanoseconds
  const std::size_t dot = quoted.find('.');
  return quoted.substr(1, dot + 3) + "Z";
}

std::optional<TimePoint> read_time(std::string_view text) {
  TimePoint time{};
  const std::string quoted = value::encode(std::string(text));
  if (value::try_decode(quoted, time, value::Mode::boundary)) return std::nullopt;
  return time;
}

std::optional<std::uint64_t> read_whole_number(std::string_view text) {
  return read_number<std::uint64_t>(text);
}

std::string version_text(std::uint64_t version) { return '"' + std::to_string(version) + '"'; }

std::optional<std::uint64_t> read_version(std::string_view text) {
  if (text == "*") return std::nullopt;
  const bool is_quoted = text.size() > 2 && text.starts_with('"') && text.ends_with('"');
  const auto version =
      is_quoted ? read_number<std::uint64_t>(text.substr(1, text.size() - 2)) : std::nullopt;
  if (!version) {
    throw http::ProblemError(400, "MALFORMED",
                             "If-Match is the ETag of one version, such as \"7\", or *");
  }
  return version;
}

std::string base64url(std::string_view bytes) {
  std::string text;
  base::append_base64(text, std::as_bytes(std::span{bytes}));
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  while (text.ends_with('=')) text.pop_back();
  return text;
}

std::string cursor_text(TimePoint created_at, std::string_view id) {
  const auto since =
      std::chrono::duration_cast<std::chrono::nanoseconds>(created_at.time_since_epoch());
  return base64url(std::to_string(since.count()) + ":" + std::string(id));
}

std::string cursor_text(std::int64_t number) { return base64url(std::to_string(number) + ":"); }

std::pair<TimePoint, std::string> read_run_cursor(std::string_view cursor) {
  auto [number, id] = read_cursor(cursor);
  return {
      TimePoint{std::chrono::duration_cast<TimePoint::duration>(std::chrono::nanoseconds{number})},
      std::move(id)};
}

std::int64_t read_number_cursor(std::string_view cursor) {
  const auto [number, rest] = read_cursor(cursor);
  if (!rest.empty()) refuse_cursor();
  return number;
}

}  // namespace semel::serve
