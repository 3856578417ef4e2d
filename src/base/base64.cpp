#include "base/base64.hpp"

#include <array>
#include <cstdint>

namespace semel::base {

namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t no_digit = 0xFF;

constexpr auto digits = [] {
  std::array<std::uint8_t, 256> table{};
  table.fill(no_digit);
  for (std::size_t i = 0; i < alphabet.size(); ++i) {
    table[static_cast<unsigned char>(alphabet[i])] = static_cast<std::uint8_t>(i);
  }
  return table;
}();

std::uint32_t digit(char c) { return digits[static_cast<unsigned char>(c)]; }

}  // namespace

void append_base64(std::string& out, std::span<const std::byte> bytes) {
  out.reserve(out.size() + (bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = (group << 8) | (k < count ? std::to_integer<std::uint32_t>(bytes[i + k]) : 0);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += k <= count ? alphabet[(group >> (18 - 6 * k)) & 0x3F] : '=';
    }
  }
}

bool read_base64(std::string_view text, std::vector<std::byte>& out) {
  out.clear();
  if (text.size() % 4 != 0) return false;
  out.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool is_last = i + 4 == text.size();
    const std::size_t padding = !is_last || text[i + 3] != '=' ? 0 : text[i + 2] == '=' ? 2 : 1;
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::uint32_t value = k < 4 - padding ? digit(text[i + k]) : 0;
      if (value == no_digit) return false;
      group = (group << 6) | value;
    }
    // The bits that padding cuts off must be zero, or two texts would mean the same bytes.
    if ((group & ((1U << (8 * padding)) - 1)) != 0) return false;
    for (std::size_t k = 0; k < 3 - padding; ++k) {
      out.push_back(static_cast<std::byte>((group >> (16 - 8 * k)) & 0xFF));
    }
  }
  return true;
}

}  // namespace semel::base
