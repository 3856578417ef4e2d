#include "tests/support/fresh_store.hpp"

namespace semel::testing {

std::string fresh_store() { return "memory:"; }

}  // namespace semel::testing
