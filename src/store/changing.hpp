// What an entry changes besides the journal, and the commands that append entries.
#pragma once

#include "store/tables.hpp"

namespace semel::store {

/// Applies `changes` of a command whose entries are written; outcomes go to `next` and on. `changes.status` is not
/// written here where the run was created or reopened with it.
void apply(Tables& tables, RunKey run, Seq next, const Changes& changes, TimePoint now,
           Effects& effects);

/// What `AdvanceRun` does; false: nothing happened.
bool advance_if_next(Tables& tables, const AdvanceRun& command, Effects& effects);

Answer advance_run(Tables& tables, const AdvanceRun& command);
Answer reopen_run(Tables& tables, const ReopenRun& command);
Answer mark_run(Tables& tables, const MarkRun& command);

}  // namespace semel::store
