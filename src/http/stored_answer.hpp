// An answer as it is kept under an idempotency key.
#pragma once

#include <semel/detail/http_message.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace semel::http {

/// Never kept and never replayed: what belongs to one connection, frames a message, sets cookies or asks for
/// credentials. The date is fresh with every answer.
bool is_kept(std::string_view header);

/// Status, headers and body as bytes: the same answer for the same bytes.
std::string store_answer(const Response& answer);

/// None where the bytes are no answer of ours.
std::optional<Response> stored_answer(std::string_view bytes);

}  // namespace semel::http
