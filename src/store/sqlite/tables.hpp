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
    runs.forget();
    open_runs.forget();
    reservations.forget_fences();
    next_key = keys_end = 0;
  }

  OpenRuns open_runs;
  RunTable runs;
  JournalTable journal;
  Wakeups wakeups;
  HookTable hooks;
  ReservationTable reservations;
  base::ShapeChecker shapes;
  SqliteCounters counters;
  RunKey next_key =
      0;  ///< for runs that are started inside a unit of work; set aside up to `keys_end`
  RunKey keys_end = 0;
  /// As the rules see them.
  store::Tables common{runs, journal, wakeups, hooks, reservations, open_runs, shapes, counters};
};

}  // namespace semel::store::sqlite
