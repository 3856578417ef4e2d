// The entries a store writes itself: what it decided, behind the entries of the command that asked.
#pragma once

#include "store/answer.hpp"

#include <semel/value.hpp>

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

/// The hook `op` asked for is open.
std::string hook_outcome(const std::string& op);

/// The token of the hook `op` asked for, or asks about, belongs to `owner`.
std::string conflict_outcome(const std::string& op, std::string_view token, std::string_view owner);

/// Whether the hook `op` asked to close is closed.
std::string close_outcome(const std::string& op, bool closed);

/// What a hook's await gets: the payload, or why it does not fit. Absent: there is none, and `op` is not to wait for one.
std::string payload_outcome(const std::string& op, const std::optional<PayloadItem>& payload,
                            const std::optional<value::Misfit>& misfit);

/// The step `op` was a transaction, and this is its result.
std::string step_outcome(const std::string& op, const std::string& name, std::uint32_t attempt,
                         const std::string& value);

/// The payload, or the misfit as a failure, and the payload's number.
void take_payload(journal::Arrival& arrival, const PayloadItem& payload,
                  const std::optional<value::Misfit>& misfit);

/// The end of a run that was cancelled from outside.
journal::Entry cancelled_entry(const std::string& reason);

}  // namespace semel::store
