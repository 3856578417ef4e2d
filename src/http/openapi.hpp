// A description of contracts for machines: OpenAPI 3.1.
#pragma once

#include <semel/http.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace semel::http {

/// The document as JSON. The same contracts give the same text.
std::string openapi_text(const std::vector<detail::ContractSpec>& contracts,
                         std::string_view title);

}  // namespace semel::http
