#include "base/sha256.hpp"

#include <openssl/evp.h>

#include <array>
#include <memory>
#include <stdexcept>

namespace semel::base {

namespace {

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

}  // namespace semel::base
