// Which rule answers which command. Commands about the store as a whole (who has it open, what is due, what may be
// forgotten) and code of somebody else's are each store's own.
#pragma once

#include "store/changing.hpp"
#include "store/ending.hpp"
#include "store/hooks.hpp"
#include "store/looking.hpp"
#include "store/reservations.hpp"
#include "store/starting.hpp"

namespace semel::store {

inline Answer answer(Tables& tables, const StartRun& command) { return start_run(tables, command); }

inline Answer answer(Tables& tables, const AdvanceRun& command) {
  return advance_run(tables, command);
}

inline Answer answer(Tables& tables, const CancelRun& command) {
  return cancel_run(tables, command);
}

inline Answer answer(Tables& tables, const ReopenRun& command) {
  return reopen_run(tables, command);
}

inline Answer answer(Tables& tables, const MarkRun& command) { return mark_run(tables, command); }

inline Answer answer(Tables& tables, const SaveProgress& command) {
  tables.wakeups.save_progress(command.run, command.op, command.value);
  return Done{};
}

inline Answer answer(Tables& tables, const LoadRun& command) { return load_run(tables, command); }

inline Answer answer(Tables& tables, const ReadInbox& command) {
  return read_inbox(tables, command);
}

inline Answer answer(Tables& tables, const FindRun& command) { return find_run(tables, command); }

inline Answer answer(Tables& tables, const Deliver& command) { return deliver(tables, command); }

inline Answer answer(Tables& tables, const ResumeOrStart& command) {
  return resume_or_start(tables, command);
}

inline Answer answer(Tables& tables, const Reserve& command) { return reserve(tables, command); }

inline Answer answer(Tables& tables, const Complete& command) { return complete(tables, command); }

inline Answer answer(Tables& tables, const Release& command) { return release(tables, command); }

inline Answer answer(Tables& tables, const Renew& command) { return renew(tables, command); }

inline Answer answer(Tables& tables, const Forget& command) { return forget(tables, command); }

inline Answer answer(Tables& tables, const FindReservation& command) {
  return find_reservation(tables, command);
}

/// False: it only looks.
bool writes(const Command& command);

}  // namespace semel::store
