// Times are nanoseconds since 1970, `run` is a RunKey, enums are the numbers in store.hpp and entry.hpp.
//
// What a commit costs is the pages it touches, hence: the journal is an append-only log by rowid with an index on
// (run, seq), not clustered by run; a run's row is written at its start, when it parks and at its end; indexes on runs
// are partial where most rows would only be ballast. No foreign keys: every delete would look for children.
#include "store/sqlite/schema.hpp"

#include <fmt/format.h>

#include <array>

namespace semel::store::sqlite {

namespace {

/// Never change one that was released: files have it. Add the next.
constexpr std::array<const char*, 8> migrations{
    R"sql(
CREATE TABLE semel_workspace (
  workspace INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
);

CREATE TABLE semel_partition (
  partition INTEGER PRIMARY KEY,
  epoch INTEGER NOT NULL
);

-- Who has the store open, and how its predecessors left.
CREATE TABLE semel_node (
  node INTEGER PRIMARY KEY,
  opened_at INTEGER NOT NULL,
  open INTEGER NOT NULL,      -- did not leave in order (yet)
  well INTEGER NOT NULL,      -- lived long enough to be no part of a crash loop
  crashes INTEGER NOT NULL    -- openers before it in a row that neither left in order nor got well
);

CREATE TABLE semel_counter (
  name TEXT PRIMARY KEY,
  next INTEGER NOT NULL
) WITHOUT ROWID;

-- Small columns first: guards read the status without reading the arguments.
CREATE TABLE semel_run (
  run INTEGER PRIMARY KEY,
  workspace INTEGER NOT NULL,
  partition INTEGER NOT NULL,
  status INTEGER NOT NULL,
  holds_key INTEGER,          -- 1, or NULL: the key is free or another run's
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  deadline INTEGER,
  parent INTEGER,
  code_version INTEGER NOT NULL,
  key_ttl INTEGER NOT NULL,
  retention INTEGER NOT NULL,
  key_until INTEGER,          -- of a finished run with a key: then it is free
  keep_until INTEGER,         -- of a finished run: then it is swept
  id TEXT NOT NULL,
  instance TEXT NOT NULL,
  workflow TEXT NOT NULL,
  idempotency_key TEXT,
  fingerprint BLOB NOT NULL,
  failure BLOB,
  input TEXT NOT NULL,
  output TEXT NOT NULL
);
CREATE UNIQUE INDEX semel_run_id ON semel_run (workspace, id);
-- NULLs are distinct: at most one run holds a key, any number had it once.
CREATE UNIQUE INDEX semel_run_key ON semel_run (workspace, idempotency_key, holds_key)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX semel_run_open ON semel_run (status) WHERE status < 3;
CREATE INDEX semel_run_created ON semel_run (workspace, created_at, id);
CREATE INDEX semel_run_parent ON semel_run (parent) WHERE parent IS NOT NULL;
CREATE INDEX semel_run_key_until ON semel_run (key_until) WHERE key_until IS NOT NULL;
CREATE INDEX semel_run_keep_until ON semel_run (keep_until) WHERE keep_until IS NOT NULL;

CREATE TABLE semel_journal (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  entry BLOB NOT NULL
);
CREATE UNIQUE INDEX semel_journal_position ON semel_journal (run, seq);

-- In the order they fall due.
CREATE TABLE semel_timer (
  due INTEGER NOT NULL,
  run INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  op TEXT NOT NULL,
  PRIMARY KEY (due, run, kind, op)
) WITHOUT ROWID;
CREATE UNIQUE INDEX semel_timer_run ON semel_timer (run, kind, op);

-- An item's number is never used again: a consumer that asks twice must not take the next one's item.
CREATE TABLE semel_inbox (
  item INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  op TEXT NOT NULL,
  value TEXT NOT NULL,
  failure BLOB,
  at INTEGER NOT NULL
);
CREATE INDEX semel_inbox_run ON semel_inbox (run);

-- `run` waits in `op` for the end of `target`.
CREATE TABLE semel_waiter (
  target INTEGER NOT NULL,
  run INTEGER NOT NULL,
  op TEXT NOT NULL,
  PRIMARY KEY (target, run, op)
) WITHOUT ROWID;
CREATE UNIQUE INDEX semel_waiter_run ON semel_waiter (run, op);

CREATE TABLE semel_attribute (
  run INTEGER NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  workspace INTEGER NOT NULL,
  PRIMARY KEY (run, name)
) WITHOUT ROWID;
CREATE INDEX semel_attribute_value ON semel_attribute (workspace, name, value);

CREATE TABLE semel_progress (
  run INTEGER NOT NULL,
  op TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run, op)
) WITHOUT ROWID;

-- Runs that are gone and whose entries are still there.
CREATE TABLE semel_garbage (
  run INTEGER PRIMARY KEY
);
)sql",
    R"sql(
-- A run that goes on as new keeps its row; the entries of its generation begin at first_seq.
ALTER TABLE semel_run ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE semel_run ADD COLUMN first_seq INTEGER NOT NULL DEFAULT 0;

-- A hook's number is part of receipts: never used again.
CREATE TABLE semel_hook (
  hook INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace INTEGER NOT NULL,
  run INTEGER NOT NULL,
  active INTEGER,                     -- 1, or NULL: the token is free or another hook's
  at_end INTEGER NOT NULL DEFAULT 0,  -- of a failed run: it had the token then, a retry takes it again
  fed INTEGER NOT NULL DEFAULT 0,     -- its run was started with payloads waiting and has read none
  webhook INTEGER NOT NULL,
  since INTEGER NOT NULL,
  token TEXT NOT NULL,
  op TEXT NOT NULL,                   -- empty: the workflow's own hook has not adopted it
  shape TEXT NOT NULL
);
CREATE UNIQUE INDEX semel_hook_token ON semel_hook (workspace, token) WHERE active = 1;
CREATE INDEX semel_hook_run ON semel_hook (run);

-- Payloads nobody has read: waiting, or left over where their hook is gone.
CREATE TABLE semel_payload (
  payload INTEGER PRIMARY KEY AUTOINCREMENT,
  hook INTEGER NOT NULL,
  run INTEGER NOT NULL,
  checked INTEGER NOT NULL,  -- fits the shape that its hook has now
  at INTEGER NOT NULL,
  value TEXT NOT NULL,
  start TEXT                 -- of resume_or_start: the run it would start; '' once it did
);
CREATE INDEX semel_payload_hook ON semel_payload (hook);
CREATE INDEX semel_payload_run ON semel_payload (run);

CREATE TABLE semel_resume (
  workspace INTEGER NOT NULL,
  token TEXT NOT NULL,
  resume_id TEXT NOT NULL,
  fingerprint BLOB NOT NULL,
  run_id TEXT NOT NULL,
  hook INTEGER NOT NULL,
  started INTEGER NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY (workspace, token, resume_id)
) WITHOUT ROWID;
CREATE INDEX semel_resume_until ON semel_resume (until);
)sql",
    R"sql(
-- Found by the digest of workspace, namespace, scope and key: those are long and come in random order, and an index of
-- digests has a quarter of the pages. The row's number is its fence, so rows are appended, and completing one finds it
-- without the index. Small columns first: an answer may fill many pages.
CREATE TABLE semel_reservation (
  fence INTEGER PRIMARY KEY,
  workspace INTEGER NOT NULL,
  state INTEGER NOT NULL,
  on_abandoned INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  ttl INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,  -- from then on it counts for nothing
  sweep_at INTEGER NOT NULL,    -- never before expires_at; a usual completion leaves it, and its index, as they are
  digest BLOB NOT NULL,
  fingerprint BLOB NOT NULL,
  ns TEXT NOT NULL,
  scope TEXT NOT NULL,
  key TEXT NOT NULL,
  owner TEXT NOT NULL,
  answer BLOB NOT NULL
);
CREATE UNIQUE INDEX semel_reservation_id ON semel_reservation (digest);
CREATE INDEX semel_reservation_sweep ON semel_reservation (sweep_at);

-- Runs of one moment are few enough to be put in order when they are listed; their ids made the index three times as large.
DROP INDEX semel_run_created;
CREATE INDEX semel_run_created ON semel_run (workspace, created_at);
)sql",
    R"sql(
-- Who may ask over HTTP. The key itself is nowhere. Rows stay when a key is revoked: that there was one ends open mode
-- for good.
CREATE TABLE semel_api_key (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  workspace TEXT NOT NULL,
  name TEXT NOT NULL,
  scopes TEXT NOT NULL,        -- words
  digest BLOB NOT NULL UNIQUE,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
);

-- What administrators did.
CREATE TABLE semel_audit (
  entry INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  workspace TEXT NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL
);

-- Found by whoever has the token and no credential.
CREATE INDEX semel_hook_public ON semel_hook (token) WHERE active = 1 AND webhook = 1;
)sql",
    R"sql(
-- Workspaces that are being moved to another store, or were. No engine opens the file any more: its runs would run twice.
CREATE TABLE semel_move (
  workspace TEXT PRIMARY KEY,
  copy TEXT NOT NULL,     -- what the other store knows it by
  target TEXT NOT NULL,   -- for people: without a password
  is_done INTEGER NOT NULL
) WITHOUT ROWID;
)sql",
    R"sql(
-- By the texts themselves. Keys that are made one after the other (UUIDv7, ULID, numbers) are neighbours in the index, so a
-- commit writes one page for many of them; of digests each is at a place of its own, and what a commit costs is its pages.
DROP INDEX semel_reservation_id;
ALTER TABLE semel_reservation DROP COLUMN digest;
CREATE UNIQUE INDEX semel_reservation_id ON semel_reservation (workspace, ns, scope, key);
)sql",
    R"sql(
-- Keys in eras, as key_eras.hpp says. Those that are there already are one.
CREATE TABLE semel_key_era (
  era INTEGER PRIMARY KEY
);
INSERT INTO semel_key_era (era) VALUES (0);
ALTER TABLE semel_run ADD COLUMN key_era INTEGER NOT NULL DEFAULT 0;
DROP INDEX semel_run_key;
-- NULLs are distinct: at most one run of an era holds a key, any number had it once.
CREATE UNIQUE INDEX semel_run_key ON semel_run (key_era, workspace, idempotency_key, holds_key)
  WHERE idempotency_key IS NOT NULL;
)sql",
    R"sql(
-- The key first: of all four it is what differs, so finding a place compares one text instead of four columns, and keys made
-- one after the other are neighbours whoever made them.
DROP INDEX semel_reservation_id;
CREATE UNIQUE INDEX semel_reservation_id ON semel_reservation (key, scope, ns, workspace);

-- What is swept when, as reservation_sweeps.hpp says: one row for many.
DROP INDEX semel_reservation_sweep;
CREATE TABLE semel_reservation_sweep (
  sweep_at INTEGER NOT NULL,
  first INTEGER NOT NULL,  -- fences
  last INTEGER NOT NULL,
  PRIMARY KEY (sweep_at, first)
) WITHOUT ROWID;
INSERT INTO semel_reservation_sweep (sweep_at, first, last)
  SELECT sweep_at, fence, fence FROM semel_reservation;
)sql",
};

[[noreturn]] void refuse(std::string message) {
  throw Failed{SQLITE_OK, base::Fault{base::Errc::refused, std::move(message)}};
}

[[noreturn]] void refuse_newer(Database& database, int found) {
  refuse(fmt::format(
      "{} has schema version {} and this program knows up to {}: it was written by a newer semel",
      database.path(), found, schema_version_known()));
}

}  // namespace

int schema_version_known() { return static_cast<int>(migrations.size()); }

int schema_version(Database& database) {
  Statement there{
      database,
      "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'semel_schema_version'"};
  if (!there.any()) return 0;
  Statement version{database, "SELECT max(version) FROM semel_schema_version"};
  Rows rows = version.select();
  return rows.next() ? static_cast<int>(rows.integer(0)) : 0;
}

void migrate(Database& database) {
  const int found = schema_version(database);
  if (found > schema_version_known()) refuse_newer(database, found);
  for (int version = found + 1; version <= schema_version_known(); ++version) {
    Transaction transaction{database, Transaction::Kind::write};
    if (version == 1)
      database.run("CREATE TABLE semel_schema_version (version INTEGER PRIMARY KEY)");
    database.run(migrations[static_cast<std::size_t>(version - 1)]);
    Statement{database, "INSERT INTO semel_schema_version (version) VALUES (?1)"}.run(version);
    transaction.commit();
  }
}

void require_schema(Database& database) {
  const int found = schema_version(database);
  if (found == 0) refuse(fmt::format("{} is not a semel store", database.path()));
  if (found > schema_version_known()) refuse_newer(database, found);
  if (found < schema_version_known()) {
    refuse(
        fmt::format("{} has schema version {}, this program reads {}: open it with an engine once "
                    "to bring it up to date",
                    database.path(), found, schema_version_known()));
  }
}

void refuse_moved(Database& database) {
  Statement moves{database, "SELECT workspace, target, is_done FROM semel_move ORDER BY is_done"};
  Rows rows = moves.select();
  if (!rows.next()) return;
  const std::string workspace = rows.text(0);
  const std::string target = rows.text(1);
  if (rows.integer(2) != 0) {
    refuse(fmt::format("workspace {} of {} was moved to {}: open that; its runs would run twice",
                       workspace, database.path(), target));
  }
  refuse(
      fmt::format("workspace {} of {} is being moved to {}: give the same `semel copy` again to "
                  "finish it, or with --undo to take it back",
                  workspace, database.path(), target));
}

}  // namespace semel::store::sqlite
