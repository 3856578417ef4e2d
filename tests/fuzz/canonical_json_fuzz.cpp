// The one text of all JSON texts that mean the same: it is JSON, it is its own canonical text, and what reading and
// writing does to a value does not change it.
#include "base/json_text.hpp"
#include "tests/fuzz/require.hpp"

#include <semel/error.hpp>
#include <semel/value.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace {

using semel::fuzz::require;

/// Longer ones are read as doubles, which have fewer digits.
bool has_long_number(std::string_view json) {
  std::size_t digits = 0;
  for (const char c : json) {
    const bool is_part = (c >= '0' && c <= '9') || c == '.';
    if (digits > 0 && c == 'e') return true;
    digits = is_part ? digits + 1 : 0;
    if (digits > 15) return true;
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view json{reinterpret_cast<const char*>(data), size};
  const auto canonical = semel::base::try_canonical(json);
  if (!canonical) return 0;

  require(semel::base::try_canonical(*canonical) == canonical);
  semel::Json read;
  try {
    read = semel::value::from_text(*canonical);
  } catch (const semel::ValidationError&) {
    return 0;  // deeper than a value may be, or a number beyond a double
  }
  if (!has_long_number(*canonical)) {
    require(semel::base::try_canonical(semel::value::to_text(read)) == canonical);
  }
  return 0;
}
