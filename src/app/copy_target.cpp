#include "app/copy_target.hpp"

#include "store/postgres/schema.hpp"

#include <semel/error.hpp>

#include <fmt/format.h>

#include <array>

namespace semel::app {

namespace {

using store::postgres::Columns;
using store::postgres::Parameters;
using store::postgres::Pipeline;
using store::postgres::Rows;

/// Partitions so far below those of nodes are nobody's.
constexpr std::int64_t nobodys = 1'000'000;

/// One that nobody can guess.
std::string hidden_name(const std::string& copy) { return std::string(1, '\0') + "copy " + copy; }

struct Insert {
  std::string_view into;   ///< the table and its columns
  std::string_view kinds;  ///< as `Columns` has them
};

constexpr auto inserts = std::to_array<Insert>({
    {"run (run, workspace, created_at, ended_at, deadline, parent, key_ttl, retention, key_until,"
     " keep_until, first_seq, partition, code_version, generation, status, holds_key, id, instance,"
     " workflow, idempotency_key, fingerprint, failure, input, output)",
     "iiiiiiiiiiiiiiiibbbbbbbb"},
    {"journal (run, seq, at, entry)", "iiib"},
    {"timer (run, kind, op, due)", "iibi"},
    {"inbox (item, run, kind, op, value, failure, at)", "iiibbbi"},
    {"waiter (run, op, target)", "ibi"},
    {"attribute (run, workspace, name, value)", "iibb"},
    {"progress (run, op, value)", "ibb"},
    {"hook (hook, workspace, run, since, active, at_end, fed, webhook, token, op, shape)",
     "iiiiiiiibbb"},
    {"payload (payload, hook, run, at, checked, value, start)", "iiiiibb"},
    {"resume (workspace, token, resume_id, fingerprint, run_id, hook, started, until)", "ibbbbiii"},
    {"reservation (digest, fence, workspace, lease_until, ttl, expires_at, sweep_at, state,"
     " on_abandoned, fingerprint, ns, scope, key, owner, answer)",
     "biiiiiiiibbbbbb"},
});

std::string insert_into(const Insert& insert) {
  std::string arrays;
  for (std::size_t i = 0; i < insert.kinds.size(); ++i) {
    arrays += fmt::format("{}${}::{}[]", i == 0 ? "" : ", ", i + 1,
                          insert.kinds[i] == 'i' ? "bigint" : "bytea");
  }
  return fmt::format("INSERT INTO semel.{} SELECT * FROM unnest({})", insert.into, arrays);
}

constexpr const char* read_copy =
    "SELECT workspace, is_done, run_shift, item_shift, hook_shift, payload_shift, last_run,"
    " last_fence, last_token, last_resume, runs, entries, payloads, reservations"
    " FROM semel.copy WHERE copy = $1::bytea";
constexpr const char* add_copy =
    "INSERT INTO semel.copy (copy, workspace, is_done, run_shift, item_shift, hook_shift,"
    " payload_shift, last_run, last_fence, last_token, last_resume, runs, entries, payloads,"
    " reservations) VALUES ($1::bytea, $2::bigint, 0, $3::bigint, $4::bigint, $5::bigint,"
    " $6::bigint, 0, 0, '', '', 0, 0, 0, 0)";
constexpr const char* note_copy =
    "UPDATE semel.copy SET last_run = $2::bigint, last_fence = $3::bigint, last_token = $4::bytea,"
    " last_resume = $5::bytea, runs = $6::bigint, entries = $7::bigint, payloads = $8::bigint,"
    " reservations = $9::bigint WHERE copy = $1::bytea";

/// As nodes judge each other, but that one whose connection is there is alive.
constexpr const char* count_nodes =
    "SELECT count(*) FROM semel.node n WHERE EXISTS (SELECT 1 FROM pg_stat_activity a"
    " WHERE a.pid = n.backend AND (a.backend_start IS NULL OR a.backend_start = n.backend_start))"
    " OR n.kept_at + n.lease / 3 > (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint";
constexpr const char* count_contents =
    "SELECT count(*) FROM semel.workspace w WHERE w.name = $1::bytea"
    " AND (EXISTS (SELECT 1 FROM semel.run r WHERE r.workspace = w.workspace)"
    " OR EXISTS (SELECT 1 FROM semel.resume s WHERE s.workspace = w.workspace)"
    " OR EXISTS (SELECT 1 FROM semel.reservation s WHERE s.workspace = w.workspace))";

/// What carries the run it belongs to.
constexpr auto tables_of_runs = std::to_array<const char*>(
    {"journal", "timer", "inbox", "waiter", "attribute", "progress", "hook", "payload"});

store::postgres::ConnectionOptions options_of(const std::string& url) {
  if (!url.starts_with("postgres://") && !url.starts_with("postgresql://"))
    throw Error("VALIDATION_ERROR",
                "--to: a workspace is moved to postgres://HOST/DATABASE, as the engine takes it");
  return {.url = url};
}

}  // namespace

CopyTarget::CopyTarget(const std::string& url) : connection_(options_of(url)) {
  store::postgres::migrate(connection_);
  partitions_ = static_cast<std::int32_t>(number("SELECT count(*) FROM semel.partition"));
}

std::int64_t CopyTarget::partition_until_done(std::int64_t run) const {
  return run % partitions_ - nobodys;
}

std::int64_t CopyTarget::number(std::string_view sql, const Parameters& parameters) {
  std::int64_t found = 0;
  Pipeline query{connection_};
  query.add(sql, parameters, [&](const Rows& rows) { found = rows.integer(0, 0); });
  query.run();
  return found;
}

void CopyTarget::require_room(const std::string& workspace) {
  if (number(count_nodes) != 0) {
    throw Error("STORE_UNAVAILABLE",
                "engines have the target open: stop them, copy, and start them again (they would "
                "not look for runs that come from elsewhere)");
  }
  if (number(count_contents, Parameters::of(std::string_view{workspace})) != 0) {
    throw Error("STORE_UNAVAILABLE",
                fmt::format("the target has a workspace {} with something in it, and two cannot be "
                            "made one: move it to another database",
                            workspace));
  }
}

CopyState CopyTarget::read(const std::string& copy) {
  CopyState state;
  Pipeline query{connection_};
  query.add(read_copy, Parameters::of(std::string_view{copy}), [&](const Rows& rows) {
    if (rows.size() == 0) return;
    state = {.copy = copy,
             .workspace = rows.integer(0, 0),
             .is_done = rows.flag(0, 1),
             .run_shift = rows.integer(0, 2),
             .item_shift = rows.integer(0, 3),
             .hook_shift = rows.integer(0, 4),
             .payload_shift = rows.integer(0, 5),
             .last_run = rows.integer(0, 6),
             .last_fence = rows.integer(0, 7),
             .last_token = rows.text(0, 8),
             .last_resume = rows.text(0, 9),
             .runs = rows.integer(0, 10),
             .entries = rows.integer(0, 11),
             .payloads = rows.integer(0, 12),
             .reservations = rows.integer(0, 13)};
  });
  query.run();
  return state;
}

/// So many numbers in a row; the one before them. Changing the sequence keeps others from drawing meanwhile.
std::int64_t CopyTarget::draw(const std::string& sequence, std::int64_t count) {
  if (count == 0) return 0;
  // Once before: a sequence that nobody has drawn from gives its first number whatever it goes up by.
  number(fmt::format("SELECT nextval('semel.{}')", sequence));
  connection_.run(fmt::format("ALTER SEQUENCE semel.{} INCREMENT BY {}", sequence, count));
  const std::int64_t last = number(fmt::format("SELECT nextval('semel.{}')", sequence));
  connection_.run(fmt::format("ALTER SEQUENCE semel.{} INCREMENT BY 1", sequence));
  return last - count;
}

CopyState CopyTarget::begin(const std::string& copy, const Drawn& drawn) {
  if (CopyState known = read(copy); !known.copy.empty()) return known;
  connection_.run("BEGIN");
  const std::string name = hidden_name(copy);
  const std::int64_t workspace =
      number("INSERT INTO semel.workspace (name) VALUES ($1::bytea) RETURNING workspace",
             Parameters::of(std::string_view{name}));
  const std::int64_t runs =
      number("UPDATE semel.counter SET next = next + $1::bigint WHERE name = 'run' RETURNING next",
             Parameters::of(drawn.runs)) -
      drawn.runs - 1;
  const std::int64_t items = draw("item_number", drawn.items);
  const std::int64_t hooks = draw("hook_number", drawn.hooks);
  const std::int64_t payloads = draw("payload_number", drawn.payloads);
  // Fences stay as they are; new ones are higher.
  if (drawn.fences > 0) {
    connection_.run("ALTER SEQUENCE semel.fence_number INCREMENT BY 1");
    number(
        "SELECT setval('semel.fence_number', greatest($1::bigint, (SELECT last_value FROM "
        "semel.fence_number)))",
        Parameters::of(drawn.fences));
  }
  Pipeline writing{connection_};
  writing.add(add_copy,
              Parameters::of(std::string_view{copy}, workspace, runs, items, hooks, payloads));
  writing.add_commit();
  writing.run();
  return read(copy);
}

void CopyTarget::finish(const CopyState& state, const std::string& workspace, bool was_cut_off) {
  connection_.run("BEGIN");
  connection_.run("LOCK TABLE semel.node, semel.workspace IN SHARE ROW EXCLUSIVE MODE");
  require_room(workspace);
  Pipeline writing{connection_};
  writing.add("DELETE FROM semel.workspace WHERE name = $1::bytea",
              Parameters::of(std::string_view{workspace}));
  writing.add("UPDATE semel.workspace SET name = $2::bytea WHERE workspace = $1::bigint",
              Parameters::of(state.workspace, std::string_view{workspace}));
  writing.add(
      "UPDATE semel.run SET partition = partition + $2::bigint"
      " WHERE workspace = $1::bigint AND partition < 0",
      Parameters::of(state.workspace, nobodys));
  // Who drives them next must take attempts that were under way for lost; nobody is to blame for it.
  if (was_cut_off) writing.add("UPDATE semel.partition SET open = 1, well = 1");
  writing.add("UPDATE semel.copy SET is_done = 1 WHERE copy = $1::bytea",
              Parameters::of(std::string_view{state.copy}));
  writing.add_commit();
  writing.run();
}

bool CopyTarget::forget(const std::string& copy) {
  const CopyState state = read(copy);
  if (state.is_done) return false;
  if (state.copy.empty()) return true;
  Pipeline writing{connection_};
  writing.add("BEGIN");
  for (const char* table : tables_of_runs) {
    writing.add(fmt::format("DELETE FROM semel.{} x USING semel.run r"
                            " WHERE x.run = r.run AND r.workspace = $1::bigint",
                            table),
                Parameters::of(state.workspace));
  }
  for (const char* table : {"run", "resume", "reservation", "workspace"}) {
    writing.add(fmt::format("DELETE FROM semel.{} WHERE workspace = $1::bigint", table),
                Parameters::of(state.workspace));
  }
  writing.add("DELETE FROM semel.copy WHERE copy = $1::bytea",
              Parameters::of(std::string_view{copy}));
  writing.add_commit();
  writing.run();
  return true;
}

CopyBatch::CopyBatch(CopyTarget& target) : pipeline_(target.connection()) {
  pipeline_.add("BEGIN");
}

void CopyBatch::add(CopyTable table, const Columns& columns) {
  if (columns.empty()) return;
  pipeline_.add(insert_into(inserts.at(static_cast<std::size_t>(table))), columns.parameters());
}

void CopyBatch::commit(const CopyState& state) {
  pipeline_.add(note_copy, Parameters::of(std::string_view{state.copy}, state.last_run,
                                          state.last_fence, std::string_view{state.last_token},
                                          std::string_view{state.last_resume}, state.runs,
                                          state.entries, state.payloads, state.reservations));
  pipeline_.add_commit();
  pipeline_.run();
}

}  // namespace semel::app
