#include "idempotency/fingerprint.hpp"

#include "base/json_text.hpp"

#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>

namespace semel::idempotency {

namespace {

constexpr std::string_view version_tag = "semel-fp-1";
constexpr std::size_t digest_bytes = 32;

/// Fetched once and kept for ever: a fetch takes longer than the digest of a small request.
const EVP_MD* sha256_algorithm() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return algorithm;
}

EVP_MD_CTX* thread_context() {
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };

  thread_local const std::unique_ptr<EVP_MD_CTX, Free> context{EVP_MD_CTX_new()};
  return context.get();
}

void append_length(std::string& out, std::uint64_t length) {
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>((length >> shift) & 0xFF);
}

}  // namespace

std::string sha256(std::string_view data) {
  std::array<unsigned char, digest_bytes> digest{};
  EVP_MD_CTX* const context = thread_context();
  const bool is_done = context != nullptr &&
                       EVP_DigestInit_ex(context, sha256_algorithm(), nullptr) == 1 &&
                       EVP_DigestUpdate(context, data.data(), data.size()) == 1 &&
                       EVP_DigestFinal_ex(context, digest.data(), nullptr) == 1;
  if (!is_done) throw std::runtime_error("OpenSSL has no SHA-256");
  return {digest.begin(), digest.end()};
}

std::string sha256_hex(std::string_view data) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string out;
  out.reserve(2 * digest_bytes);
  for (const char c : sha256(data)) {
    const auto byte = static_cast<unsigned char>(c);
    out += hex[byte >> 4];
    out += hex[byte & 0xF];
  }
  return out;
}

std::string sha256_hex(std::span<const std::byte> data) {
  return sha256_hex(std::string_view{reinterpret_cast<const char*>(data.data()), data.size()});
}

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
