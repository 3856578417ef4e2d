// Where tests that are the same for every store put their tables. Which store it is depends on what is linked:
// fresh_store.cpp or fresh_postgres.cpp.
#pragma once

#include <string>

namespace semel::testing {

/// The URL of a store with nothing in it.
std::string fresh_store();

}  // namespace semel::testing
