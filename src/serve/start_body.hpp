// The options of a start as they come in a body.
#pragma once

#include "engine/loop.hpp"
#include "serve/api.hpp"
#include "serve/wire.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace semel::serve {

/// What a body has under "input", in the object that `parent` names: null is an argument, absent is none.
std::optional<Json> given_input(std::string_view body, std::string_view parent);

/// Checked against the workflow. Throws ValidationError with the pointer into the body as sent, which begins with
/// `pointer`; WORKFLOW_NOT_FOUND, PAYLOAD_TOO_LARGE.
engine::StartInput start_input(const Parts& parts, const std::string& workspace,
                               const std::string& workflow, const wire::StartOptions& options,
                               const std::optional<Json>& input, const std::string& pointer);

}  // namespace semel::serve
