// Everything a command may touch.
#pragma once

#include "store/sqlite/journal_table.hpp"
#include "store/sqlite/run_table.hpp"
#include "store/sqlite/sqlite_store.hpp"
#include "store/sqlite/wakeups.hpp"

namespace semel::store::sqlite {

struct Tables {
  explicit Tables(Database& database) : runs(database), journal(database), wakeups(database) {}

  RunTable runs;
  JournalTable journal;
  Wakeups wakeups;
  SqliteCounters counters;
};

}  // namespace semel::store::sqlite
