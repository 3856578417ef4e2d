#include "idempotency/key_header.hpp"

#include <algorithm>

namespace semel::idempotency {

namespace {

base::Fault invalid(const char* why) { return {base::Errc::refused, why}; }

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool is_printable(char c) { return c >= 0x20 && c <= 0x7E; }

/// What may follow a quoted key. Its content does not matter, but a second item is no parameter.
bool is_parameters(std::string_view rest) {
  if (rest.empty()) return true;
  if (rest.front() != ';') return false;
  bool is_quoted = false;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (!is_printable(rest[i])) return false;
    if (is_quoted && rest[i] == '\\') {
      if (++i == rest.size()) return false;
    } else if (rest[i] == '"') {
      is_quoted = !is_quoted;
    } else if (rest[i] == ',' && !is_quoted) {
      return false;
    }
  }
  return !is_quoted;
}

base::Result<std::string> checked(std::string key) {
  if (key.empty()) return invalid("the key is empty");
  if (key.size() > key_bytes_max) return invalid("the key has more than 255 characters");
  return key;
}

base::Result<std::string> parse_quoted(std::string_view value) {
  std::string key;
  std::size_t at = 1;
  for (; at < value.size() && value[at] != '"'; ++at) {
    char c = value[at];
    if (c == '\\') {
      if (++at == value.size()) break;
      c = value[at];
      if (c != '"' && c != '\\') return invalid(R"(only \" and \\ are escapes in a quoted key)");
    } else if (!is_printable(c)) {
      return invalid("a quoted key has printable ASCII characters only");
    }
    key += c;
  }
  if (at >= value.size()) return invalid("the quotes do not match");
  if (!is_parameters(value.substr(at + 1))) return invalid("something follows the quoted key");
  return checked(std::move(key));
}

}  // namespace

base::Result<std::string> parse_key(std::string_view value) {
  value = trimmed(value);
  if (value.starts_with('"')) return parse_quoted(value);
  const auto is_allowed = [](char c) { return c > 0x20 && c <= 0x7E && c != '"' && c != ','; };
  if (!std::ranges::all_of(value, is_allowed))
    return invalid("a key has printable ASCII characters without spaces, commas and quotes only");
  return checked(std::string{value});
}

base::Result<std::optional<std::string>> parse_key_lines(std::span<const std::string_view> lines) {
  if (lines.empty()) return std::optional<std::string>{};
  if (lines.size() > 1) return invalid("the header came more than once");
  auto key = parse_key(lines.front());
  if (!key) return key.error();
  return std::optional{*std::move(key)};
}

}  // namespace semel::idempotency
