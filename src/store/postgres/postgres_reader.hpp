#pragma once

#include "store/postgres/connection.hpp"
#include "store/postgres/identity.hpp"
#include "store/reader.hpp"

#include <memory>

namespace semel::store::postgres {

/// Each call is one read-only transaction on one snapshot. Connects anew where the connection was lost. Throws `Failed`.
/// `self`: who looks, where it is one of the nodes.
std::unique_ptr<Reader> make_reader(const ConnectionOptions& options,
                                    std::shared_ptr<const NodeIdentity> self = nullptr);

}  // namespace semel::store::postgres
