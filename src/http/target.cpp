#include "http/target.hpp"

#include "base/utf8.hpp"
#include "http/characters.hpp"

#include <semel/detail/http_message.hpp>

#include <algorithm>

namespace semel::http {

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size() || !is_hex(text[i + 1]) || !is_hex(text[i + 2])) return std::nullopt;
    decoded += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
    i += 2;
  }
  if (!base::is_utf8(decoded)) return std::nullopt;
  return decoded;
}

std::string percent_encoded(std::string_view text) {
  static constexpr std::string_view digits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool stays = is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') ||
                       std::string_view{"-._~"}.find(c) != std::string_view::npos;
    if (stays) {
      encoded += c;
    } else {
      encoded.append(1, '%').append(1, digits[byte >> 4U]).append(1, digits[byte & 15U]);
    }
  }
  return encoded;
}

std::optional<std::map<std::string, std::string>> read_query(std::string_view query) {
  std::map<std::string, std::string> parameters;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    std::string pair{query.substr(0, end)};
    query.remove_prefix(std::min(end + 1, query.size()));
    if (pair.empty()) continue;
    std::ranges::replace(pair, '+', ' ');
    const std::size_t equals = std::min(pair.find('='), pair.size());
    auto name = percent_decoded(std::string_view{pair}.substr(0, equals));
    auto value = percent_decoded(std::string_view{pair}.substr(std::min(equals + 1, pair.size())));
    if (!name || !value) return std::nullopt;
    parameters.insert_or_assign(std::move(*name), std::move(*value));
  }
  return parameters;
}

}  // namespace semel::http
