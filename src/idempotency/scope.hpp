// Whose a key is, as one text: equal scopes have equal texts, different ones different texts.
#pragma once

#include <semel/idempotency.hpp>

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace semel::idempotency {

/// Names and values with their lengths, by name: "5:actor=2:p1;". No names: empty, which is the global scope.
std::string scope_text(const std::map<std::string, std::string>& scope);

/// The same for those whom `scope` goes by; who is not known is nobody in particular.
std::string caller_scope_text(Scope scope, std::string_view actor, std::string_view tenant);

/// None where the scope needs somebody who is not known.
std::optional<std::string> scope_text(Scope scope, std::string_view actor, std::string_view tenant);

}  // namespace semel::idempotency
