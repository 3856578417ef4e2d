// Making runs: who gets the key and the id is decided by the unique indexes, what then becomes of the loser by
// store/start_policy.hpp.
#pragma once

#include "store/tables.hpp"

#include <variant>

namespace semel::store {

struct Created {};

using Claim = std::variant<Created, HandBack, StartRefused>;

/// Creates the run's row, its timers and attributes, or says who has its claims; then nothing was written. `asker` is the
/// run that asks for it as a child: it cannot supersede itself or a run above it. Has no entry yet.
Claim create_run(Tables& tables, const NewRun& run, Status status, std::optional<RunKey> asker,
                 Effects& effects);

/// Removes a finished run at once so that its id can be used again; its entries go with the next sweeps.
void remove_run(Tables& tables, RunKey run);

/// Answers for `StartRun`.
Answer start_run(Tables& tables, const StartRun& command);

}  // namespace semel::store
