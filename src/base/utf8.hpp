// UTF-8 as RFC 3629 has it: no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace semel::base {

/// The length of the character that `text` starts with; 0 where that is not UTF-8 or `text` is
/// empty.
std::size_t utf8_length(std::string_view text);

bool is_utf8(std::string_view text);

/// Appends a code point that is not a surrogate.
void append_utf8(std::string& out, char32_t code_point);

}  // namespace semel::base
