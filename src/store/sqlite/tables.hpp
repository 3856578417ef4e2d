// The tables of a SQLite database.
#pragma once

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
  /// As the rules see them.
  store::Tables common{runs, journal, wakeups, hooks, reservations, open_runs, shapes, counters};
};

}  // namespace semel::store::sqlite
