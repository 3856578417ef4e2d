#pragma once

#include "store/key_reader.hpp"

#include <memory>
#include <string>

namespace semel::store::postgres {

/// On a connection of its own, opened when it is first needed: who is let in does not wait for what somebody else looks up.
std::unique_ptr<KeyReader> make_key_reader(std::string url);

}  // namespace semel::store::postgres
