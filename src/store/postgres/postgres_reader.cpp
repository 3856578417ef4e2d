#include "store/postgres/postgres_reader.hpp"

#include "store/postgres/held.hpp"
#include "store/postgres/schema.hpp"

#include <mutex>

namespace semel::store::postgres {

namespace {

const std::string record_columns =
    "SELECT r.run, w.name, r.partition, r.id, r.instance, r.workflow, r.code_version, r.status,"
    " r.input, r.output, r.failure, r.idempotency_key, r.fingerprint, r.created_at, r.ended_at,"
    " r.deadline, r.parent, (SELECT max(j.seq) FROM semel.journal j WHERE j.run = r.run),"
    " r.generation, r.first_seq FROM semel.run r"
    " JOIN semel.workspace w ON w.workspace = r.workspace";

RunRecord read_record(const Rows& rows, int i) {
  RunRecord record;
  record.key = rows.integer(i, 0);
  record.workspace = rows.text(i, 1);
  record.partition = static_cast<std::int32_t>(rows.integer(i, 2));
  record.id = rows.text(i, 3);
  record.instance = rows.text(i, 4);
  record.workflow = rows.text(i, 5);
  record.code_version = static_cast<std::int32_t>(rows.integer(i, 6));
  record.status = static_cast<Status>(rows.integer(i, 7));
  record.input = rows.text(i, 8);
  record.output = rows.text(i, 9);
  record.failure = decode_failure(rows.optional_text(i, 10));
  record.idempotency_key = rows.optional_text(i, 11);
  record.fingerprint = rows.text(i, 12);
  record.created_at = rows.time(i, 13);
  record.ended_at = rows.optional_time(i, 14);
  record.deadline = rows.optional_time(i, 15);
  record.parent = rows.optional_integer(i, 16);
  if (!rows.is_null(i, 17)) record.version = static_cast<Seq>(rows.integer(i, 17));
  record.generation = static_cast<std::uint32_t>(rows.integer(i, 18));
  record.first_seq = static_cast<Seq>(rows.integer(i, 19));
  return record;
}

const std::string hook_columns =
    "SELECT h.hook, r.id, h.op, h.shape, h.webhook, h.since,"
    " (SELECT count(*) FROM semel.payload p WHERE p.hook = h.hook), h.token, w.name"
    " FROM semel.hook h JOIN semel.run r ON r.run = h.run"
    " JOIN semel.workspace w ON w.workspace = h.workspace";

HookRecord read_hook(const Rows& rows, int i) {
  return {.token = rows.text(i, 7),
          .id = std::to_string(rows.integer(i, 0)),
          .run_id = rows.text(i, 1),
          .op = rows.text(i, 2),
          .shape = rows.text(i, 3),
          .webhook = rows.flag(i, 4),
          .since = rows.time(i, 5),
          .waiting = static_cast<std::uint64_t>(rows.integer(i, 6))};
}

/// The WHERE clause of a list, with its values in order.
class Conditions {
 public:
  void add(const std::string& condition) {
    sql_ += (sql_.empty() ? " WHERE " : " AND ") + condition;
  }

  /// A place for a value.
  std::string next(std::string_view bytes) {
    parameters_.add(bytes);
    return place("bytea");
  }

  std::string next(std::int64_t number) {
    parameters_.add(number);
    return place("bigint");
  }

  std::string next(TimePoint time) { return next(to_ns(time)); }

  const std::string& sql() const { return sql_; }

  const Parameters& parameters() const { return parameters_; }

 private:
  std::string place(const char* type) const {
    return "$" + std::to_string(parameters_.values().size()) + "::" + type;
  }

  std::string sql_;
  Parameters parameters_;
};

Conditions conditions_of(const ListFilter& filter) {
  Conditions where;
  const std::string workspace = "(SELECT workspace FROM semel.workspace WHERE name = " +
                                where.next(std::string_view{filter.workspace}) + ")";
  where.add("r.workspace = " + workspace);
  if (filter.workflow) where.add("r.workflow = " + where.next(std::string_view{*filter.workflow}));
  if (filter.status)
    where.add("r.status = " + where.next(static_cast<std::int64_t>(*filter.status)));
  if (filter.idempotency_key) {
    // Two indexes have it: of the run that holds the key, and of those that did.
    const std::string is_key =
        "r.idempotency_key = " + where.next(std::string_view{*filter.idempotency_key});
    where.add("(" + is_key + " AND r.holds_key = 1 OR " + is_key + " AND r.holds_key = 0)");
  }
  for (const auto& [name, value] : filter.attributes) {
    where.add("r.run IN (SELECT a.run FROM semel.attribute a WHERE a.workspace = " + workspace +
              " AND a.name = " + where.next(std::string_view{name}) +
              " AND a.value = " + where.next(std::string_view{value}) + ")");
  }
  if (filter.since) where.add("r.created_at >= " + where.next(*filter.since));
  if (filter.until) where.add("r.created_at < " + where.next(*filter.until));
  if (filter.before) {
    where.add("(r.created_at, r.id) < (" + where.next(filter.before->first) + ", " +
              where.next(std::string_view{filter.before->second}) + ")");
  }
  return where;
}

class PostgresReader final : public Reader {
 public:
  PostgresReader(ConnectionOptions options, std::shared_ptr<const NodeIdentity> self)
      : options_(std::move(options)), self_(std::move(self)) {
    connect();
  }

  base::Result<std::optional<RunRecord>> find(std::string_view workspace,
                                              std::string_view id) override {
    return reading([&] {
      std::vector<RunRecord> found =
          records(record_columns +
                      " WHERE r.workspace = (SELECT workspace FROM semel.workspace"
                      " WHERE name = $1::bytea) AND r.id = $2::bytea",
                  Parameters::of(workspace, id));
      return found.empty() ? std::nullopt : std::optional{std::move(found.front())};
    });
  }

  base::Result<std::vector<RunRecord>> list(const ListFilter& filter) override {
    return reading([&] {
      Conditions where = conditions_of(filter);
      const std::string limit = where.next(static_cast<std::int64_t>(filter.limit));
      return records(
          record_columns + where.sql() + " ORDER BY r.created_at DESC, r.id DESC LIMIT " + limit,
          where.parameters());
    });
  }

  base::Result<std::vector<StoredEntry>> journal(RunKey run, Seq from, std::size_t limit) override {
    return reading([&] {
      std::vector<StoredEntry> found;
      // Entries of a run that is gone are still there until they are swept; nobody sees them.
      query(
          "SELECT seq, at, entry FROM semel.journal WHERE run = $1::bigint AND seq >= $2::bigint"
          " AND EXISTS (SELECT 1 FROM semel.run WHERE run = $1::bigint) ORDER BY seq"
          " LIMIT $3::bigint",
          Parameters::of(run, from, limit), [&](const Rows& rows) {
            for (int i = 0; i < rows.size(); ++i) {
              found.push_back({.seq = static_cast<Seq>(rows.integer(i, 0)),
                               .at = rows.time(i, 1),
                               .bytes = rows.text(i, 2)});
            }
          });
      return found;
    });
  }

  base::Result<std::vector<Timer>> timers(RunKey run) override {
    return reading([&] {
      std::vector<Timer> found;
      query("SELECT due, kind, op FROM semel.timer WHERE run = $1::bigint ORDER BY due, kind, op",
            Parameters::of(run), [&](const Rows& rows) {
              for (int i = 0; i < rows.size(); ++i) {
                found.push_back({.run = run,
                                 .kind = static_cast<TimerKind>(rows.integer(i, 1)),
                                 .op = rows.text(i, 2),
                                 .due = rows.time(i, 0)});
              }
            });
      return found;
    });
  }

  base::Result<std::optional<HookRecord>> hook(std::string_view workspace,
                                               std::string_view token) override {
    return reading([&] {
      std::optional<HookRecord> found;
      query(hook_columns + " WHERE w.name = $1::bytea AND h.token = $2::bytea AND h.active = 1",
            Parameters::of(workspace, token), [&](const Rows& rows) {
              if (rows.size() > 0) found = read_hook(rows, 0);
            });
      return found;
    });
  }

  base::Result<std::vector<HookRecord>> hooks(const HookFilter& filter) override {
    return reading([&] {
      Conditions where;
      where.add("w.name = " + where.next(std::string_view{filter.workspace}));
      where.add("h.active = 1");
      if (filter.run_id) where.add("r.id = " + where.next(std::string_view{*filter.run_id}));
      if (filter.before) where.add("h.hook < " + where.next(*filter.before));
      const std::string limit = where.next(static_cast<std::int64_t>(filter.limit));
      std::vector<HookRecord> found;
      query(hook_columns + where.sql() + " ORDER BY h.hook DESC LIMIT " + limit, where.parameters(),
            [&](const Rows& rows) {
              for (int i = 0; i < rows.size(); ++i) found.push_back(read_hook(rows, i));
            });
      return found;
    });
  }

  base::Result<std::optional<PublicHook>> public_hook(std::string_view token) override {
    return reading([&] {
      std::optional<PublicHook> found;
      query(hook_columns +
                " WHERE h.token = $1::bytea AND h.active = 1 AND h.webhook = 1"
                " ORDER BY h.hook LIMIT 1",
            Parameters::of(token), [&](const Rows& rows) {
              if (rows.size() > 0) found = PublicHook{rows.text(0, 8), read_hook(rows, 0)};
            });
      return found;
    });
  }

  base::Result<std::vector<Undelivered>> undelivered(RunKey run) override {
    return reading([&] {
      std::vector<Undelivered> found;
      query(
          "SELECT p.payload, h.token, p.value, p.at FROM semel.payload p"
          " JOIN semel.hook h ON h.hook = p.hook WHERE p.run = $1::bigint AND h.active = 0"
          " ORDER BY p.payload",
          Parameters::of(run), [&](const Rows& rows) {
            for (int i = 0; i < rows.size(); ++i) {
              found.push_back({.id = rows.integer(i, 0),
                               .token = rows.text(i, 1),
                               .value = rows.text(i, 2),
                               .at = rows.time(i, 3)});
            }
          });
      return found;
    });
  }

  base::Result<std::vector<Orphan>> orphans(std::size_t limit) override {
    return reading([&] {
      std::vector<Orphan> found;
      // A pending run goes on by its start timer alone; a waiting one by any timer, by its inbox, by a hook, or by the end
      // of another run that can still end. Running, dead and diverged runs are somebody's: the owner's, an operator's.
      query(
          "SELECT w.name, r.id, r.status FROM semel.run r"
          " JOIN semel.workspace w ON w.workspace = r.workspace WHERE r.status < 3 AND"
          " CASE r.status WHEN 0 THEN NOT EXISTS (SELECT 1 FROM semel.timer t"
          "  WHERE t.run = r.run AND t.kind = 2)"
          " WHEN 2 THEN NOT EXISTS (SELECT 1 FROM semel.timer t WHERE t.run = r.run)"
          "  AND NOT EXISTS (SELECT 1 FROM semel.inbox i WHERE i.run = r.run)"
          "  AND NOT EXISTS (SELECT 1 FROM semel.hook h WHERE h.run = r.run AND h.active = 1)"
          "  AND NOT EXISTS (SELECT 1 FROM semel.waiter a JOIN semel.run o ON o.run = a.target"
          "   WHERE a.run = r.run AND a.target <> r.run AND o.status NOT IN (3, 4, 5))"
          " ELSE false END ORDER BY r.run LIMIT $1::bigint",
          Parameters::of(limit), [&](const Rows& rows) {
            for (int i = 0; i < rows.size(); ++i) {
              found.push_back({.workspace = rows.text(i, 0),
                               .id = rows.text(i, 1),
                               .status = static_cast<Status>(rows.integer(i, 2))});
            }
          });
      return found;
    });
  }

  base::Result<NodeList> nodes() override {
    return reading([&] {
      NodeList found;
      std::map<std::int64_t, std::size_t> places;
      query(
          "SELECT n.node, n.name, n.opened_at, n.kept_at, n.lease, n.works,"
          " (SELECT count(*) FROM semel.partition p WHERE p.node = n.node)"
          " FROM semel.node n ORDER BY n.node",
          {}, [&](const Rows& rows) {
            for (int i = 0; i < rows.size(); ++i) {
              const std::int64_t number = rows.integer(i, 0);
              places.emplace(number, found.nodes.size());
              found.nodes.push_back({.number = number,
                                     .name = rows.text(i, 1),
                                     .since = rows.time(i, 2),
                                     .kept_at = rows.time(i, 3),
                                     .lease = std::chrono::nanoseconds{rows.integer(i, 4)},
                                     .works = rows.flag(i, 5),
                                     .is_this = self_ && self_->number == number,
                                     .partitions = rows.integer(i, 6)});
            }
          });
      query(
          "SELECT n.node, w.name, w.version FROM semel.node n"
          " CROSS JOIN LATERAL unnest(n.workflows, n.versions) AS w(name, version)"
          " ORDER BY n.node, w.name",
          {}, [&](const Rows& rows) {
            for (int i = 0; i < rows.size(); ++i) {
              found.nodes[places.at(rows.integer(i, 0))].workflows.push_back(
                  {rows.text(i, 1), static_cast<std::int32_t>(rows.integer(i, 2))});
            }
          });
      query(
          "SELECT count(*) FROM semel.partition p WHERE NOT EXISTS"
          " (SELECT 1 FROM semel.node n WHERE n.node = p.node)",
          {}, [&](const Rows& rows) { found.unowned = rows.integer(0, 0); });
      return found;
    });
  }

  base::Result<std::optional<RunOwner>> owner(const RunRecord& run) override {
    return reading([&] {
      std::optional<RunOwner> found;
      query(
          "SELECT n.name, (EXISTS (SELECT 1 FROM semel.node m"
          "  CROSS JOIN LATERAL unnest(m.workflows, m.versions) AS w(name, version)"
          "  WHERE m.works = 1 AND w.name = $2::bytea AND w.version >= $3::bigint))::int"
          " FROM semel.partition p LEFT JOIN semel.node n ON n.node = p.node"
          " WHERE p.partition = $1::bigint",
          Parameters::of(run.partition, std::string_view{run.workflow}, run.code_version),
          [&](const Rows& rows) {
            if (rows.size() == 0) return;
            found = RunOwner{.node = rows.is_null(0, 0) ? std::string{} : rows.text(0, 0),
                             .has_worker = rows.flag(0, 1)};
          });
      return found;
    });
  }

 private:
  void connect() {
    connection_ = std::make_unique<Connection>(options_);
    require_schema(*connection_);
  }

  void query(std::string_view sql, const Parameters& parameters, const Pipeline::Then& then) {
    Pipeline pipeline{*connection_};
    pipeline.add(sql, parameters, then);
    pipeline.run();
  }

  std::vector<RunRecord> records(const std::string& sql, const Parameters& parameters) {
    std::vector<RunRecord> found;
    std::map<RunKey, std::size_t> places;
    Columns runs{"i"};
    query(sql, parameters, [&](const Rows& rows) {
      for (int i = 0; i < rows.size(); ++i) {
        places.emplace(rows.integer(i, 0), found.size());
        runs.add(rows.integer(i, 0));
        found.push_back(read_record(rows, i));
      }
    });
    if (found.empty()) return found;
    query("SELECT run, name, value FROM semel.attribute WHERE run = ANY($1::bigint[])",
          runs.parameters(), [&](const Rows& rows) {
            for (int i = 0; i < rows.size(); ++i) {
              found[places.at(rows.integer(i, 0))].attributes.emplace(rows.text(i, 1),
                                                                      rows.text(i, 2));
            }
          });
    return found;
  }

  /// Calls from any thread, one at a time, each on one snapshot.
  template <class Read>
  auto reading(const Read& read) -> base::Result<decltype(read())> {
    const std::lock_guard guard{mutex_};
    try {
      if (connection_->is_lost()) connect();
      connection_->run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
      auto found = read();
      connection_->run("COMMIT");
      return found;
    } catch (const store::Failed& failed) {
      roll_back();
      return failed.fault();
    }
  }

  void roll_back() {
    if (connection_->is_lost() || !connection_->in_transaction()) return;
    try {
      connection_->run("ROLLBACK");
    } catch (const store::Failed&) {
      connection_->give_up();  // and the transaction goes with it
    }
  }

  std::mutex mutex_;
  ConnectionOptions options_;
  std::shared_ptr<const NodeIdentity> self_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace

std::unique_ptr<Reader> make_reader(const ConnectionOptions& options,
                                    std::shared_ptr<const NodeIdentity> self) {
  return std::make_unique<PostgresReader>(options, std::move(self));
}

}  // namespace semel::store::postgres
