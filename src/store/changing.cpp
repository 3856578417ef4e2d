#include "store/changing.hpp"

#include "base/assert.hpp"
#include "store/ending.hpp"
#include "store/hooks.hpp"
#include "store/outcome.hpp"
#include "store/starting.hpp"

namespace semel::store {

namespace {

/// The run whose command it is, while its wishes for other runs are granted.
struct Asker {
  RunKey run = 0;
  RunTable::Place place;
  Seq next = 0;           ///< where the next outcome goes
  bool goes_on = true;    ///< false: its end is in the same command, nobody reads outcomes or waits
  bool has_work = false;  ///< an outcome was written that its code goes on from
  TimePoint now{};
};

void write_outcome(Tables& tables, Asker& asker, std::string entry, Effects& effects) {
  if (!asker.goes_on) return;
  tables.journal.append(asker.run, asker.next++, asker.now, entry);
  effects.outcomes.push_back(std::move(entry));
}

/// An outcome the run's code goes on from at once.
void answer(Tables& tables, Asker& asker, std::string entry, Effects& effects) {
  write_outcome(tables, asker, std::move(entry), effects);
  asker.has_work = true;
}

void wait_for(Tables& tables, const Asker& asker, RunKey target, const std::string& op,
              Effects& effects) {
  if (!asker.goes_on) return;
  const auto status = tables.runs.status(target);
  SEMEL_ASSERT(status);
  if (is_end(*status)) {
    deliver_result(tables, target, asker.run, op, effects);
  } else {
    tables.wakeups.wait_for(target, asker.run, op);
  }
}

void grant(Tables& tables, Asker& asker, const ChildRequest& request, Effects& effects) {
  NewRun child = request.run;
  SEMEL_ASSERT(child.workspace == asker.place.workspace_name);
  if (request.wait) child.parent = asker.run;
  const Status status = child.start_at ? Status::pending : Status::running;

  const Claim claim = create_run(tables, child, status, asker.run, effects);

  if (const auto* refused = std::get_if<StartRefused>(&claim)) {
    return answer(tables, asker, refused_outcome(request.op, *refused), effects);
  }
  const auto* holder = std::get_if<HandBack>(&claim);
  if (holder != nullptr && holder->run == asker.run && request.wait) {
    return answer(tables, asker, self_wait_outcome(request.op, asker.place.id), effects);
  }
  const bool created = holder == nullptr;
  if (created && status == Status::running) effects.created.push_back(child.key);
  const std::string id = created ? child.id : tables.runs.place(holder->run)->id;
  std::string outcome = child_outcome(request.op, id, created);
  if (!request.wait) return answer(tables, asker, std::move(outcome), effects);
  write_outcome(tables, asker, std::move(outcome), effects);
  wait_for(tables, asker, created ? child.key : holder->run, request.op, effects);
}

void grant(Tables& tables, Asker& asker, const WaitRequest& request, Effects& effects) {
  const auto target = tables.runs.find(asker.place.workspace, request.run_id);
  if (!target) return answer(tables, asker, not_found_outcome(request.op, request.run_id), effects);
  if (*target == asker.run) {
    return answer(tables, asker, self_wait_outcome(request.op, request.run_id), effects);
  }
  wait_for(tables, asker, *target, request.op, effects);
}

void apply_timers(Tables& tables, RunKey run, const Changes& changes) {
  for (const Timer& timer : changes.timers_cleared) {
    SEMEL_ASSERT(timer.run == run);
    tables.wakeups.clear_timer(run, timer.kind, timer.op);
  }
  for (const Timer& timer : changes.timers_set) {
    SEMEL_ASSERT(timer.run == run);
    tables.wakeups.set_timer(run, timer.kind, timer.op, timer.due);
  }
}

/// Those that were released and left payloads are returned.
std::vector<HookRow> change_hooks(Tables& tables, Asker& asker, const Changes& changes,
                                  Effects& effects) {
  if (changes.end) return {};
  HookChanges hooks{tables, asker.run, asker.place.workspace, asker.now,
                    [&](std::string entry) { answer(tables, asker, std::move(entry), effects); }};
  for (const HookChange& change : changes.hooks) {
    if (asker.goes_on || change.kind == HookChange::Kind::release) hooks.apply(change);
  }
  return hooks.released();
}

std::vector<HookRow> grant_all(Tables& tables, RunKey run, Seq next, const Changes& changes,
                               TimePoint now, Effects& effects) {
  Asker asker{.run = run,
              .place = *tables.runs.place(run),
              .next = next,
              .goes_on = !changes.end && !changes.continue_as_new,
              .now = now};
  for (const ChildRequest& request : changes.children) grant(tables, asker, request, effects);
  for (const WaitRequest& request : changes.waits) grant(tables, asker, request, effects);
  std::vector<HookRow> released = change_hooks(tables, asker, changes, effects);
  // Whatever status the command asked for: a crash behind this commit must not lose the outcome.
  if (asker.has_work && asker.goes_on) tables.runs.set_status(run, Status::running);
  return released;
}

Stale stale(Tables& tables) {
  ++tables.counters.stale;
  return {};
}

/// The guard and the write in one where there is an entry to write.
bool append_entries(Tables& tables, const AdvanceRun& command) {
  if (command.entries.empty()) {
    const auto status = tables.runs.status(command.run);
    return status && *status <= Status::waiting && tables.journal.next(command.run) == command.seq;
  }
  if (!tables.journal.append_if_next(command.run, command.seq, command.now,
                                     command.entries.front()))
    return false;
  for (std::size_t i = 1; i < command.entries.size(); ++i) {
    tables.journal.append(command.run, command.seq + i, command.now, command.entries[i]);
  }
  return true;
}

bool can_be_reopened(Status status) {
  return status == Status::failed || status == Status::dead || status == Status::diverged;
}

/// The run that keeps `run` from having its key again; none once that run's time is over.
std::optional<std::string> key_holder(Tables& tables, RunKey run, TimePoint now) {
  const auto record = tables.runs.record(run);
  const auto workspace = tables.runs.workspace(record->workspace);
  const auto holder = tables.runs.holder_of_key(*workspace, *record->idempotency_key);
  SEMEL_ASSERT(holder && holder->run != run);
  if (!is_end(holder->status) || *holder->until > now) return holder->id;
  tables.runs.release_key(holder->run);
  return std::nullopt;
}

}  // namespace

void apply(Tables& tables, RunKey run, Seq next, const Changes& changes, TimePoint now,
           Effects& effects) {
  if (changes.code_version > 0) tables.runs.raise_code_version(run, changes.code_version);
  for (const std::int64_t item : changes.inbox_consumed) tables.wakeups.consume(run, item);
  for (const std::int64_t payload : changes.payloads_consumed) tables.hooks.consume(run, payload);
  apply_timers(tables, run, changes);
  for (const auto& [name, value] : changes.attributes) tables.runs.set_attribute(run, name, value);
  for (const std::string& op : changes.waits_dropped) tables.wakeups.stop_waiting(run, op);
  std::vector<HookRow> released;
  if (!changes.children.empty() || !changes.waits.empty() || !changes.hooks.empty()) {
    released = grant_all(tables, run, next, changes, now, effects);
  }
  if (changes.continue_as_new && !changes.end) {
    tables.wakeups.clear_generation(run);
    tables.hooks.abandon(run);
    tables.runs.continue_as_new(run, *changes.continue_as_new, next);
  }
  if (changes.end) end_run(tables, run, *changes.end, now, effects);
  for (const HookRow& hook : released) pass_on(tables, hook, now, effects);
  if (!effects.wake.empty()) settle(effects);
}

bool advance_if_next(Tables& tables, const AdvanceRun& command, Effects& effects) {
  if (!append_entries(tables, command)) return false;
  if (command.changes.status && !command.changes.end)
    tables.runs.set_status(command.run, *command.changes.status);
  apply(tables, command.run, command.seq + command.entries.size(), command.changes, command.now,
        effects);
  return true;
}

Answer advance_run(Tables& tables, const AdvanceRun& command) {
  Advanced answer;
  if (!advance_if_next(tables, command, answer.effects)) return stale(tables);
  return answer;
}

Answer reopen_run(Tables& tables, const ReopenRun& command) {
  const auto status = tables.runs.status(command.run);
  if (!status || !can_be_reopened(*status) || tables.journal.next(command.run) != command.seq)
    return stale(tables);
  if (auto owner = tables.hooks.retake(command.run)) {
    ++tables.counters.starts_refused;
    return StartRefused{StartRefused::Why::hook_conflict, *std::move(owner)};
  }
  const Status reopened = command.changes.status.value_or(Status::running);
  if (!tables.runs.reopen(command.run, reopened)) {
    if (auto holder = key_holder(tables, command.run, command.now)) {
      tables.hooks.give_back(command.run);
      ++tables.counters.starts_refused;
      return StartRefused{StartRefused::Why::run_active, *std::move(holder)};
    }
    const bool taken = tables.runs.reopen(command.run, reopened);
    SEMEL_ASSERT(taken);
  }
  tables.hooks.keep(command.run);
  for (std::size_t i = 0; i < command.entries.size(); ++i) {
    tables.journal.append(command.run, command.seq + i, command.now, command.entries[i]);
  }
  Advanced answer;
  apply(tables, command.run, command.seq + command.entries.size(), command.changes, command.now,
        answer.effects);
  return answer;
}

Answer mark_run(Tables& tables, const MarkRun& command) {
  SEMEL_ASSERT(command.status == Status::dead || command.status == Status::diverged);
  const auto status = tables.runs.status(command.run);
  if (!status || is_end(*status) || tables.journal.last(command.run) != command.seq)
    return stale(tables);
  tables.runs.mark(command.run, command.status, command.reason);
  tables.open_runs.closed(command.run);
  return Advanced{};
}

}  // namespace semel::store
