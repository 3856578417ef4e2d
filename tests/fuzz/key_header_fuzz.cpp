// The Idempotency-Key header: what is taken for a key is one, and its other spelling is the same key.
#include "idempotency/key_header.hpp"
#include "tests/fuzz/require.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

using namespace semel::idempotency;
using semel::fuzz::require;

bool is_printable(char c) { return c >= 0x20 && c <= 0x7e; }

std::string quoted(std::string_view key) {
  std::string text = "\"";
  for (const char c : key) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

bool is_bare(std::string_view key) { return key.find_first_of(" \",") == std::string_view::npos; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view value{reinterpret_cast<const char*>(data), size};
  const auto key = parse_key(value);

  const std::array<std::string_view, 2> twice{value, value};
  require(!parse_key_lines(twice));
  if (!key) {
    require(!key.error().message.empty());
    return 0;
  }
  require(!key->empty() && key->size() <= key_bytes_max);
  require(std::ranges::all_of(*key, is_printable));
  const auto other = parse_key(quoted(*key));
  require(other && *other == *key);
  const auto with_parameters = parse_key(quoted(*key) + ";a=1");
  require(with_parameters && *with_parameters == *key);
  if (is_bare(*key)) {
    const auto bare = parse_key(*key);
    require(bare && *bare == *key);
  }
  return 0;
}
