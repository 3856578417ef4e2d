#pragma once

#include "store/postgres/connection.hpp"
#include "store/store.hpp"

#include <memory>

namespace semel::store::postgres {

/// Each call is one read-only transaction on one snapshot. Connects anew where the connection was lost. Throws `Failed`.
std::unique_ptr<Reader> make_reader(const ConnectionOptions& options);

}  // namespace semel::store::postgres
