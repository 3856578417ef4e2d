// Where stages are set up. Which store it is depends on what is linked: sqlite_stores.cpp or postgres_stores.cpp.
#pragma once

#include "engine/driver.hpp"

namespace semel::crash {

/// Opens an empty store, and from the second time on the same one again.
engine::StoreFactory fresh_stores();

}  // namespace semel::crash
