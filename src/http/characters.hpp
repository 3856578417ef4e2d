// Which characters may stand where in HTTP/1.1 (RFC 9110, 9112), and lists separated by commas.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace semel::http {

namespace detail {

enum CharacterClass : unsigned char {
  token = 1,
  header_value = 2,
  in_target = 4,
  in_host = 8,
};

constexpr std::array<unsigned char, 256> character_classes = [] {
  std::array<unsigned char, 256> table{};
  for (std::size_t c = 0; c < 256; ++c) {
    const bool alphanumeric =
        (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    const char as_char = static_cast<char>(c);
    const auto is_one_of = [&](std::string_view set) {
      return c != 0 && c < 0x7F && set.find(as_char) != std::string_view::npos;
    };
    unsigned classes = 0;
    if (alphanumeric || is_one_of("!#$%&'*+-.^_`|~")) classes |= token;
    if (c == '\t' || (c >= 0x20 && c != 0x7F)) classes |= header_value;
    if (c > 0x20 && c < 0x7F && c != '#') classes |= in_target;
    if (alphanumeric || is_one_of("-._~%!$&'()*+;=")) classes |= in_host;
    table[c] = static_cast<unsigned char>(classes);
  }
  return table;
}();

constexpr bool is_in(char c, CharacterClass wanted) {
  return (character_classes[static_cast<unsigned char>(c)] & wanted) != 0;
}

}  // namespace detail

constexpr bool is_token_character(char c) { return detail::is_in(c, detail::token); }

/// Bytes above ASCII included: their meaning is between client and application.
constexpr bool is_value_character(char c) { return detail::is_in(c, detail::header_value); }

constexpr bool is_target_character(char c) { return detail::is_in(c, detail::in_target); }

constexpr bool is_host_character(char c) { return detail::is_in(c, detail::in_host); }

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The value of a hexadecimal digit; -1 for another character.
constexpr int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

constexpr bool is_hex(char c) { return hex_value(c) >= 0; }

/// Without the white space that HTTP allows around a value.
constexpr std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Calls `each` for every element of a list; empty ones are passed over (RFC 9110, 5.6.1).
template <class F>
void for_each_element(std::string_view list, F each) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view element = trimmed(list.substr(0, comma));
    if (!element.empty()) each(element);
    if (comma == std::string_view::npos) return;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace semel::http
