#include "store/postgres/loading.hpp"

#include <fmt/format.h>

namespace semel::store::postgres {

namespace {

/// So many of a hook's payloads are read with it; more only where they are asked for.
constexpr int payloads_read = 3;

/// The runs that a part is wanted of, by key, id, idempotency key or token: $1 to $7. Names are looked up one by one, in
/// their unique index: left to choose, PostgreSQL goes through the whole table where it takes it to be small.
#define SEMEL_RUNS                                                                       \
  "(SELECT unnest($1::bigint[])"                                                         \
  " UNION SELECT n.run FROM unnest($2::bigint[], $3::bytea[]) AS x(w, v), LATERAL"       \
  "  (SELECT r.run FROM semel.run r WHERE r.workspace = x.w AND r.id = x.v LIMIT 1) n"   \
  " UNION SELECT n.run FROM unnest($4::bigint[], $5::bytea[]) AS x(w, v), LATERAL"       \
  "  (SELECT r.run FROM semel.run r WHERE r.workspace = x.w AND r.idempotency_key = x.v" \
  "   AND r.holds_key = 1 LIMIT 1) n"                                                    \
  " UNION SELECT n.run FROM unnest($6::bigint[], $7::bytea[]) AS x(w, v), LATERAL"       \
  "  (SELECT h.run FROM semel.hook h WHERE h.workspace = x.w AND h.token = x.v"          \
  "   AND h.active = 1 LIMIT 1) n)"

/// Rows of those runs, looked up run by run, as names are. By a range of one run, which is the same as `=` and has no
/// statistics: where few runs have most of the rows, or nobody has counted them yet, PostgreSQL would read the whole table for
/// a run that has none.
#define SEMEL_ROWS(columns, table, of)                                                         \
  "SELECT " columns " FROM " SEMEL_RUNS " AS wanted(key), LATERAL (SELECT * FROM semel." table \
  " t WHERE t." of " BETWEEN wanted.key AND wanted.key OFFSET 0) t"

/// What is found by a unique index was not, or not this, when the locks were taken: it is read again behind a lock.
constexpr const char* lock_runs =
    "SELECT run FROM semel.run WHERE run IN " SEMEL_RUNS " ORDER BY run FOR UPDATE";
constexpr const char* find_runs = "SELECT run FROM semel.run WHERE run IN " SEMEL_RUNS;
constexpr const char* lock_reservations =
    "SELECT fence FROM semel.reservation WHERE digest = ANY($1::bytea[]) ORDER BY digest"
    " FOR UPDATE";
constexpr const char* read_runs =
    "SELECT r.run, r.workspace, w.name, r.created_at, r.ended_at, r.deadline, r.parent, r.key_ttl,"
    " r.retention, r.key_until, r.keep_until, r.first_seq, r.partition, r.code_version,"
    " r.generation, r.status, r.holds_key, r.id, r.instance, r.workflow, r.idempotency_key,"
    " r.fingerprint, r.failure, (SELECT max(j.seq) FROM semel.journal j WHERE j.run = r.run)"
    " FROM semel.run r JOIN semel.workspace w ON w.workspace = r.workspace"
    " WHERE r.run IN " SEMEL_RUNS;
constexpr const char* read_texts =
    "SELECT run, input, output FROM semel.run WHERE run IN " SEMEL_RUNS;
constexpr const char* read_attributes = SEMEL_ROWS("t.run, t.name, t.value", "attribute", "run");
constexpr const char* read_hooks = SEMEL_ROWS(
    "t.hook, t.workspace, t.run, t.token, t.op, t.shape, t.webhook, t.fed, t.since, t.active, "
    "t.at_end",
    "hook", "run");
constexpr const char* read_oldest_payloads =
    SEMEL_ROWS("p.payload, p.hook, p.run, p.at, p.checked, p.value, p.start", "hook", "run")
    ", LATERAL (SELECT * FROM semel.payload q WHERE q.hook = t.hook ORDER BY q.payload LIMIT 3) p";
constexpr const char* read_inbox =
    SEMEL_ROWS("t.item, t.run, t.kind, t.op, t.value, t.failure, t.at", "inbox", "run");
constexpr const char* read_entries =
    "SELECT j.run, j.seq, j.at, j.entry FROM semel.journal j JOIN semel.run o ON o.run = j.run"
    " WHERE j.seq >= o.first_seq AND o.run IN " SEMEL_RUNS;
constexpr const char* read_progress = SEMEL_ROWS("t.run, t.op, t.value", "progress", "run");
constexpr const char* read_timers = SEMEL_ROWS("t.run, t.kind, t.op, t.due", "timer", "run");
constexpr const char* read_waiters = SEMEL_ROWS("t.run, t.op, t.target", "waiter", "target");
constexpr const char* read_children =
    SEMEL_ROWS("t.run, t.parent", "run", "parent") " WHERE t.status NOT IN (3, 4, 5)";
constexpr const char* read_reservations =
    "SELECT digest, fence, workspace, lease_until, ttl, expires_at, sweep_at, state, on_abandoned,"
    " fingerprint, ns, scope, key, owner, answer FROM semel.reservation"
    " WHERE digest = ANY($1::bytea[])";
constexpr const char* read_resumes =
    "SELECT s.workspace, s.token, s.resume_id, s.fingerprint, s.run_id, s.hook, s.started, s.until"
    " FROM unnest($1::bigint[], $2::bytea[], $3::bytea[]) AS x(w, t, i) JOIN semel.resume s"
    " ON s.workspace = x.w AND s.token = x.t AND s.resume_id = x.i";
constexpr const char* read_workspaces =
    "SELECT name, workspace FROM semel.workspace WHERE name = ANY($1::bytea[])";
constexpr const char* read_hooks_whole =
    "SELECT payload, hook, run, at, checked, value, start FROM semel.payload"
    " WHERE hook = ANY($1::bigint[])";
constexpr const char* read_payloads =
    "SELECT payload, hook, run, at, checked, value, start FROM semel.payload"
    " WHERE payload = ANY($1::bigint[])";

#undef SEMEL_ROWS
#undef SEMEL_RUNS

constexpr std::array<const char*, number_kinds> draw_numbers{
    "SELECT nextval('semel.item_number') FROM generate_series(1, $1::bigint)",
    "SELECT nextval('semel.hook_number') FROM generate_series(1, $1::bigint)",
    "SELECT nextval('semel.payload_number') FROM generate_series(1, $1::bigint)",
    "SELECT nextval('semel.fence_number') FROM generate_series(1, $1::bigint)",
    "WITH drawn AS (UPDATE semel.counter SET next = next + $1::bigint WHERE name = 'run'"
    " RETURNING next) SELECT generate_series(next - $1::bigint, next - 1) FROM drawn"};

/// Of the runs that `part` is wanted of; none where it is wanted of none.
std::optional<Parameters> runs_with(const Wants& wants, Parts part) {
  bool is_empty = true;
  Columns runs{"i"};
  for (const auto& [run, parts] : wants.runs) {
    if ((parts & part) == 0) continue;
    runs.add(run);
    is_empty = false;
  }
  Parameters parameters = runs.parameters();
  for (const auto* names : {&wants.ids, &wants.keys, &wants.tokens}) {
    Columns columns{"ib"};
    for (const auto& [name, parts] : *names) {
      if ((parts & part) == 0) continue;
      columns.add(name.first, name.second);
      is_empty = false;
    }
    const Parameters more = columns.parameters();
    for (const std::string& value : more.values()) parameters.add(std::string_view{value});
  }
  return is_empty ? std::nullopt : std::optional{std::move(parameters)};
}

RunRow run_row(const Rows& rows, int row) {
  const std::int64_t status = rows.integer(row, 15);
  if (status < 0 || status > static_cast<std::int64_t>(Status::diverged))
    throw_corrupt(fmt::format("a run has the unknown status {}", status));
  return {.workspace = rows.integer(row, 1),
          .created_at = rows.time(row, 3),
          .ended_at = rows.optional_time(row, 4),
          .deadline = rows.optional_time(row, 5),
          .parent = rows.optional_integer(row, 6),
          .key_ttl = rows.integer(row, 7),
          .retention = rows.integer(row, 8),
          .key_until = rows.optional_integer(row, 9),
          .keep_until = rows.optional_integer(row, 10),
          .first_seq = static_cast<Seq>(rows.integer(row, 11)),
          .partition = static_cast<std::int32_t>(rows.integer(row, 12)),
          .code_version = static_cast<std::int32_t>(rows.integer(row, 13)),
          .generation = static_cast<std::uint32_t>(rows.integer(row, 14)),
          .status = static_cast<Status>(status),
          .holds_key = rows.flag(row, 16),
          .id = rows.text(row, 17),
          .instance = rows.text(row, 18),
          .workflow = rows.text(row, 19),
          .idempotency_key = rows.optional_text(row, 20),
          .fingerprint = rows.text(row, 21),
          .failure = rows.optional_text(row, 22)};
}

void load_runs(Held& held, const Rows& rows) {
  for (int i = 0; i < rows.size(); ++i) {
    const RunKey run = rows.integer(i, 0);
    held.known.note_workspace(rows.text(i, 2), rows.integer(i, 1));
    // Not among the locked ones: it came to be what was looked for a moment ago.
    if (!held.locked.contains(run)) {
      held.more.runs[run] |= row_part;
      continue;
    }
    RunRow row = run_row(rows, i);
    held.known.note_run(run, row.workspace);
    held.index(run, row);
    held.runs.load(run, std::move(row));
    const auto last = rows.optional_integer(i, 23);
    held.ends.load(run, last ? std::optional{static_cast<Seq>(*last)} : std::nullopt);
  }
}

void load_hooks(Held& held, const Rows& rows) {
  for (int i = 0; i < rows.size(); ++i) {
    const HookKey key = rows.integer(i, 0);
    HeldHook hook{.row = {.key = key,
                          .workspace = rows.integer(i, 1),
                          .run = rows.integer(i, 2),
                          .token = rows.text(i, 3),
                          .op = rows.text(i, 4),
                          .shape = rows.text(i, 5),
                          .webhook = rows.flag(i, 6),
                          .fed = rows.flag(i, 7)},
                  .since = rows.time(i, 8),
                  .active = rows.flag(i, 9),
                  .at_end = rows.flag(i, 10)};
    held.index(key, hook);
    held.whole.emplace(key, true);
    held.hooks.load(key, std::move(hook));
  }
}

std::pair<std::int64_t, PayloadRow> payload_row(const Rows& rows, int i) {
  return {rows.integer(i, 0),
          {.hook = rows.integer(i, 1),
           .run = rows.integer(i, 2),
           .at = rows.time(i, 3),
           .checked = rows.flag(i, 4),
           .value = rows.text(i, 5),
           .start = rows.optional_text(i, 6)}};
}

void load_payloads(Held& held, const Rows& rows, bool is_indexed) {
  for (int i = 0; i < rows.size(); ++i) {
    auto [number, row] = payload_row(rows, i);
    if (is_indexed) held.index(number, row);
    held.payloads.load(number, std::move(row));
  }
}

void load_oldest_payloads(Held& held, const Rows& rows) {
  load_payloads(held, rows, true);
  std::map<HookKey, int> count;
  for (int i = 0; i < rows.size(); ++i) {
    const HookKey hook = rows.integer(i, 1);
    if (++count[hook] == payloads_read) held.whole[hook] = held.wants.hooks_whole.contains(hook);
  }
}

void load_inbox(Held& held, const Rows& rows) {
  for (int i = 0; i < rows.size(); ++i) {
    InboxItem item{.id = rows.integer(i, 0),
                   .kind = static_cast<InboxItem::Kind>(rows.integer(i, 2)),
                   .op = rows.text(i, 3),
                   .value = rows.text(i, 4),
                   .failure = decode_failure(rows.optional_text(i, 5)),
                   .at = rows.time(i, 6)};
    held.inbox.load({rows.integer(i, 1), item.id}, item);
  }
}

void load_waiters(Held& held, const Rows& rows) {
  for (int i = 0; i < rows.size(); ++i) {
    const Operation operation{rows.integer(i, 0), rows.text(i, 1)};
    held.waits_by_target[rows.integer(i, 2)].insert(operation);
    held.waits.load(operation, rows.integer(i, 2));
  }
}

void load_reservations(Held& held, const Rows& rows) {
  for (int i = 0; i < rows.size(); ++i) {
    held.reservations.load(
        rows.text(i, 0),
        {.row = {.fence = rows.integer(i, 1),
                 .state = static_cast<ReservationState>(rows.integer(i, 7)),
                 .on_abandoned = static_cast<OnAbandoned>(rows.integer(i, 8)),
                 .lease_until = rows.time(i, 3),
                 .expires_at = rows.time(i, 5),
                 .fingerprint = rows.text(i, 9),
                 .owner = rows.text(i, 13),
                 .answer = rows.text(i, 14)},
         .workspace = rows.integer(i, 2),
         .ttl = rows.integer(i, 4),
         .sweep_at = rows.integer(i, 6),
         .id = {.ns = rows.text(i, 10), .scope = rows.text(i, 11), .key = rows.text(i, 12)}});
  }
}

void load_resumes(Held& held, const Rows& rows) {
  for (int i = 0; i < rows.size(); ++i) {
    held.resumes.load({rows.integer(i, 0), rows.text(i, 1), rows.text(i, 2)},
                      {.receipt = {.fingerprint = rows.text(i, 3),
                                   .run_id = rows.text(i, 4),
                                   .hook = rows.integer(i, 5),
                                   .started = rows.flag(i, 6)},
                       .until = rows.time(i, 7)});
  }
}

template <class Table>
void load_operations(Table& table, const Rows& rows) {
  for (int i = 0; i < rows.size(); ++i)
    table.load({rows.integer(i, 0), rows.text(i, 1)}, rows.text(i, 2));
}

template <class Values>
Parameters array_of(std::string_view kind, const Values& values) {
  Columns column{kind};
  for (const auto& value : values) column.add(value);
  return column.parameters();
}

void add_parts(Pipeline& pipeline, Held& held) {
  const Wants& wants = held.wants;
  const auto add = [&](Parts part, const char* sql, Pipeline::Then then) {
    if (const auto runs = runs_with(wants, part)) pipeline.add(sql, *runs, std::move(then));
  };
  add(row_part, read_runs, [&](const Rows& rows) { load_runs(held, rows); });
  add(texts_part, read_texts, [&](const Rows& rows) {
    for (int i = 0; i < rows.size(); ++i) {
      held.inputs.load(rows.integer(i, 0), rows.text(i, 1));
      held.outputs.load(rows.integer(i, 0), rows.text(i, 2));
    }
  });
  add(attributes_part, read_attributes,
      [&](const Rows& rows) { load_operations(held.attributes, rows); });
  add(hooks_part, read_hooks, [&](const Rows& rows) { load_hooks(held, rows); });
  add(hooks_part, read_oldest_payloads,
      [&](const Rows& rows) { load_oldest_payloads(held, rows); });
  add(inbox_part, read_inbox, [&](const Rows& rows) { load_inbox(held, rows); });
  add(entries_part, read_entries, [&](const Rows& rows) {
    for (int i = 0; i < rows.size(); ++i) {
      const RunKey run = rows.integer(i, 0);
      const auto seq = static_cast<Seq>(rows.integer(i, 1));
      // Its owner needs no lock to append, and may have done so since the end was looked at.
      const auto* end = held.ends.find(run);
      if (end == nullptr || !*end || seq > **end) continue;
      held.journal.load({run, seq}, {.at = rows.time(i, 2), .bytes = rows.text(i, 3)});
    }
  });
  add(progress_part, read_progress,
      [&](const Rows& rows) { load_operations(held.progress, rows); });
  add(timers_part, read_timers, [&](const Rows& rows) {
    for (int i = 0; i < rows.size(); ++i) {
      held.timers.load(
          {rows.integer(i, 0), static_cast<TimerKind>(rows.integer(i, 1)), rows.text(i, 2)},
          rows.time(i, 3));
    }
  });
  add(waiters_part, read_waiters, [&](const Rows& rows) { load_waiters(held, rows); });
  add(children_part, read_children, [&](const Rows& rows) {
    for (int i = 0; i < rows.size(); ++i)
      held.by_parent[rows.integer(i, 1)].insert(rows.integer(i, 0));
  });
}

}  // namespace

void add_loading(Pipeline& pipeline, Held& held, bool locks) {
  const Wants& wants = held.wants;
  if (const auto runs = runs_with(wants, row_part)) {
    pipeline.add(locks ? lock_runs : find_runs, *runs, [&held](const Rows& rows) {
      for (int i = 0; i < rows.size(); ++i) held.locked.insert(rows.integer(i, 0));
    });
  }
  if (!wants.reservations.empty()) {
    const Parameters digests = array_of("b", wants.reservations);
    if (locks) pipeline.add(lock_reservations, digests);
    pipeline.add(read_reservations, digests,
                 [&held](const Rows& rows) { load_reservations(held, rows); });
  }
  add_parts(pipeline, held);
  if (!wants.names.empty()) {
    pipeline.add(read_workspaces, array_of("b", wants.names), [&held](const Rows& rows) {
      for (int i = 0; i < rows.size(); ++i)
        held.known.note_workspace(rows.text(i, 0), rows.integer(i, 1));
    });
  }
  if (!wants.resumes.empty()) {
    Columns names{"ibb"};
    for (const auto& [workspace, token, id] : wants.resumes) names.add(workspace, token, id);
    pipeline.add(read_resumes, names.parameters(),
                 [&held](const Rows& rows) { load_resumes(held, rows); });
  }
  if (!wants.hooks_whole.empty()) {
    pipeline.add(read_hooks_whole, array_of("i", wants.hooks_whole),
                 [&held](const Rows& rows) { load_payloads(held, rows, true); });
  }
  if (!wants.payloads.empty()) {
    // Not found by their hook: what lies between them and the oldest was not read.
    pipeline.add(read_payloads, array_of("i", wants.payloads),
                 [&held](const Rows& rows) { load_payloads(held, rows, false); });
  }
  for (std::size_t kind = 0; kind < number_kinds; ++kind) {
    if (wants.numbers[kind] == 0) continue;
    pipeline.add(draw_numbers[kind], Parameters::of(wants.numbers[kind]),
                 [&held, kind](const Rows& rows) {
                   for (int i = 0; i < rows.size(); ++i)
                     held.numbers[kind].push_back(rows.integer(i, 0));
                 });
  }
}

void finish_loading(Held& held) {
  const Wants& wants = held.wants;
  for (const auto& [run, parts] : wants.runs) held.parts[run] |= parts;
  const auto parts_by = [](const std::map<Name, Parts>& names, const Name& name) {
    const auto found = names.find(name);
    return found == names.end() ? Parts{0} : found->second;
  };
  for (const auto& [run, slot] : held.runs.slots()) {
    const RunRow& row = *slot.now;
    held.parts[run] |= row_part | parts_by(wants.ids, {row.workspace, row.id});
    if (row.holds_key)
      held.parts[run] |= parts_by(wants.keys, {row.workspace, *row.idempotency_key});
  }
  for (const auto& [key, slot] : held.hooks.slots()) {
    const HeldHook& hook = *slot.now;
    if (hook.active && held.locked.contains(hook.row.run))
      held.parts[hook.row.run] |= parts_by(wants.tokens, {hook.row.workspace, hook.row.token});
  }
}

}  // namespace semel::store::postgres
