// Errors as `application/problem+json` (RFC 9457): what people read, and the code that programs decide by.
#pragma once

#include <semel/detail/http_message.hpp>
#include <semel/error.hpp>

#include <boost/json/object.hpp>

#include <string_view>

namespace semel::http {

/// "Not Found"; empty for a status nobody knows.
std::string_view reason_of(int status);

/// The status that goes with a code of ours; 500 for any other.
int status_of(std::string_view code);

/// Whether the same request may go well later, as it is.
bool is_retryable(std::string_view code);

/// An answer that says what went wrong. `more` are members beside the usual ones: `field`, `runId`.
Response problem(int status, std::string_view code, std::string_view detail,
                 const boost::json::object& more = {});

/// The same by the code alone.
Response problem(std::string_view code, std::string_view detail,
                 const boost::json::object& more = {});

}  // namespace semel::http
