#include "base/json_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace semel::base {

namespace {

constexpr std::int64_t exponent_max = 1'000'000'000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The exponent written as `text`, which is empty or has a sign and digits.
std::optional<std::int64_t> exponent_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return 0;
  std::int64_t exponent = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (error != std::errc{} || exponent > exponent_max || exponent < -exponent_max) {
    return std::nullopt;
  }
  return exponent;
}

constexpr auto plain_characters = [] {
  std::array<bool, 256> table{};
  for (std::size_t c = 0x20; c < 0x7F; ++c) table[c] = c != '"' && c != '\\';
  return table;
}();

bool is_plain(char c) { return plain_characters[static_cast<unsigned char>(c)]; }

/// The same for eight characters at once. A byte's top bit says that it is not plain; bits above
/// the first such byte may be wrong, which is of no consequence.
bool are_plain(const char* eight) {
  constexpr std::uint64_t each = 0x0101010101010101U;
  std::uint64_t word = 0;
  std::memcpy(&word, eight, sizeof word);
  const auto zero_in = [](std::uint64_t bytes) { return (bytes - each) & ~bytes; };
  const std::uint64_t control = (word - 0x20 * each) & ~word;
  const std::uint64_t special =
      zero_in(word ^ ('"' * each)) | zero_in(word ^ ('\\' * each)) | zero_in(word ^ (0x7F * each));
  return ((control | special | word) & (0x80 * each)) == 0;
}

}  // namespace

std::size_t plain_length(std::string_view text) {
  std::size_t length = 0;
  while (text.size() - length >= 8 && are_plain(text.data() + length)) length += 8;
  while (length < text.size() && is_plain(text[length])) ++length;
  return length;
}

std::optional<Decimal> exact_decimal(std::string_view number) {
  const std::size_t e = std::min(number.find_first_of("eE"), number.size());
  const auto exponent = exponent_of(number.substr(std::min(e + 1, number.size())));

  Decimal decimal;
  decimal.is_negative = number.starts_with('-');
  std::int64_t fraction_digits = 0;
  bool is_fraction = false;
  for (const char c : number.substr(0, e)) {
    if (c == '.') is_fraction = true;
    if (!is_digit(c)) continue;
    if (c != '0' || !decimal.digits.empty()) decimal.digits += c;
    if (is_fraction) ++fraction_digits;
  }
  if (decimal.digits.empty()) return Decimal{};
  if (!exponent) return std::nullopt;

  const std::size_t significant = decimal.digits.find_last_not_of('0') + 1;
  const auto zeros = static_cast<std::int64_t>(decimal.digits.size() - significant);
  decimal.digits.resize(significant);
  decimal.exponent = *exponent - fraction_digits + zeros;
  return decimal;
}

void append_decimal(std::string& out, const Decimal& decimal) {
  if (decimal.digits.empty()) {
    out += '0';
    return;
  }
  if (decimal.is_negative) out += '-';
  const auto count = static_cast<std::int64_t>(decimal.digits.size());
  if (decimal.exponent == 0 || (decimal.exponent > 0 && count + decimal.exponent <= 21)) {
    out += decimal.digits;
    out.append(static_cast<std::size_t>(decimal.exponent), '0');
  } else if (decimal.exponent < 0 && count + decimal.exponent > 0) {
    const auto whole = static_cast<std::size_t>(count + decimal.exponent);
    out.append(decimal.digits, 0, whole).append(1, '.').append(decimal.digits, whole);
  } else {
    out += decimal.digits;
    out += 'e';
    out += std::to_string(decimal.exponent);
  }
}

}  // namespace semel::base
