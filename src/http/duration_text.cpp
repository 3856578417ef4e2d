#include "http/duration_text.hpp"

#include "base/clock.hpp"
#include "http/characters.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

namespace semel::http {

namespace {

struct Unit {
  std::string_view name;
  std::chrono::nanoseconds length;
};

constexpr auto units = std::to_array<Unit>({{"ms", std::chrono::milliseconds{1}},
                                            {"s", std::chrono::seconds{1}},
                                            {"m", std::chrono::minutes{1}},
                                            {"h", std::chrono::hours{1}},
                                            {"d", std::chrono::days{1}}});

}  // namespace

std::optional<std::chrono::nanoseconds> read_duration(std::string_view text) {
  const auto digits =
      static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
  const auto* unit = std::ranges::find(units, text.substr(digits), &Unit::name);
  const std::string_view count = text.substr(0, digits);
  std::int64_t number = 0;
  const auto [end, wrong] = std::from_chars(count.data(), count.data() + count.size(), number);
  static_cast<void>(end);
  if (digits == 0 || unit == units.end() || wrong != std::errc{}) return std::nullopt;
  if (number > std::chrono::nanoseconds{base::longest} / unit->length) return std::nullopt;
  return number * unit->length;
}

}  // namespace semel::http
