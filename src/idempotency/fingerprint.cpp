#include "idempotency/fingerprint.hpp"

#include "base/json_text.hpp"

#include <array>
#include <cstdint>

namespace semel::idempotency {

namespace {

constexpr std::string_view version_tag = "semel-fp-1";

/// Room for a small request: growing to it step by step takes longer than its digest.
constexpr std::size_t parts_reserve = 480;

void append_length(std::string& out, std::uint64_t length) {
  std::array<char, 8> bytes{};
  for (char& byte : bytes) {
    byte = static_cast<char>(length & 0xFF);
    length >>= 8;
  }
  out.append(bytes.data(), bytes.size());
}

}  // namespace

Fingerprint::Fingerprint() {
  parts_.reserve(parts_reserve);
  add(version_tag);
}

Fingerprint& Fingerprint::add(std::string_view begin, std::string_view end) {
  append_length(parts_, begin.size() + end.size());
  parts_.append(begin).append(end);
  return *this;
}

Fingerprint& Fingerprint::add_json(std::string_view json) { return add(canonical_or_raw(json)); }

std::string Fingerprint::digest() const { return sha256(parts_); }

std::string start_fingerprint(std::string_view workflow, std::string_view canonical_args) {
  return Fingerprint{}.add("start").add(workflow).add(canonical_args).digest();
}

std::string canonical_or_raw(std::string_view json) {
  if (auto canonical = base::try_canonical(json, "c")) return *std::move(canonical);
  return 'r' + std::string{json};
}

}  // namespace semel::idempotency
