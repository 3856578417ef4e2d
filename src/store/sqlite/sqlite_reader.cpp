#include "store/sqlite/sqlite_reader.hpp"

#include "store/sqlite/run_table.hpp"

namespace semel::store::sqlite {

namespace {

/// The WHERE clause of a list, with its values in order.
class Conditions {
 public:
  void add(const std::string& condition) {
    sql_ += (sql_.empty() ? " WHERE " : " AND ") + condition;
  }

  /// `condition` ends where its value goes: "r.id = ".
  template <class Value>
  void add(const std::string& condition, const Value& value) {
    add(condition + next(value));
  }

  /// A place for a value.
  std::string next(std::string_view text) {
    texts_.emplace_back(static_cast<int>(++count_), text);
    return "?" + std::to_string(count_);
  }

  std::string next(TimePoint time) { return next(to_ns(time)); }

  std::string next(std::int64_t number) {
    numbers_.emplace_back(static_cast<int>(++count_), number);
    return "?" + std::to_string(count_);
  }

  void bind_to(Statement& statement) const {
    for (const auto& [index, text] : texts_) statement.bind_one(index, text);
    for (const auto& [index, number] : numbers_) statement.bind_one(index, number);
  }

  const std::string& sql() const { return sql_; }

 private:
  std::string sql_;
  std::size_t count_ = 0;
  std::vector<std::pair<int, std::string_view>> texts_;
  std::vector<std::pair<int, std::int64_t>> numbers_;
};

/// The workspace's number, so that the indexes that begin with it are found.
std::string number_of(const std::string& workspace_name_place) {
  return "(SELECT workspace FROM semel_workspace WHERE name = " + workspace_name_place + ")";
}

Conditions conditions_of(const ListFilter& filter) {
  Conditions where;
  const std::string workspace = number_of(where.next(filter.workspace));
  where.add("r.workspace = " + workspace);
  if (filter.workflow) where.add("r.workflow = ", *filter.workflow);
  if (filter.status) where.add("r.status = ", static_cast<std::int64_t>(*filter.status));
  if (filter.idempotency_key) {
    where.add("r.idempotency_key = ", *filter.idempotency_key);
    where.add("r.key_era IN (SELECT era FROM semel_key_era)");  // so that the index is found
  }
  for (const auto& [name, value] : filter.attributes) {
    where.add("r.run IN (SELECT a.run FROM semel_attribute a WHERE a.workspace = " + workspace +
              " AND a.name = " + where.next(name) + " AND a.value = " + where.next(value) + ")");
  }
  if (filter.since) where.add("r.created_at >= ", *filter.since);
  if (filter.until) where.add("r.created_at < ", *filter.until);
  if (filter.before) {
    where.add("(r.created_at, r.id) < (" + where.next(filter.before->first) + ", " +
              where.next(filter.before->second) + ")");
  }
  return where;
}

/// With a key or an attribute the few runs that have it are found by it and sorted: left alone, SQLite walks through all
/// runs in the order of the list instead. Without, that is right: it stops at the limit.
std::string source_of(const ListFilter& filter) {
  std::string hint;
  if (filter.idempotency_key) {
    hint = " INDEXED BY semel_run_key";
  } else if (!filter.attributes.empty()) {
    hint = " NOT INDEXED";  // but by its primary key
  }
  return "semel_run r" + hint + " JOIN semel_workspace w ON w.workspace = r.workspace";
}

constexpr const char* hook_columns =
    "h.hook, r.id, h.op, h.shape, h.webhook, h.since,"
    " (SELECT count(*) FROM semel_payload p WHERE p.hook = h.hook), h.token, w.name";
constexpr const char* hook_source =
    "semel_workspace w CROSS JOIN semel_hook h CROSS JOIN semel_run r";

class SqliteReader final : public Reader {
 public:
  explicit SqliteReader(std::shared_ptr<Database> database) : connection_(std::move(database)) {}

  base::Result<std::optional<RunRecord>> find(std::string_view workspace,
                                              std::string_view id) override {
    return reading([&] {
      std::optional<RunRecord> found;
      Rows rows = find_.select(workspace, id);
      if (rows.next()) found = with_attributes(read_record(rows));
      return found;
    });
  }

  /// One process has the file, or none: then nobody has its runs.
  base::Result<NodeList> nodes() override {
    return reading([&] {
      NodeList found{.nodes = {}, .unowned = 1};
      Statement node{database_, "SELECT node, opened_at FROM semel_node WHERE open = 1"};
      Rows rows = node.select();
      if (!rows.next()) return found;
      found.nodes.push_back({.number = rows.integer(0),
                             .since = rows.time(1),
                             .kept_at = rows.time(1),
                             .partitions = 1});
      found.unowned = 0;
      return found;
    });
  }

  base::Result<std::vector<RunRecord>> list(const ListFilter& filter) override {
    return reading([&] {
      Conditions where = conditions_of(filter);
      const std::string limit = where.next(static_cast<std::int64_t>(filter.limit));
      const std::string sql = std::string{"SELECT "} + record_columns + " FROM " +
                              source_of(filter) + where.sql() +
                              " ORDER BY r.created_at DESC, r.id DESC LIMIT " + limit;
      Statement list{database_, sql.c_str()};
      where.bind_to(list);
      std::vector<RunRecord> found;
      Rows rows = list.select_bound();
      while (rows.next()) found.push_back(with_attributes(read_record(rows)));
      return found;
    });
  }

  base::Result<std::vector<StoredEntry>> journal(RunKey run, Seq from, std::size_t limit) override {
    return reading([&] {
      std::vector<StoredEntry> found;
      Rows rows = journal_.select(run, from, limit);
      while (rows.next()) {
        found.push_back(
            {.seq = static_cast<Seq>(rows.integer(0)), .at = rows.time(1), .bytes = rows.text(2)});
      }
      return found;
    });
  }

  base::Result<std::vector<Timer>> timers(RunKey run) override {
    return reading([&] {
      std::vector<Timer> found;
      Rows rows = timers_.select(run);
      while (rows.next()) {
        found.push_back({.run = run,
                         .kind = static_cast<TimerKind>(rows.integer(1)),
                         .op = rows.text(2),
                         .due = rows.time(0)});
      }
      return found;
    });
  }

  base::Result<std::optional<HookRecord>> hook(std::string_view workspace,
                                               std::string_view token) override {
    return reading([&] {
      std::optional<HookRecord> found;
      Rows rows = hook_.select(workspace, token);
      if (rows.next()) found = hook_in(rows);
      return found;
    });
  }

  base::Result<std::vector<HookRecord>> hooks(const HookFilter& filter) override {
    return reading([&] {
      Conditions where;
      where.add("w.name = ", filter.workspace);
      where.add("h.workspace = w.workspace AND h.active = 1 AND r.run = h.run");
      if (filter.run_id) {
        where.add("h.run = (SELECT run FROM semel_run WHERE workspace = w.workspace AND id = " +
                  where.next(*filter.run_id) + ")");
      }
      if (filter.before) where.add("h.hook < ", *filter.before);
      const std::string limit = where.next(static_cast<std::int64_t>(filter.limit));
      const std::string sql = std::string{"SELECT "} + hook_columns + " FROM " + hook_source +
                              where.sql() + " ORDER BY h.hook DESC LIMIT " + limit;
      Statement list{database_, sql.c_str()};
      where.bind_to(list);
      std::vector<HookRecord> found;
      Rows rows = list.select_bound();
      while (rows.next()) found.push_back(hook_in(rows));
      return found;
    });
  }

  base::Result<std::optional<PublicHook>> public_hook(std::string_view token) override {
    return reading([&] {
      std::optional<PublicHook> found;
      Rows rows = public_hook_.select(token);
      if (rows.next()) found = PublicHook{rows.text(8), hook_in(rows)};
      return found;
    });
  }

  base::Result<std::vector<Undelivered>> undelivered(RunKey run) override {
    return reading([&] {
      std::vector<Undelivered> found;
      Rows rows = undelivered_.select(run);
      while (rows.next()) {
        found.push_back({.id = rows.integer(0),
                         .token = rows.text(1),
                         .value = rows.text(2),
                         .at = rows.time(3)});
      }
      return found;
    });
  }

  base::Result<std::vector<Orphan>> orphans(std::size_t limit) override {
    return reading([&] {
      std::vector<Orphan> found;
      Rows rows = orphans_.select(limit);
      while (rows.next()) {
        found.push_back({.workspace = rows.text(0),
                         .id = rows.text(1),
                         .status = static_cast<Status>(rows.integer(2))});
      }
      return found;
    });
  }

 private:
  /// Calls from any thread, one at a time, each on one snapshot.
  template <class Read>
  auto reading(const Read& read) -> base::Result<decltype(read())> {
    const std::lock_guard guard{database_.mutex()};
    try {
      Transaction snapshot{database_, Transaction::Kind::read};
      return read();
    } catch (const Failed& failed) {
      return failed.fault();
    }
  }

  RunRecord with_attributes(RunRecord record) {
    Rows rows = attributes_.select(record.key);
    while (rows.next()) record.attributes.emplace(rows.text(0), rows.text(1));
    return record;
  }

  static HookRecord hook_in(Rows& rows) {
    return {.token = rows.text(7),
            .id = std::to_string(rows.integer(0)),
            .run_id = rows.text(1),
            .op = rows.text(2),
            .shape = rows.text(3),
            .webhook = rows.integer(4) != 0,
            .since = rows.time(5),
            .waiting = static_cast<std::uint64_t>(rows.integer(6))};
  }

  std::shared_ptr<Database> connection_;
  Database& database_ = *connection_;

  std::string find_sql_ = std::string{"SELECT "} + record_columns + " FROM " + record_source +
                          " WHERE w.name = ?1 AND r.id = ?2";
  Statement find_{database_, find_sql_.c_str()};
  Statement attributes_{database_, "SELECT name, value FROM semel_attribute WHERE run = ?1"};
  // Entries of a run that is gone are still there until they are swept; nobody sees them.
  Statement journal_{database_,
                     "SELECT seq, at, entry FROM semel_journal WHERE run = ?1 AND seq >= ?2"
                     " AND EXISTS (SELECT 1 FROM semel_run WHERE run = ?1) ORDER BY seq LIMIT ?3"};
  Statement timers_{database_,
                    "SELECT due, kind, op FROM semel_timer WHERE run = ?1 ORDER BY due, kind, op"};
  std::string hook_sql_ = std::string{"SELECT "} + hook_columns + " FROM " + hook_source +
                          " WHERE w.name = ?1 AND h.workspace = w.workspace AND h.token = ?2"
                          " AND h.active = 1 AND r.run = h.run";
  Statement hook_{database_, hook_sql_.c_str()};
  std::string public_hook_sql_ =
      std::string{"SELECT "} + hook_columns +
      " FROM semel_hook h CROSS JOIN semel_run r CROSS JOIN semel_workspace w"
      " WHERE h.token = ?1 AND h.active = 1 AND h.webhook = 1 AND r.run = h.run"
      " AND w.workspace = h.workspace ORDER BY h.hook LIMIT 1";
  Statement public_hook_{database_, public_hook_sql_.c_str()};
  Statement undelivered_{database_,
                         "SELECT p.payload, h.token, p.value, p.at FROM semel_payload p"
                         " CROSS JOIN semel_hook h WHERE p.run = ?1 AND h.hook = p.hook"
                         " AND h.active IS NULL ORDER BY p.payload"};
  // A pending run goes on by its start timer alone; a waiting one by any timer, by its inbox, by a hook, or by the end of
  // another run that can still end. Running, dead and diverged runs are somebody's: the owner's, an operator's.
  Statement orphans_{
      database_,
      "SELECT w.name, r.id, r.status FROM semel_run r JOIN semel_workspace w ON w.workspace = "
      "r.workspace"
      " WHERE r.status < 3 AND CASE r.status"
      " WHEN 0 THEN NOT EXISTS (SELECT 1 FROM semel_timer t WHERE t.run = r.run AND t.kind = 2)"
      " WHEN 2 THEN NOT EXISTS (SELECT 1 FROM semel_timer t WHERE t.run = r.run)"
      "  AND NOT EXISTS (SELECT 1 FROM semel_inbox i WHERE i.run = r.run)"
      "  AND NOT EXISTS (SELECT 1 FROM semel_hook h WHERE h.run = r.run AND h.active = 1)"
      "  AND NOT EXISTS (SELECT 1 FROM semel_waiter a JOIN semel_run o ON o.run = a.target"
      "   WHERE a.run = r.run AND a.target <> r.run AND o.status NOT IN (3, 4, 5))"
      " ELSE 0 END ORDER BY +r.run LIMIT ?1"};
};

}  // namespace

std::unique_ptr<Reader> make_reader(std::shared_ptr<Database> database) {
  return std::make_unique<SqliteReader>(std::move(database));
}

}  // namespace semel::store::sqlite
