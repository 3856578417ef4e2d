#pragma once

#include "store/hints.hpp"
#include "store/postgres/identity.hpp"

#include <memory>
#include <string>

namespace semel::store::postgres {

/// What is left for the node that `identity` is at the time. On a connection of their own, opened when it is first needed.
std::unique_ptr<Hints> make_hints(std::string url, std::shared_ptr<NodeIdentity> identity);

}  // namespace semel::store::postgres
