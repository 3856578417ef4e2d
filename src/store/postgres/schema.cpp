// Times are nanoseconds since 1970, `run` is a RunKey, enums are the numbers in store.hpp and entry.hpp, strings are
// bytea (see parameters.hpp) but in what people administer; the view `semel.runs` shows runs to people.
//
// The journal is append-only with a unique index on (run, seq); a run's row is written at its start, when it parks and at
// its end; indexes on runs are partial where most rows would only be ballast. No foreign keys: every write would look for
// what it refers to.
#include "store/postgres/schema.hpp"

#include <fmt/format.h>

#include <array>

namespace semel::store::postgres {

namespace {

/// Never change one that was released: databases have it. Add the next.
constexpr std::array<const char*, 4> migrations{
    R"sql(
CREATE TABLE semel.workspace (
  workspace bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name bytea NOT NULL UNIQUE
);

-- Who is there. Every batch asserts, by a lock on its row, that its node is: whoever takes over from a node that was not
-- heard of removes the row, in the commit that takes its partitions, and from then on nothing of that node's is accepted. A
-- number is never used again, so a node that comes back is another one.
CREATE TABLE semel.node (
  node bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  opened_at bigint NOT NULL,
  kept_at bigint NOT NULL,
  lease bigint NOT NULL,
  works smallint NOT NULL,             -- wants partitions
  backend integer NOT NULL,            -- of its connection: where that is gone, so is the node
  backend_start timestamptz,
  name bytea NOT NULL,
  -- What it can drive: names, and beside each the highest version of a run.
  workflows bytea[] NOT NULL DEFAULT '{}',
  versions bigint[] NOT NULL DEFAULT '{}'
);

-- Whose the runs are. `node` may name one that is gone: then it is nobody's.
CREATE TABLE semel.partition (
  partition integer PRIMARY KEY,
  node bigint,
  epoch bigint NOT NULL,      -- how many owners it has had
  open smallint NOT NULL,     -- its last owner did not leave in order (yet)
  well smallint NOT NULL,     -- and lived long enough to be no part of a crash loop
  crashes integer NOT NULL    -- owners before it in a row that neither left in order nor got well
);
INSERT INTO semel.partition (partition, epoch, open, well, crashes)
  SELECT partition, 0, 0, 0, 0 FROM generate_series(0, 63) AS partition;

CREATE TABLE semel.counter (
  name bytea PRIMARY KEY,
  next bigint NOT NULL
);
INSERT INTO semel.counter (name, next) VALUES ('run', 1);

-- Drawn while the rows they are for are locked: so, for a run or a reservation, they ascend in the order of commits.
CREATE SEQUENCE semel.item_number;
CREATE SEQUENCE semel.hook_number;
CREATE SEQUENCE semel.payload_number;
CREATE SEQUENCE semel.fence_number;

CREATE TABLE semel.run (
  run bigint PRIMARY KEY,
  workspace bigint NOT NULL,
  created_at bigint NOT NULL,
  ended_at bigint,
  deadline bigint,
  parent bigint,
  key_ttl bigint NOT NULL,
  retention bigint NOT NULL,
  key_until bigint,           -- of a finished run with a key: then it is free
  keep_until bigint,          -- of a finished run: then it is swept
  first_seq bigint NOT NULL,  -- where the entries of this generation begin
  partition integer NOT NULL,
  code_version integer NOT NULL,
  generation integer NOT NULL,
  status smallint NOT NULL,
  holds_key smallint NOT NULL,
  id bytea NOT NULL,
  instance bytea NOT NULL,
  workflow bytea NOT NULL,
  idempotency_key bytea,
  fingerprint bytea NOT NULL,
  failure bytea,
  input bytea NOT NULL,
  output bytea NOT NULL
);
CREATE UNIQUE INDEX run_id ON semel.run (workspace, id);
CREATE UNIQUE INDEX run_key ON semel.run (workspace, idempotency_key) WHERE holds_key = 1;
CREATE INDEX run_key_had ON semel.run (workspace, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX run_open ON semel.run (status, run) WHERE status < 3;
CREATE INDEX run_created ON semel.run (workspace, created_at);
CREATE INDEX run_parent ON semel.run (parent) WHERE parent IS NOT NULL;
CREATE INDEX run_key_until ON semel.run (key_until) WHERE key_until IS NOT NULL;
CREATE INDEX run_keep_until ON semel.run (keep_until) WHERE keep_until IS NOT NULL;

CREATE TABLE semel.journal (
  run bigint NOT NULL,
  seq bigint NOT NULL,
  at bigint NOT NULL,
  entry bytea NOT NULL
);
CREATE UNIQUE INDEX journal_position ON semel.journal (run, seq);

CREATE TABLE semel.timer (
  run bigint NOT NULL,
  due bigint NOT NULL,
  kind smallint NOT NULL,
  op bytea NOT NULL,
  PRIMARY KEY (run, kind, op)
);
CREATE INDEX timer_due ON semel.timer (due, run, kind, op);

-- An item's number is never used again: a consumer that asks twice must not take the next one's item.
CREATE TABLE semel.inbox (
  item bigint PRIMARY KEY,
  run bigint NOT NULL,
  at bigint NOT NULL,
  kind smallint NOT NULL,
  op bytea NOT NULL,
  value bytea NOT NULL,
  failure bytea
);
CREATE INDEX inbox_run ON semel.inbox (run);

-- `run` waits in `op` for the end of `target`.
CREATE TABLE semel.waiter (
  run bigint NOT NULL,
  target bigint NOT NULL,
  op bytea NOT NULL,
  PRIMARY KEY (run, op)
);
CREATE INDEX waiter_target ON semel.waiter (target);

CREATE TABLE semel.attribute (
  run bigint NOT NULL,
  workspace bigint NOT NULL,
  name bytea NOT NULL,
  value bytea NOT NULL,
  PRIMARY KEY (run, name)
);
CREATE INDEX attribute_value ON semel.attribute (workspace, name, value);

CREATE TABLE semel.progress (
  run bigint NOT NULL,
  op bytea NOT NULL,
  value bytea NOT NULL,
  PRIMARY KEY (run, op)
);

-- Runs that are gone and whose entries are still there.
CREATE TABLE semel.garbage (
  run bigint PRIMARY KEY
);

-- A hook's number is part of receipts: never used again.
CREATE TABLE semel.hook (
  hook bigint PRIMARY KEY,
  workspace bigint NOT NULL,
  run bigint NOT NULL,
  since bigint NOT NULL,
  active smallint NOT NULL,   -- 0: the token is free or another hook's
  at_end smallint NOT NULL,   -- of a failed run: it had the token then, a retry takes it again
  fed smallint NOT NULL,      -- its run was started with payloads waiting and has read none
  webhook smallint NOT NULL,
  token bytea NOT NULL,
  op bytea NOT NULL,          -- empty: the workflow's own hook has not adopted it
  shape bytea NOT NULL
);
CREATE UNIQUE INDEX hook_token ON semel.hook (workspace, token) WHERE active = 1;
CREATE INDEX hook_run ON semel.hook (run);
-- Found by whoever has the token and no credential.
CREATE INDEX hook_public ON semel.hook (token) WHERE active = 1 AND webhook = 1;

-- Payloads nobody has read: waiting, or left over where their hook is gone.
CREATE TABLE semel.payload (
  payload bigint PRIMARY KEY,
  hook bigint NOT NULL,
  run bigint NOT NULL,
  at bigint NOT NULL,
  checked smallint NOT NULL,  -- fits the shape that its hook has now
  value bytea NOT NULL,
  start bytea                 -- of resume_or_start: the run it would start; empty once it did
);
CREATE INDEX payload_hook ON semel.payload (hook, payload);
CREATE INDEX payload_run ON semel.payload (run);

CREATE TABLE semel.resume (
  workspace bigint NOT NULL,
  hook bigint NOT NULL,
  until bigint NOT NULL,
  started smallint NOT NULL,
  token bytea NOT NULL,
  resume_id bytea NOT NULL,
  fingerprint bytea NOT NULL,
  run_id bytea NOT NULL,
  PRIMARY KEY (workspace, token, resume_id)
);
CREATE INDEX resume_until ON semel.resume (until);

-- Found by the digest of workspace, namespace, scope and key.
CREATE TABLE semel.reservation (
  digest bytea PRIMARY KEY,
  fence bigint NOT NULL,
  workspace bigint NOT NULL,
  lease_until bigint NOT NULL,
  ttl bigint NOT NULL,
  expires_at bigint NOT NULL,  -- from then on it counts for nothing
  sweep_at bigint NOT NULL,    -- never before expires_at; a usual completion leaves it, and its index, as they are
  state smallint NOT NULL,
  on_abandoned smallint NOT NULL,
  fingerprint bytea NOT NULL,
  ns bytea NOT NULL,
  scope bytea NOT NULL,
  key bytea NOT NULL,
  owner bytea NOT NULL,
  answer bytea NOT NULL
);
CREATE INDEX reservation_sweep ON semel.reservation (sweep_at, fence);

CREATE VIEW semel.runs AS
  SELECT r.run, encode(w.name, 'escape') AS workspace, encode(r.id, 'escape') AS id,
    encode(r.workflow, 'escape') AS workflow,
    (ARRAY['pending', 'running', 'waiting', 'completed', 'failed', 'cancelled', 'dead', 'diverged'])
      [r.status + 1] AS status,
    encode(r.idempotency_key, 'escape') AS key,
    to_timestamp(r.created_at / 1e9) AS created_at, to_timestamp(r.ended_at / 1e9) AS ended_at
  FROM semel.run r JOIN semel.workspace w ON w.workspace = r.workspace;
)sql",
    R"sql(
-- Who may ask over HTTP. The key itself is nowhere. Rows stay when a key is revoked: that there was one ends open mode
-- for good.
CREATE TABLE semel.api_key (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text NOT NULL UNIQUE,
  workspace text NOT NULL,
  name text NOT NULL,
  scopes text NOT NULL,        -- words
  digest bytea NOT NULL UNIQUE,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint
);

-- What administrators did.
CREATE TABLE semel.audit (
  entry bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at bigint NOT NULL,
  workspace text NOT NULL,
  actor text NOT NULL,
  action text NOT NULL,
  subject text NOT NULL
);

-- Runs that somebody changed who does not drive them; whoever does looks at them soon. Only a hint: who takes a partition
-- finds the work in it by the state of runs.
CREATE TABLE semel.hint (
  hint bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run bigint NOT NULL,
  partition integer NOT NULL,
  kind smallint NOT NULL  -- 0: it got something, 1: it is new there, 2: it is over, 3: it goes on again, 4: it got an entry
);
)sql",
    R"sql(
-- Workspaces that come from another store. Until `is_done` the workspace has a name that nobody can ask for, and its runs are
-- in no partition that anybody has. What was drawn anew is shifted by a number.
CREATE TABLE semel.copy (
  copy bytea PRIMARY KEY,
  workspace bigint NOT NULL,
  is_done smallint NOT NULL,
  run_shift bigint NOT NULL,
  item_shift bigint NOT NULL,
  hook_shift bigint NOT NULL,
  payload_shift bigint NOT NULL,
  last_run bigint NOT NULL,     -- of the source: these and all before them are here
  last_fence bigint NOT NULL,
  last_token bytea NOT NULL,
  last_resume bytea NOT NULL,
  runs bigint NOT NULL,
  entries bigint NOT NULL,
  payloads bigint NOT NULL,
  reservations bigint NOT NULL
);
)sql",
    R"sql(
-- Runs that have lost their key, for lists. Who holds one is in the other index: keys come in no order, and in a large table
-- each entry is a page to write of its own.
DROP INDEX semel.run_key_had;
CREATE INDEX run_key_had ON semel.run (workspace, idempotency_key)
  WHERE holds_key = 0 AND idempotency_key IS NOT NULL;
)sql",
};

/// "semel" and "schema", as numbers nobody else is likely to use.
constexpr const char* one_at_a_time = "SELECT pg_advisory_xact_lock(1936027240, 1935894637)";

[[noreturn]] void refuse(std::string message) {
  throw Failed{"", base::Fault{base::Errc::refused, std::move(message)}};
}

[[noreturn]] void refuse_newer(int found) {
  refuse(
      fmt::format("the database has schema version {} and this program knows up to {}: it was "
                  "written by a newer semel",
                  found, schema_version_known()));
}

int query_integer(Connection& connection, std::string_view sql) {
  int found = 0;
  Pipeline query{connection};
  query.add(sql, {}, [&](const Rows& rows) { found = static_cast<int>(rows.integer(0, 0)); });
  query.run();
  return found;
}

/// 0: there are no tables of ours.
int schema_version(Connection& connection) {
  // Not to_regclass: inside a transaction it may answer from what this session looked up before another process made it.
  const bool is_there =
      query_integer(connection,
                    "SELECT count(*)::int FROM pg_class c JOIN pg_namespace n ON n.oid = "
                    "c.relnamespace WHERE n.nspname = 'semel' AND c.relname = 'schema_version'") !=
      0;
  return is_there ? query_integer(connection,
                                  "SELECT coalesce(max(version), 0) FROM semel.schema_version")
                  : 0;
}

}  // namespace

int schema_version_known() { return static_cast<int>(migrations.size()); }

void migrate(Connection& connection) {
  for (;;) {
    const int looked = schema_version(connection);
    if (looked > schema_version_known()) refuse_newer(looked);
    if (looked == schema_version_known()) return;
    try {
      connection.run("BEGIN");
      connection.run(one_at_a_time);
      // Another process may have done it meanwhile.
      const int found = schema_version(connection);
      if (found == looked) {
        if (found == 0)
          connection.run(
              "CREATE SCHEMA IF NOT EXISTS semel;"
              "CREATE TABLE semel.schema_version (version integer PRIMARY KEY)");
        connection.run(migrations.at(static_cast<std::size_t>(found)));
        connection.run(
            fmt::format("INSERT INTO semel.schema_version (version) VALUES ({})", found + 1));
      }
      connection.run("COMMIT");
    } catch (const Failed&) {
      if (!connection.is_lost()) connection.run("ROLLBACK");
      throw;
    }
  }
}

void require_schema(Connection& connection) {
  const int found = schema_version(connection);
  if (found == 0) refuse("the database is not a semel store");
  if (found > schema_version_known()) refuse_newer(found);
  if (found < schema_version_known()) {
    refuse(
        fmt::format("the database has schema version {}, this program reads {}: open it with an "
                    "engine once to bring it up to date",
                    found, schema_version_known()));
  }
}

}  // namespace semel::store::postgres
