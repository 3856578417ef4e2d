// What a caller gave, checked: wherever a call comes from, it is refused for the same reasons.
#pragma once

#include "engine/loop.hpp"
#include "engine/registry.hpp"

#include <semel/engine.hpp>

#include <string>

namespace semel::engine {

/// Throws Error: WORKFLOW_NOT_FOUND, PAYLOAD_TOO_LARGE, VALIDATION_ERROR, IDEMPOTENCY_KEY_INVALID.
StartInput start_input(const Registry& registry, const Limits& limits, std::string workspace,
                       detail::StartSpec spec);

/// Throws Error: PAYLOAD_TOO_LARGE, VALIDATION_ERROR.
store::Deliver delivery(const Limits& limits, std::string workspace, const std::string& token,
                        std::string payload, const ResumeOptions& options);

}  // namespace semel::engine
