#include "store/postgres/writing.hpp"

#include "store/postgres/presumed.hpp"

#include <algorithm>

namespace semel::store::postgres {

namespace {

/// Sends the statement if there are rows for it.
void add(Pipeline& pipeline, const char* sql, const Columns& columns) {
  if (!columns.empty()) pipeline.add(sql, columns.parameters());
}

// ------------------------------------------------------------------------------------------------ runs

constexpr const char* delete_runs = "DELETE FROM semel.run WHERE run = ANY($1::bigint[])";
constexpr const char* delete_attributes =
    "DELETE FROM semel.attribute WHERE run = ANY($1::bigint[])";
constexpr const char* update_runs =
    "UPDATE semel.run r SET ended_at = x.ended_at, key_until = x.key_until,"
    " keep_until = x.keep_until, first_seq = x.first_seq, generation = x.generation,"
    " status = x.status, holds_key = x.holds_key, code_version = x.code_version,"
    " failure = x.failure"
    " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],"
    " $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[])"
    " AS x(run, ended_at, key_until, keep_until, first_seq, generation, status, holds_key,"
    " code_version, failure) WHERE r.run = x.run";
constexpr const char* insert_runs =
    "INSERT INTO semel.run (run, workspace, created_at, ended_at, deadline, parent, key_ttl,"
    " retention, key_until, keep_until, first_seq, partition, code_version, generation, status,"
    " holds_key, id, instance, workflow, idempotency_key, fingerprint, failure, input, output)"
    " SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],"
    " $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[],"
    " $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bytea[],"
    " $18::bytea[], $19::bytea[], $20::bytea[], $21::bytea[], $22::bytea[], $23::bytea[],"
    " $24::bytea[])";
constexpr const char* update_inputs =
    "UPDATE semel.run r SET input = x.value FROM unnest($1::bigint[], $2::bytea[]) AS x(run, value)"
    " WHERE r.run = x.run";
/// With its result.
constexpr const char* end_runs =
    "UPDATE semel.run r SET ended_at = x.ended_at, key_until = x.key_until,"
    " keep_until = x.keep_until, first_seq = x.first_seq, generation = x.generation,"
    " status = x.status, holds_key = x.holds_key, code_version = x.code_version,"
    " failure = x.failure, output = x.output"
    " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],"
    " $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[], $11::bytea[])"
    " AS x(run, ended_at, key_until, keep_until, first_seq, generation, status, holds_key,"
    " code_version, failure, output) WHERE r.run = x.run";
constexpr const char* update_outputs =
    "UPDATE semel.run r SET output = x.value"
    " FROM unnest($1::bigint[], $2::bytea[]) AS x(run, value) WHERE r.run = x.run";

using RunSlot = Ledger<RunKey, RunRow>::Slots::value_type;

void insert_new_runs(Pipeline& pipeline, const Held& held, std::vector<const RunSlot*> fresh) {
  std::ranges::sort(fresh, {}, [](const RunSlot* slot) {
    const RunRow& row = *slot->second.now;
    return std::tie(row.workspace, row.idempotency_key, row.id);
  });
  Columns columns{"iiiiiiiiiiiiiiiibbbbbbbb"};
  for (const RunSlot* slot : fresh) {
    const RunRow& row = *slot->second.now;
    columns.add(slot->first, row.workspace, row.created_at, row.ended_at, row.deadline, row.parent,
                row.key_ttl, row.retention, row.key_until, row.keep_until, row.first_seq,
                row.partition, row.code_version, row.generation, row.status, row.holds_key, row.id,
                row.instance, row.workflow, row.idempotency_key, row.fingerprint, row.failure,
                *held.inputs.find(slot->first), *held.outputs.find(slot->first));
  }
  add(pipeline, insert_runs, columns);
}

/// The result of a stored run that ends: it goes into the same version of its row. None: its result is as it was.
const std::string* output_at_end(const Held& held, RunKey run) {
  const auto row = held.runs.slots().find(run);
  const auto output = held.outputs.slots().find(run);
  if (row == held.runs.slots().end() || output == held.outputs.slots().end()) return nullptr;
  const bool is_written = row->second.is_changed && row->second.is_stored && row->second.now &&
                          is_end(row->second.now->status);
  return is_written && output->second.is_changed && output->second.now ? &*output->second.now
                                                                       : nullptr;
}

void write_runs(Pipeline& pipeline, const Held& held) {
  Columns gone{"i"};
  Columns without_key{"iiiiiiiiib"};
  Columns with_key{"iiiiiiiiib"};
  Columns ended_without_key{"iiiiiiiiibb"};
  Columns ended_with_key{"iiiiiiiiibb"};
  std::vector<const RunSlot*> fresh;
  for (const RunSlot& each : held.runs.slots()) {
    const auto& [run, slot] = each;
    if (!slot.is_changed) continue;
    if (!slot.now) {
      if (slot.is_stored) gone.add(run);
    } else if (!slot.is_stored) {
      fresh.push_back(&each);
    } else {
      const RunRow& row = *slot.now;
      if (const std::string* output = output_at_end(held, run)) {
        (row.holds_key ? ended_with_key : ended_without_key)
            .add(run, row.ended_at, row.key_until, row.keep_until, row.first_seq, row.generation,
                 row.status, row.holds_key, row.code_version, row.failure, *output);
        continue;
      }
      (row.holds_key ? with_key : without_key)
          .add(run, row.ended_at, row.key_until, row.keep_until, row.first_seq, row.generation,
               row.status, row.holds_key, row.code_version, row.failure);
    }
  }
  add(pipeline, delete_runs, gone);
  add(pipeline, delete_attributes, gone);
  // Who frees a key comes before who claims it.
  add(pipeline, update_runs, without_key);
  add(pipeline, end_runs, ended_without_key);
  add(pipeline, update_runs, with_key);
  add(pipeline, end_runs, ended_with_key);
  write_presumed_ends(pipeline, held);
  insert_new_runs(pipeline, held, std::move(fresh));
}

void write_texts(Pipeline& pipeline, const Held& held) {
  const auto write = [&](const Ledger<RunKey, std::string>& texts, const char* sql, bool at_end) {
    Columns columns{"ib"};
    for (const auto& [run, slot] : texts.slots()) {
      const auto row = held.runs.slots().find(run);
      const bool is_stored = row != held.runs.slots().end() && row->second.is_stored;
      if (at_end && output_at_end(held, run) != nullptr) continue;  // written with its row
      if (slot.is_changed && slot.now && is_stored) columns.add(run, *slot.now);
    }
    add(pipeline, sql, columns);
  };
  write(held.inputs, update_inputs, false);
  write(held.outputs, update_outputs, true);
}

void write_attributes(Pipeline& pipeline, const Held& held) {
  Columns set{"iibb"};
  for (const auto& [operation, slot] : held.attributes.slots()) {
    const RunRow* row = held.runs.find(operation.first);
    if (slot.is_changed && slot.now && row != nullptr)
      set.add(operation.first, row->workspace, operation.second, *slot.now);
  }
  add(pipeline,
      "INSERT INTO semel.attribute (run, workspace, name, value)"
      " SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[])"
      " ON CONFLICT (run, name) DO UPDATE SET value = excluded.value",
      set);
}

void write_journal(Pipeline& pipeline, const Held& held) {
  Columns entries{"iiib"};
  for (const auto& [position, slot] : held.journal.slots()) {
    if (slot.is_changed)
      entries.add(position.first, position.second, slot.now->at, slot.now->bytes);
  }
  add(pipeline,
      "INSERT INTO semel.journal (run, seq, at, entry)"
      " SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[])",
      entries);
  Columns garbage{"i"};
  for (const auto& [run, slot] : held.garbage.slots()) {
    if (slot.now) garbage.add(run);
  }
  add(pipeline,
      "INSERT INTO semel.garbage (run) SELECT unnest($1::bigint[]) ON CONFLICT DO NOTHING",
      garbage);
}

// ------------------------------------------------------------------------------------------------ wake-ups

/// Rows of those runs, which are locked. Found by ranges of one run, as in loading.cpp.
#define SEMEL_DELETE(table, which)                                                               \
  "DELETE FROM semel." table                                                                     \
  " WHERE ctid = ANY (ARRAY(SELECT t.place FROM unnest($1::bigint[]) AS x(run),"                 \
  " LATERAL (SELECT ctid AS place FROM semel." table " WHERE run BETWEEN x.run AND x.run " which \
  " OFFSET 0) t))"

void clear_wakeups(Pipeline& pipeline, const Held& held) {
  Columns all{"i"};
  Columns any{"i"};
  Columns generation{"i"};
  for (const auto& [run, slot] : held.cleared.slots()) {
    if (!slot.now) continue;
    any.add(run);
    (slot.now->all ? all : generation).add(run);
  }
  add(pipeline, SEMEL_DELETE("timer", ""), all);
  add(pipeline, SEMEL_DELETE("timer", "AND kind IN (0, 1)"), generation);
  add(pipeline, SEMEL_DELETE("inbox", ""), all);
  add(pipeline, SEMEL_DELETE("inbox", "AND kind = 0"), generation);
  add(pipeline, SEMEL_DELETE("waiter", ""), any);
  add(pipeline, SEMEL_DELETE("progress", ""), any);
}

#undef SEMEL_DELETE

void write_timers(Pipeline& pipeline, const Held& held) {
  Columns gone{"iib"};
  Columns set{"iibi"};
  for (const auto& [name, slot] : held.timers.slots()) {
    const auto& [run, kind, op] = name;
    if (!slot.is_changed) continue;
    if (slot.now) {
      set.add(run, kind, op, *slot.now);
    } else {
      gone.add(run, kind, op);
    }
  }
  add(pipeline,
      "DELETE FROM semel.timer t USING unnest($1::bigint[], $2::bigint[], $3::bytea[])"
      " AS x(run, kind, op) WHERE t.run = x.run AND t.kind = x.kind AND t.op = x.op",
      gone);
  add(pipeline,
      "INSERT INTO semel.timer (run, kind, op, due)"
      " SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[])"
      " ON CONFLICT (run, kind, op) DO UPDATE SET due = excluded.due",
      set);
}

void write_inbox(Pipeline& pipeline, const Held& held) {
  Columns gone{"ii"};
  Columns fresh{"iiibbbi"};
  for (const auto& [name, slot] : held.inbox.slots()) {
    const auto& [run, number] = name;
    if (!slot.is_changed) continue;
    if (!slot.now) {
      gone.add(run, number);
      continue;
    }
    const InboxItem& item = *slot.now;
    std::optional<std::string> failure;
    if (item.failure) failure = journal::encode(*item.failure);
    fresh.add(number, run, item.kind, item.op, item.value, failure, item.at);
  }
  add(pipeline,
      "DELETE FROM semel.inbox i USING unnest($1::bigint[], $2::bigint[]) AS x(run, item)"
      " WHERE i.item = x.item AND i.run = x.run",
      gone);
  add(pipeline,
      "INSERT INTO semel.inbox (item, run, kind, op, value, failure, at)"
      " SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[],"
      " $6::bytea[], $7::bigint[])",
      fresh);
}

void write_operations(Pipeline& pipeline, const auto& table, std::string_view kinds,
                      const char* remove, const char* set) {
  Columns gone{"ib"};
  Columns there{kinds};
  for (const auto& [operation, slot] : table.slots()) {
    if (!slot.is_changed) continue;
    if (slot.now) {
      there.add(operation.first, operation.second, *slot.now);
    } else {
      gone.add(operation.first, operation.second);
    }
  }
  add(pipeline, remove, gone);
  add(pipeline, set, there);
}

// ------------------------------------------------------------------------------------------------ hooks

constexpr const char* update_hooks =
    "UPDATE semel.hook h SET active = x.active, at_end = x.at_end, fed = x.fed,"
    " webhook = x.webhook, op = x.op, shape = x.shape"
    " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],"
    " $6::bytea[], $7::bytea[]) AS x(hook, active, at_end, fed, webhook, op, shape)"
    " WHERE h.hook = x.hook";

void write_hooks(Pipeline& pipeline, const Held& held) {
  Columns gone{"i"};
  Columns freed{"iiiiibb"};
  Columns kept{"iiiiibb"};
  std::vector<const HeldHook*> fresh;
  for (const auto& [key, slot] : held.hooks.slots()) {
    if (!slot.is_changed) continue;
    if (!slot.now) {
      if (slot.is_stored) gone.add(key);
    } else if (!slot.is_stored) {
      fresh.push_back(&*slot.now);
    } else {
      const HeldHook& hook = *slot.now;
      (hook.active ? kept : freed)
          .add(key, hook.active, hook.at_end, hook.row.fed, hook.row.webhook, hook.row.op,
               hook.row.shape);
    }
  }
  std::ranges::sort(fresh, {}, [](const HeldHook* hook) {
    return std::tie(hook->row.workspace, hook->row.token);
  });
  Columns made{"iiiiiiiibbb"};
  for (const HeldHook* hook : fresh) {
    const HookRow& row = hook->row;
    made.add(row.key, row.workspace, row.run, hook->since, hook->active, hook->at_end, row.fed,
             row.webhook, row.token, row.op, row.shape);
  }
  add(pipeline, "DELETE FROM semel.hook WHERE hook = ANY($1::bigint[])", gone);
  add(pipeline, update_hooks, freed);
  add(pipeline, update_hooks, kept);
  add(pipeline,
      "INSERT INTO semel.hook (hook, workspace, run, since, active, at_end, fed, webhook, token,"
      " op, shape) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],"
      " $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bytea[], $10::bytea[],"
      " $11::bytea[])",
      made);
}

void write_payloads(Pipeline& pipeline, const Held& held) {
  Columns gone{"i"};
  Columns changed{"iiiib"};
  Columns fresh{"iiiiibb"};
  for (const auto& [number, slot] : held.payloads.slots()) {
    if (!slot.is_changed) continue;
    if (!slot.now) {
      if (slot.is_stored) gone.add(number);
      continue;
    }
    const PayloadRow& row = *slot.now;
    if (slot.is_stored) {
      changed.add(number, row.hook, row.run, row.checked, row.start);
    } else {
      fresh.add(number, row.hook, row.run, row.at, row.checked, row.value, row.start);
    }
  }
  add(pipeline, "DELETE FROM semel.payload WHERE payload = ANY($1::bigint[])", gone);
  add(pipeline,
      "UPDATE semel.payload p SET hook = x.hook, run = x.run, checked = x.checked, start = x.start"
      " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[])"
      " AS x(payload, hook, run, checked, start) WHERE p.payload = x.payload",
      changed);
  add(pipeline,
      "INSERT INTO semel.payload (payload, hook, run, at, checked, value, start)"
      " SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],"
      " $6::bytea[], $7::bytea[])",
      fresh);
}

void write_resumes(Pipeline& pipeline, const Held& held) {
  Columns over{"ibbi"};
  Columns fresh{"ibbbbiii"};
  for (const auto& [name, slot] : held.resumes.slots()) {
    const auto& [workspace, token, id] = name;
    if (!slot.is_changed) continue;
    const auto& [receipt, until] = *slot.now;
    // One whose time was over. Should another have come in its place, the insert says so.
    if (slot.is_stored) over.add(workspace, token, id, until - resume_id_kept);
    fresh.add(workspace, token, id, receipt.fingerprint, receipt.run_id, receipt.hook,
              receipt.started, until);
  }
  add(pipeline,
      "DELETE FROM semel.resume s USING unnest($1::bigint[], $2::bytea[], $3::bytea[],"
      " $4::bigint[]) AS x(w, t, i, now) WHERE s.workspace = x.w AND s.token = x.t"
      " AND s.resume_id = x.i AND s.until <= x.now",
      over);
  add(pipeline,
      "INSERT INTO semel.resume (workspace, token, resume_id, fingerprint, run_id, hook, started,"
      " until) SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::bytea[],"
      " $5::bytea[], $6::bigint[], $7::bigint[], $8::bigint[])",
      fresh);
}

// ------------------------------------------------------------------------------------------------ reservations

void write_reservations(Pipeline& pipeline, const Held& held) {
  Columns gone{"b"};
  Columns changed{"biiiiiiiibbb"};
  Columns fresh{"biiiiiiiibbbbbb"};
  for (const auto& [digest, slot] : held.reservations.slots()) {
    if (!slot.is_changed) continue;
    if (!slot.now) {
      if (slot.is_stored) gone.add(digest);
      continue;
    }
    const HeldReservationRow& held_row = *slot.now;
    const ReservationRow& row = held_row.row;
    if (slot.is_stored) {
      changed.add(digest, row.fence, held_row.workspace, row.lease_until, held_row.ttl,
                  row.expires_at, held_row.sweep_at, row.state, row.on_abandoned, row.fingerprint,
                  row.owner, row.answer);
    } else {
      fresh.add(digest, row.fence, held_row.workspace, row.lease_until, held_row.ttl,
                row.expires_at, held_row.sweep_at, row.state, row.on_abandoned, row.fingerprint,
                held_row.id.ns, held_row.id.scope, held_row.id.key, row.owner, row.answer);
    }
  }
  add(pipeline, "DELETE FROM semel.reservation WHERE digest = ANY($1::bytea[])", gone);
  add(pipeline,
      "UPDATE semel.reservation r SET fence = x.fence, lease_until = x.lease_until, ttl = x.ttl,"
      " expires_at = x.expires_at, sweep_at = x.sweep_at, state = x.state,"
      " on_abandoned = x.on_abandoned, fingerprint = x.fingerprint, owner = x.owner,"
      " answer = x.answer FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[],"
      " $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[],"
      " $11::bytea[], $12::bytea[]) AS x(digest, fence, workspace, lease_until, ttl, expires_at,"
      " sweep_at, state, on_abandoned, fingerprint, owner, answer) WHERE r.digest = x.digest",
      changed);
  add(pipeline,
      "INSERT INTO semel.reservation (digest, fence, workspace, lease_until, ttl, expires_at,"
      " sweep_at, state, on_abandoned, fingerprint, ns, scope, key, owner, answer)"
      " SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],"
      " $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[], $11::bytea[],"
      " $12::bytea[], $13::bytea[], $14::bytea[], $15::bytea[])",
      fresh);
}

void write_hints(Pipeline& pipeline, const Held& held) {
  Columns hints{"iii"};
  for (const HintRow& hint : held.hints) hints.add(hint.run, hint.partition, hint.kind);
  add(pipeline,
      "INSERT INTO semel.hint (run, partition, kind)"
      " SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])",
      hints);
}

}  // namespace

void add_writing(Pipeline& pipeline, const Held& held) {
  write_runs(pipeline, held);
  write_texts(pipeline, held);
  write_attributes(pipeline, held);
  write_journal(pipeline, held);
  clear_wakeups(pipeline, held);
  write_timers(pipeline, held);
  write_inbox(pipeline, held);
  write_operations(
      pipeline, held.waits, "ibi",
      "DELETE FROM semel.waiter t USING unnest($1::bigint[], $2::bytea[]) AS x(run, op)"
      " WHERE t.run = x.run AND t.op = x.op",
      "INSERT INTO semel.waiter (run, op, target)"
      " SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[])"
      " ON CONFLICT (run, op) DO UPDATE SET target = excluded.target");
  write_operations(pipeline, held.progress, "ibb",
                   "DELETE FROM semel.progress t USING unnest($1::bigint[], $2::bytea[])"
                   " AS x(run, op) WHERE t.run = x.run AND t.op = x.op",
                   "INSERT INTO semel.progress (run, op, value)"
                   " SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[])"
                   " ON CONFLICT (run, op) DO UPDATE SET value = excluded.value");
  write_hooks(pipeline, held);
  write_payloads(pipeline, held);
  write_resumes(pipeline, held);
  write_reservations(pipeline, held);
  write_hints(pipeline, held);
  bear_out(pipeline, held);
}

}  // namespace semel::store::postgres
