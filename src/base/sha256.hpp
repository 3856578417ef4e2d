// SHA-256, for what is compared by a digest.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace semel::base {

/// The 32 bytes of the digest.
std::string sha256(std::string_view data);

/// The same in 64 lower case hexadecimal digits.
std::string sha256_hex(std::string_view data);
std::string sha256_hex(std::span<const std::byte> data);

}  // namespace semel::base
