// Journal entries for people and tools.
#pragma once

#include "store/reader.hpp"

#include <semel/run.hpp>

namespace semel::engine {

/// `value` has what arrived ("value", "failure", "attempt" …) and, under "requests", what was then asked for.
Entry view(const store::StoredEntry& stored);

}  // namespace semel::engine
