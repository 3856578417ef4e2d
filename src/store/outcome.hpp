// The entries a store writes itself: what it decided, behind the entries of the command that asked.
#pragma once

#include "store/store.hpp"

#include <string>
#include <string_view>

namespace semel::store {

/// The child `op` asked for is `run_id`, made now or attached to.
std::string child_outcome(const std::string& op, std::string_view run_id, bool created);

/// The child `op` asked for was refused: as the same start from outside, with the same code.
std::string refused_outcome(const std::string& op, const StartRefused& refused);

/// `op` waits for a run that is not there.
std::string not_found_outcome(const std::string& op, std::string_view run_id);

/// `op` waits for the run it belongs to, which could never go on.
std::string self_wait_outcome(const std::string& op, std::string_view run_id);

/// The end of a run that was cancelled from outside.
journal::Entry cancelled_entry(const std::string& reason);

}  // namespace semel::store
