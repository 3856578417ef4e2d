// How runs end, and who hears of it: in the same commit.
#pragma once

#include "store/tables.hpp"

namespace semel::store {

/// Ends the run in its row, takes away what could wake it and tells those who wait for it. The entry that ends it is the
/// caller's to write.
void end_run(Tables& tables, RunKey run, const End& end, TimePoint now, Effects& effects);

/// Puts the end of `target`, which is over, into the inbox of `run`.
void deliver_result(Tables& tables, RunKey target, RunKey run, const std::string& op,
                    Effects& effects);

/// Cancels `run`, which is unfinished, and the unfinished children it made, and theirs: each by an entry of its own, or,
/// with a grace, through the inbox where somebody drives it. All runs it ended are in `effects.ended`, `run` first.
void cancel_tree(Tables& tables, RunKey run, const std::optional<TimePoint>& grace_until,
                 const std::string& reason, TimePoint now, Effects& effects);

/// Answers for `CancelRun`.
Answer cancel_run(Tables& tables, const CancelRun& command);

/// Each run once, and none that ended by the same command.
void settle(Effects& effects);

}  // namespace semel::store
