// Everything a command may touch.
#pragma once

#include "base/shape.hpp"
#include "store/sqlite/hook_table.hpp"
#include "store/sqlite/journal_table.hpp"
#include "store/sqlite/reservation_table.hpp"
#include "store/sqlite/run_table.hpp"
#include "store/sqlite/sqlite_store.hpp"
#include "store/sqlite/wakeups.hpp"

namespace semel::store::sqlite {

struct Tables {
  explicit Tables(Database& database)
      : runs(database),
        journal(database, open_runs),
        wakeups(database, open_runs),
        hooks(database, open_runs),
        reservations(database) {}

  /// After a transaction that was rolled back: what it wrote is not there.
  void forget() {
    runs.forget_workspaces();
    open_runs.forget();
    reservations.forget_fences();
  }

  OpenRuns open_runs;
  RunTable runs;
  JournalTable journal;
  Wakeups wakeups;
  HookTable hooks;
  ReservationTable reservations;
  base::ShapeChecker shapes;
  SqliteCounters counters;
};

}  // namespace semel::store::sqlite
