// What a start may ask for.
#pragma once

#include <semel/options.hpp>

namespace semel::engine {

/// Throws VALIDATION_ERROR (IDEMPOTENCY_KEY_INVALID for a key) that names the option and the rule.
void check_start_options(const StartOptions& options);

}  // namespace semel::engine
