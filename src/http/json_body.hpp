// Bodies that have to be JSON of a certain type, and how a misfit is answered.
#pragma once

#include <semel/detail/http_message.hpp>
#include <semel/value.hpp>

#include <optional>
#include <string_view>

namespace semel::http {

/// "application/json" and "application/…+json", whatever their parameters.
bool is_json(std::string_view content_type);

/// 415 where the body is not plain JSON by its headers. An empty body needs no Content-Type.
std::optional<Response> refuse_media(const Request& request);

/// The answer to a body that does not fit: 400 where it is not JSON or repeats a member, 413 where it is nested too
/// deeply, else 422 with the pointer of the bad field.
Response refuse_body(std::string_view text, const value::Misfit& misfit);

}  // namespace semel::http
