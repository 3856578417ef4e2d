// Base64 as RFC 4648 section 4 has it: with padding, without line breaks.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace semel::base {

void append_base64(std::string& out, std::span<const std::byte> bytes);

/// False where `text` is not what `append_base64` writes; each byte string has exactly one text.
bool read_base64(std::string_view text, std::vector<std::byte>& out);

}  // namespace semel::base
