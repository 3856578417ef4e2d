// The Idempotency-Key header: a key as it is, or as a structured-field string.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace semel::idempotency {

inline constexpr std::size_t key_bytes_max = 255;

/// The key in a field's value, or what is wrong with it; spaces and tabs around it do not count.
///
///   bare     0x21–0x7E without `"` and `,`
///   quoted   0x20–0x7E with the escapes `\"` and `\\` only; parameters behind it are ignored
///
/// 1 to 255 characters, counted decoded; `abc` and `"abc"` are the same key.
base::Result<std::string> parse_key(std::string_view value);

/// The key in all lines of the header that came: none is no key, more than one is refused.
base::Result<std::optional<std::string>> parse_key_lines(std::span<const std::string_view> lines);

}  // namespace semel::idempotency
