#include "engine/start_options.hpp"

#include "base/utf8.hpp"

#include <semel/hook.hpp>

#include <algorithm>
#include <cctype>

namespace semel::engine {

namespace {

constexpr std::size_t key_bytes_max = 255;
constexpr std::size_t attribute_bytes_max = 1024;

[[noreturn]] void refuse(const std::string& what) { throw Error("VALIDATION_ERROR", what); }

}  // namespace

}  // namespace semel::engine

namespace semel::detail {

void check_token(const std::string& token) {
  if (token.empty() || token.size() > engine::key_bytes_max)
    engine::refuse("/token: a token has 1 to 255 bytes");
  static_cast<void>(value::encode(token));  // throws where it is not UTF-8
}

}  // namespace semel::detail

namespace semel::engine {

void check_start_options(const StartOptions& options) {
  if (options.key && (options.key->empty() || options.key->size() > key_bytes_max)) {
    throw Error("IDEMPOTENCY_KEY_INVALID", "/key: a key has 1 to 255 bytes");
  }
  if (options.run_id) {
    const bool allowed = std::ranges::all_of(*options.run_id, [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '.' || c == '_' || c == ':' || c == '-';
    });
    if (options.run_id->empty() || options.run_id->size() > key_bytes_max || !allowed) {
      refuse("/run_id: a run's id has 1 to 255 characters of A-Z a-z 0-9 . _ : -");
    }
  }
  if (options.token) detail::check_token(*options.token);
  if (options.key_ttl && *options.key_ttl < Millis{0}) refuse("/key_ttl: must not be negative");
  if (options.delay && *options.delay < Millis{0}) refuse("/delay: must not be negative");
  if (options.deadline && *options.deadline <= Millis{0}) refuse("/deadline: must be positive");
  for (const auto& [name, value] : options.attributes) {
    if (name.empty() || name.size() > key_bytes_max || value.size() > attribute_bytes_max) {
      refuse("/attributes: a name has 1 to 255 bytes, a value at most 1024");
    }
    if (!base::is_utf8(name)) refuse("/attributes: a name that is not UTF-8");
    if (!base::is_utf8(value)) refuse("/attributes/" + name + ": not UTF-8");
  }
}

}  // namespace semel::engine
