// What the codec in semel/value.hpp needs below the level of types: characters and decimal numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace semel::base {

/// How a variant's alternative begins where its place has to be said.
inline constexpr std::string_view alternative_start = "{\"$alternative\":";

/// How many characters at the start of `text` are ASCII and stand for themselves in a JSON string.
std::size_t plain_length(std::string_view text);

/// A number without rounding: the digits, times ten to the power of `exponent`.
struct Decimal {
  bool is_negative = false;
  std::string digits;  ///< no zero at either end; zero itself has none and is not negative
  std::int64_t exponent = 0;

  friend bool operator==(const Decimal&, const Decimal&) = default;
};

/// The value of a JSON number; nothing where the exponent is beyond a thousand million.
std::optional<Decimal> exact_decimal(std::string_view number);

/// The one JSON text of a decimal: 120, 1.5, 1e+30, 15e-9.
void append_decimal(std::string& out, const Decimal& decimal);

/// `value::canonical` without exceptions, behind `begin`: nothing where it would throw.
std::optional<std::string> try_canonical(std::string_view json, std::string_view begin = {});

}  // namespace semel::base
