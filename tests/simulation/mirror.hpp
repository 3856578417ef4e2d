// The database, looked at without the engine: what changed since the last look, and what is there. SQLite itself says
// which rows of runs and journals were touched, so a look costs what changed and not what is there.
#pragma once

#include "store/sqlite/database.hpp"
#include "store/store.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace semel::sim {

using store::RunKey;
using store::Status;

/// A row of semel_run.
struct Row {
  std::int64_t workspace = 0;
  Status status = Status::pending;
  bool holds_key = false;
  TimePoint created_at{};
  std::optional<TimePoint> ended_at;
  std::optional<TimePoint> deadline;
  std::optional<RunKey> parent;
  std::optional<TimePoint> key_until;
  std::optional<TimePoint> keep_until;
  std::string id;
  std::string instance;
  std::string workflow;
  std::optional<std::string> key;
  std::string failure;  ///< encoded
  std::string input;
  std::string output;

  bool operator==(const Row&) const = default;

  bool is_over() const { return store::is_end(status); }

  /// Somebody drives it: neither over nor dead nor diverged.
  bool is_driven() const { return status <= Status::waiting; }
};

/// A new row of semel_journal.
struct NewEntry {
  RunKey run = 0;
  journal::Seq seq = 0;
  TimePoint at{};
  std::string bytes;
};

struct Waiter {
  RunKey target = 0;
  RunKey run = 0;
  std::string op;
};

struct InboxRow {
  RunKey run = 0;
  store::InboxItem::Kind kind = store::InboxItem::Kind::result;
  std::string op;
};

class Mirror {
 public:
  explicit Mirror(std::shared_ptr<store::sqlite::Database> database);
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;
  ~Mirror();

  /// A run's row as it was when it was deleted.
  struct Removed {
    std::int64_t workspace = 0;
    std::string id;
    Status status = Status::pending;
    std::optional<TimePoint> key_until;
    std::optional<TimePoint> keep_until;
  };

  struct Changes {
    std::vector<NewEntry> entries;              ///< in the order they were written
    std::map<RunKey, std::optional<Row>> runs;  ///< touched; none: gone
    std::map<RunKey, Removed> removed;
    std::vector<std::string> rewritten;  ///< entries that were changed in place
  };

  /// What changed since the last call.
  Changes take_changes();

  std::vector<store::Timer> timers();  ///< by run, kind, op
  std::vector<Waiter> waiters();       ///< by run, op
  std::vector<InboxRow> inbox();       ///< by run, item
  std::map<RunKey, Row> all_runs();
  /// Also of runs that are gone and not swept yet.
  std::map<RunKey, std::vector<std::string>> all_journals();
  /// Rows of this run in the tables beside semel_run and semel_journal.
  std::int64_t leftovers(RunKey run);
  /// The number of a workspace; 0 if nothing is in it.
  std::int64_t workspace(const std::string& name);
  /// The program's own table: how often each line is in it.
  std::map<std::string, std::int64_t> ledger();
  /// The engine's own predicate, also behind `semel doctor`.
  std::vector<store::Orphan> orphans();

 private:
  void watch_removals();
  static void touched(void* self, int operation, const char* database, const char* table,
                      sqlite3_int64 rowid);

  std::shared_ptr<store::sqlite::Database> connection_;
  store::sqlite::Database& database_ = *connection_;
  std::unique_ptr<store::Reader> reader_;
  bool watches_removals_ = false;
  std::set<RunKey> touched_runs_;
  std::vector<std::int64_t> new_entries_;
  std::vector<std::string> rewritten_;

  // Statements do not own their text.
  std::string run_sql_;
  std::string runs_sql_;
  store::sqlite::Statement run_;
  store::sqlite::Statement runs_;
  store::sqlite::Statement removed_;
  store::sqlite::Statement entry_;
  store::sqlite::Statement journals_;
  store::sqlite::Statement timers_;
  store::sqlite::Statement waiters_;
  store::sqlite::Statement inbox_;
  store::sqlite::Statement workspace_;
  store::sqlite::Statement leftovers_;
  store::sqlite::Statement ledger_;
};

}  // namespace semel::sim
