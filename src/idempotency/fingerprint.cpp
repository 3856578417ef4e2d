#include "idempotency/fingerprint.hpp"

#include "base/json_text.hpp"

#include <cstdint>

namespace semel::idempotency {

namespace {

constexpr std::string_view version_tag = "semel-fp-1";

void append_length(std::string& out, std::uint64_t length) {
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>((length >> shift) & 0xFF);
}

}  // namespace

Fingerprint::Fingerprint() { add(version_tag); }

Fingerprint& Fingerprint::add(std::string_view part) {
  append_length(parts_, part.size());
  parts_ += part;
  return *this;
}

Fingerprint& Fingerprint::add_json(std::string_view json) { return add(canonical_or_raw(json)); }

std::string Fingerprint::digest() const { return sha256(parts_); }

std::string start_fingerprint(std::string_view workflow, std::string_view canonical_args) {
  return Fingerprint{}.add("start").add(workflow).add(canonical_args).digest();
}

std::string canonical_or_raw(std::string_view json) {
  if (auto canonical = base::try_canonical(json)) return std::move(canonical->insert(0, 1, 'c'));
  return 'r' + std::string{json};
}

}  // namespace semel::idempotency
