// An engine with a clock of its own on a store with nothing in it: in memory, or on PostgreSQL, whichever is linked.
#pragma once

#include "tests/support/fresh_store.hpp"

#include <semel/testing.hpp>

namespace semel::testing {

/// One at a time: the next one finds the store as empty.
class FreshEngine final : public Engine {
 public:
  explicit FreshEngine(const EngineOptions& options = {}) : Engine(fresh_store(), options) {}
};

}  // namespace semel::testing
