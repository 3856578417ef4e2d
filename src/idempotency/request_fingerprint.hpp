// What an HTTP request asks for, as a fingerprint.
#pragma once

#include "idempotency/policy.hpp"

#include <string>
#include <string_view>

namespace semel::idempotency {

struct RequestParts {
  std::string_view method;
  std::string_view path;          ///< as sent, without the query
  std::string_view query;         ///< as sent, without the question mark
  std::string_view content_type;  ///< the whole field; empty: none
  bool is_encoded = false;        ///< there is a Content-Encoding
  std::string_view body;
};

/// The same for requests that are the same as `compared` says. Nothing is decoded: the query is split at `&` and sorted
/// by name, parameters of one name keep their order; the media type counts without its parameters. Empty where nothing is
/// compared.
std::string request_fingerprint(const Compared& compared, const RequestParts& request);

/// Type and subtype in lower case, without parameters.
std::string media_type(std::string_view content_type);

/// `application/json`, or a type that ends in `+json`.
bool is_json(std::string_view media_type);

}  // namespace semel::idempotency
