// What stands in a request's target, decoded.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace semel::http {

/// Undoes percent-encoding, once. Nothing where it is not well-formed or what comes out is not UTF-8.
std::optional<std::string> percent_decoded(std::string_view text);

/// Everything but letters, digits and "-._~" encoded: fits wherever one part of a path or a query goes.
std::string percent_encoded(std::string_view text);

/// The parameters of a query; "+" is a space, of repeated names the last counts. Nothing where decoding fails.
std::optional<std::map<std::string, std::string>> read_query(std::string_view query);

}  // namespace semel::http
