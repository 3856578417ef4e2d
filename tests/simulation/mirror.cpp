#include "tests/simulation/mirror.hpp"

#include "store/sqlite/sqlite_reader.hpp"

#include <fmt/format.h>

#include <string_view>

namespace semel::sim {

using store::sqlite::Rows;

namespace {

const std::string run_columns =
    "workspace, status, holds_key, created_at, ended_at, deadline, parent, key_until, keep_until, "
    "id, instance, workflow, idempotency_key, failure, input, output";

Row read_row(const Rows& rows, int first) {
  const auto at = [first](int column) { return first + column; };
  Row row;
  row.workspace = rows.integer(at(0));
  row.status = static_cast<Status>(rows.integer(at(1)));
  row.holds_key = !rows.is_null(at(2));
  row.created_at = rows.time(at(3));
  row.ended_at = rows.optional_time(at(4));
  row.deadline = rows.optional_time(at(5));
  row.parent = rows.optional_integer(at(6));
  row.key_until = rows.optional_time(at(7));
  row.keep_until = rows.optional_time(at(8));
  row.id = rows.text(at(9));
  row.instance = rows.text(at(10));
  row.workflow = rows.text(at(11));
  row.key = rows.optional_text(at(12));
  row.failure = rows.text(at(13));
  row.input = rows.text(at(14));
  row.output = rows.text(at(15));
  return row;
}

}  // namespace

Mirror::Mirror(std::shared_ptr<store::sqlite::Database> database)
    : connection_(std::move(database)),
      reader_(store::sqlite::make_reader(connection_)),
      run_sql_("SELECT " + run_columns + " FROM semel_run WHERE run = ?1"),
      runs_sql_("SELECT run, " + run_columns + " FROM semel_run"),
      run_(database_, run_sql_.c_str()),
      runs_(database_, runs_sql_.c_str()),
      removed_(database_,
               "SELECT run, workspace, id, status, key_until, keep_until FROM temp.removed_run"),
      entry_(database_, "SELECT run, seq, at, entry FROM semel_journal WHERE id = ?1"),
      journals_(database_, "SELECT run, seq, entry FROM semel_journal ORDER BY run, seq"),
      timers_(database_, "SELECT run, kind, op, due FROM semel_timer ORDER BY run, kind, op"),
      waiters_(database_, "SELECT target, run, op FROM semel_waiter ORDER BY run, op"),
      inbox_(database_, "SELECT run, kind, op FROM semel_inbox ORDER BY run, item"),
      workspace_(database_, "SELECT workspace FROM semel_workspace WHERE name = ?1"),
      leftovers_(database_,
                 "SELECT (SELECT count(*) FROM semel_timer WHERE run = ?1)"
                 " + (SELECT count(*) FROM semel_inbox WHERE run = ?1)"
                 " + (SELECT count(*) FROM semel_waiter WHERE run = ?1 OR target = ?1)"
                 " + (SELECT count(*) FROM semel_attribute WHERE run = ?1)"
                 " + (SELECT count(*) FROM semel_progress WHERE run = ?1)"
                 " + (SELECT count(*) FROM semel_hook WHERE run = ?1)"
                 " + (SELECT count(*) FROM semel_payload WHERE run = ?1)"),
      ledger_(database_, "SELECT line, count(*) FROM ledger GROUP BY line") {
  sqlite3_update_hook(database_.handle(), &Mirror::touched, this);
}

Mirror::~Mirror() { sqlite3_update_hook(database_.handle(), nullptr, nullptr); }

void Mirror::touched(void* self, int operation, const char*, const char* table,
                     sqlite3_int64 rowid) {
  Mirror& mirror = *static_cast<Mirror*>(self);
  const std::string_view name = table;
  if (name == "semel_run") {
    mirror.touched_runs_.insert(rowid);
  } else if (name == "semel_journal" && operation == SQLITE_INSERT) {
    mirror.new_entries_.push_back(rowid);
  } else if (name == "semel_journal" && operation == SQLITE_UPDATE) {
    mirror.rewritten_.push_back(fmt::format("journal row {} was changed", rowid));
  } else if (name == "semel_journal") {
    // It belongs to a swept run, or is missed at the next look at everything. Its number may be used again at once.
    std::erase(mirror.new_entries_, rowid);
  }
}

/// A run may end and be removed by one batch: what it was in between is seen by nobody but a trigger.
void Mirror::watch_removals() {
  if (std::exchange(watches_removals_, true)) return;
  database_.run(
      "CREATE TEMP TABLE removed_run (run, workspace, id, status, key_until, keep_until);"
      "CREATE TEMP TRIGGER note_removed_run BEFORE DELETE ON main.semel_run BEGIN"
      " INSERT INTO removed_run VALUES (old.run, old.workspace, old.id, old.status, old.key_until,"
      "  old.keep_until); END");
}

Mirror::Changes Mirror::take_changes() {
  watch_removals();
  Changes changes;
  {
    Rows rows = removed_.select();
    while (rows.next()) {
      changes.removed[rows.integer(0)] = {.workspace = rows.integer(1),
                                          .id = rows.text(2),
                                          .status = static_cast<Status>(rows.integer(3)),
                                          .key_until = rows.optional_time(4),
                                          .keep_until = rows.optional_time(5)};
    }
  }
  if (!changes.removed.empty()) database_.run("DELETE FROM temp.removed_run");
  for (const std::int64_t id : std::exchange(new_entries_, {})) {
    Rows rows = entry_.select(id);
    if (!rows.next()) continue;
    changes.entries.push_back({.run = rows.integer(0),
                               .seq = static_cast<journal::Seq>(rows.integer(1)),
                               .at = rows.time(2),
                               .bytes = rows.text(3)});
  }
  for (const RunKey run : std::exchange(touched_runs_, {})) {
    Rows rows = run_.select(run);
    changes.runs.emplace(run, rows.next() ? std::optional{read_row(rows, 0)} : std::nullopt);
  }
  changes.rewritten = std::exchange(rewritten_, {});
  return changes;
}

std::vector<store::Timer> Mirror::timers() {
  std::vector<store::Timer> found;
  Rows rows = timers_.select();
  while (rows.next()) {
    found.push_back({.run = rows.integer(0),
                     .kind = static_cast<store::TimerKind>(rows.integer(1)),
                     .op = rows.text(2),
                     .due = rows.time(3)});
  }
  return found;
}

std::vector<Waiter> Mirror::waiters() {
  std::vector<Waiter> found;
  Rows rows = waiters_.select();
  while (rows.next()) {
    found.push_back({.target = rows.integer(0), .run = rows.integer(1), .op = rows.text(2)});
  }
  return found;
}

std::vector<InboxRow> Mirror::inbox() {
  std::vector<InboxRow> found;
  Rows rows = inbox_.select();
  while (rows.next()) {
    found.push_back({.run = rows.integer(0),
                     .kind = static_cast<store::InboxItem::Kind>(rows.integer(1)),
                     .op = rows.text(2)});
  }
  return found;
}

std::map<RunKey, Row> Mirror::all_runs() {
  std::map<RunKey, Row> found;
  Rows rows = runs_.select();
  while (rows.next()) found.emplace(rows.integer(0), read_row(rows, 1));
  return found;
}

std::map<RunKey, std::vector<std::string>> Mirror::all_journals() {
  std::map<RunKey, std::vector<std::string>> found;
  Rows rows = journals_.select();
  while (rows.next()) found[rows.integer(0)].push_back(rows.text(2));
  return found;
}

std::int64_t Mirror::leftovers(RunKey run) {
  Rows rows = leftovers_.select(run);
  rows.next();
  return rows.integer(0);
}

std::int64_t Mirror::workspace(const std::string& name) {
  Rows rows = workspace_.select(name);
  return rows.next() ? rows.integer(0) : 0;
}

std::map<std::string, std::int64_t> Mirror::ledger() {
  std::map<std::string, std::int64_t> lines;
  Rows rows = ledger_.select();
  while (rows.next()) lines.emplace(rows.text(0), rows.integer(1));
  return lines;
}

std::vector<store::Orphan> Mirror::orphans() { return reader_->orphans(1).value(); }

}  // namespace semel::sim
