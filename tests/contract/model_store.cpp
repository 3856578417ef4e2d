// Runs, as the specification has them: how they start, go on and end.
#include "base/assert.hpp"
#include "store/outcome.hpp"
#include "tests/contract/model_commands.hpp"

#include <algorithm>

namespace semel::store {

RunRecord record_of(const Model::Run& run) {
  RunRecord record{.key = run.made.key,
                   .workspace = run.made.workspace,
                   .partition = std::max(run.made.partition, 0),
                   .id = run.made.id,
                   .instance = run.made.instance,
                   .workflow = run.made.workflow,
                   .code_version = run.made.code_version,
                   .status = run.status,
                   .input = run.input,
                   .output = run.output,
                   .failure = run.failure,
                   .idempotency_key = run.made.idempotency_key,
                   .fingerprint = run.made.fingerprint,
                   .created_at = run.made.created_at,
                   .ended_at = run.ended_at,
                   .deadline = run.made.deadline,
                   .parent = run.made.parent,
                   .version = std::nullopt,
                   .generation = run.generation,
                   .first_seq = run.first_seq,
                   .attributes = run.attributes};
  if (!run.entries.empty()) record.version = run.entries.size() - 1;
  return record;
}

namespace {

using Why = StartRefused::Why;

}  // namespace

bool can_advance(const Model::Run& run) {
  return run.status == Status::pending || run.status == Status::running ||
         run.status == Status::waiting;
}

bool is_driven(const Model::Run& run) {
  return run.status == Status::running || run.status == Status::waiting;
}

Answer ModelStore::answer(const OpenNode& command) {
  Gained whole{.clean = !model_.open};
  if (model_.open && !model_.well) whole.crashes = model_.crashes + 1;
  model_.open = true;
  model_.well = false;
  model_.crashes = whole.crashes;
  return NodeOpened{.first_key = reserve(command.keys_count), .gained = {whole}};
}

Answer ModelStore::answer(const MoveRuns& command) {
  RunsFound found;
  for (const RunKey key : command.runs) {
    const auto run = model_.runs.find(key);
    if (run != model_.runs.end() && can_advance(run->second)) found.runs.push_back(key);
  }
  return found;
}

RunKey ModelStore::reserve(std::int64_t count) {
  const RunKey first = model_.next_key;
  model_.next_key += count;
  return first;
}

Answer ModelStore::answer(const NodeWell& command) {
  model_.well = true;
  model_.crashes = 0;
  if (command.closed) model_.open = false;
  return Done{};
}

Answer ModelStore::answer(const StartRun& command) {
  RunStarted started;
  const Status status =
      command.changes.status.value_or(command.run.start_at ? Status::pending : Status::running);
  const Claim claim = create(command.run, status, std::nullopt, started.effects);
  if (claim.refused) return *claim.refused;
  if (claim.handed_back) return RunExists{record_of(run(*claim.handed_back))};

  if (!command.first_entry.empty())
    append(command.run.key, command.first_entry, command.run.created_at);
  apply(command.run.key, command.changes, command.run.created_at, started.effects);
  return started;
}

ModelStore::Claim ModelStore::create(const NewRun& made, Status status, std::optional<RunKey> asker,
                                     Effects& effects) {
  const auto by_id = find(made.workspace, made.id);
  const auto by_key =
      made.idempotency_key ? find_key(made.workspace, *made.idempotency_key) : std::nullopt;
  // An id that was made up cannot mean somebody else's run.
  if (by_id && !made.chosen_id) return {.refused = StartRefused{Why::claims_differ, made.id}};

  std::vector<RunKey> superseded;
  const bool id_counts = by_id && !has_passed(run(*by_id).keep_until, made.created_at);
  const bool key_counts = by_key && !has_passed(run(*by_key).key_until, made.created_at);
  if (id_counts && key_counts && by_id != by_key) {
    return {.refused = StartRefused{Why::claims_differ, run(*by_key).made.id}};
  }
  if (id_counts || key_counts) {
    const RunKey holder = key_counts ? *by_key : *by_id;
    if (const auto kept = ask(holder, made)) return *kept;
    if (!is_end(run(holder).status)) {
      if (asker && tree(holder).contains(*asker)) {
        return {.refused = StartRefused{Why::run_active, run(holder).made.id}};
      }
      superseded.push_back(holder);
    }
  }
  for (const HookClaim& claim : made.hooks) {
    const auto hook = find_hook(made.workspace, claim.token);
    if (!hook) continue;
    const RunKey holder = model_.hooks.at(*hook).run;
    if (made.on_running != OnRunning::supersede)
      return {.refused = StartRefused{Why::hook_conflict, run(holder).made.id}};
    if (asker && tree(holder).contains(*asker))
      return {.refused = StartRefused{Why::run_active, run(holder).made.id}};
    superseded.push_back(holder);
  }
  for (const RunKey holder : superseded) {
    if (is_end(run(holder).status)) continue;
    cancel_tree(holder, std::nullopt, "superseded by another run with the same key or token",
                made.created_at, effects);
  }
  if (by_id) remove(*by_id);
  if (by_key && by_key != by_id) forget_key(*by_key);

  model_.runs[made.key] = Model::Run{.made = made,
                                     .status = status,
                                     .holds_key = made.idempotency_key.has_value(),
                                     .attributes = made.attributes,
                                     .input = made.input};
  for (const HookClaim& claim : made.hooks)
    model_.hooks[model_.next_hook++] = {.run = made.key, .claim = claim, .since = made.created_at};
  if (made.start_at) model_.timers[{made.key, TimerKind::start, ""}] = *made.start_at;
  if (made.deadline) model_.timers[{made.key, TimerKind::deadline, ""}] = *made.deadline;
  return {};
}

std::optional<ModelStore::Claim> ModelStore::ask(RunKey holder_key, const NewRun& made) {
  const Model::Run& holder = run(holder_key);
  bool hand_back = false;
  if (!is_end(holder.status)) {
    if (made.on_running == OnRunning::reject) {
      return Claim{.refused = StartRefused{Why::run_active, holder.made.id}};
    }
    hand_back = made.on_running == OnRunning::attach;
  } else {
    if (made.after_done == AfterDone::reject) {
      return Claim{.refused = StartRefused{Why::run_finished, holder.made.id}};
    }
    hand_back =
        made.after_done == AfterDone::return_result ||
        (made.after_done == AfterDone::start_new_if_failed && holder.status == Status::completed);
  }
  if (!hand_back) return std::nullopt;
  const bool same = made.workflow == holder.made.workflow &&
                    (!made.check_fingerprint || made.fingerprint == holder.made.fingerprint);
  if (!same) return Claim{.refused = StartRefused{Why::input_differs, holder.made.id}};
  return Claim{.handed_back = holder_key};
}

Answer ModelStore::answer(const AdvanceRun& command) {
  const auto found = model_.runs.find(command.run);
  if (found == model_.runs.end() || !can_advance(found->second)) return Stale{};
  if (found->second.entries.size() != command.seq) return Stale{};

  for (const std::string& entry : command.entries) append(command.run, entry, command.now);
  if (command.changes.status) found->second.status = *command.changes.status;
  Advanced advanced;
  apply(command.run, command.changes, command.now, advanced.effects);
  return advanced;
}

Answer ModelStore::answer(const ReopenRun& command) {
  const auto found = model_.runs.find(command.run);
  if (found == model_.runs.end() || found->second.entries.size() != command.seq) return Stale{};
  Model::Run& reopened = found->second;
  if (reopened.status != Status::failed && reopened.status != Status::dead &&
      reopened.status != Status::diverged) {
    return Stale{};
  }
  for (const auto& [id, hook] : model_.hooks) {
    if (hook.run != command.run || !hook.at_end) continue;
    if (const auto holder = find_hook(reopened.made.workspace, hook.claim.token))
      return StartRefused{Why::hook_conflict, run(model_.hooks.at(*holder).run).made.id};
  }
  if (reopened.made.idempotency_key) {
    const auto holder = find_key(reopened.made.workspace, *reopened.made.idempotency_key);
    if (holder && *holder != command.run) {
      if (!has_passed(run(*holder).key_until, command.now)) {
        return StartRefused{Why::run_active, run(*holder).made.id};
      }
      forget_key(*holder);
    }
  }

  for (auto& [id, hook] : model_.hooks) {
    if (hook.run == command.run && hook.at_end) {
      hook.active = true;
      hook.at_end = false;
    }
  }
  reopened.status = command.changes.status.value_or(Status::running);
  reopened.output.clear();
  reopened.failure.reset();
  reopened.ended_at.reset();
  reopened.key_until.reset();
  reopened.keep_until.reset();
  reopened.holds_key = reopened.made.idempotency_key.has_value();
  for (const std::string& entry : command.entries) append(command.run, entry, command.now);
  Advanced advanced;
  apply(command.run, command.changes, command.now, advanced.effects);
  return advanced;
}

Answer ModelStore::answer(const MarkRun& command) {
  const auto found = model_.runs.find(command.run);
  if (found == model_.runs.end() || is_end(found->second.status)) return Stale{};
  if (record_of(found->second).version != command.seq) return Stale{};
  found->second.status = command.status;
  found->second.failure = command.reason;
  return Advanced{};
}

Answer ModelStore::answer(const SaveProgress& command) {
  const auto found = model_.runs.find(command.run);
  if (found != model_.runs.end() && !is_end(found->second.status)) {
    model_.progress[{command.run, command.op}] = command.value;
  }
  return Done{};
}

void ModelStore::append(RunKey key, const std::string& entry, TimePoint at) {
  run(key).entries.emplace_back(at, entry);
}

void ModelStore::apply(RunKey key, const Changes& changes, TimePoint now, Effects& effects) {
  std::int32_t& code_version = run(key).made.code_version;
  code_version = std::max(code_version, changes.code_version);
  for (const std::int64_t id : changes.inbox_consumed) {
    const auto item = model_.inbox.find(id);
    if (item != model_.inbox.end() && item->second.run == key) model_.inbox.erase(item);
  }
  for (const std::int64_t payload : changes.payloads_consumed) consume_payload(key, payload);
  for (const Timer& timer : changes.timers_cleared)
    model_.timers.erase({key, timer.kind, timer.op});
  for (const Timer& timer : changes.timers_set)
    model_.timers[{key, timer.kind, timer.op}] = timer.due;
  for (const auto& [name, value] : changes.attributes) run(key).attributes[name] = value;
  for (const std::string& op : changes.waits_dropped) model_.waits.erase({key, op});

  const bool goes_on = !changes.end && !changes.continue_as_new;
  for (const ChildRequest& request : changes.children)
    make_child(key, request, goes_on, now, effects);
  if (goes_on) {
    for (const WaitRequest& request : changes.waits) wait(key, request, now, effects);
  }
  const std::vector<std::int64_t> released =
      changes.end ? std::vector<std::int64_t>{} : change_hooks(key, changes, now, effects);
  if (changes.continue_as_new && !changes.end) continue_as_new(key, *changes.continue_as_new);
  if (changes.end) end(key, *changes.end, now, effects);
  for (const std::int64_t hook : released) pass_on(hook, now, effects);
  settle(effects);
}

void ModelStore::settle(Effects& effects) {
  std::set<RunKey> seen{effects.ended.begin(), effects.ended.end()};
  std::erase_if(effects.wake, [&](RunKey woken) { return !seen.insert(woken).second; });
}

void ModelStore::make_child(RunKey key, const ChildRequest& request, bool goes_on, TimePoint now,
                            Effects& effects) {
  NewRun made = request.run;
  SEMEL_ASSERT(made.workspace == run(key).made.workspace);
  if (request.wait) made.parent = key;
  const Status status = made.start_at ? Status::pending : Status::running;
  const Claim claim = create(made, status, key, effects);
  const bool created = !claim.refused && !claim.handed_back;
  if (created && status == Status::running) effects.created.push_back(made.key);
  if (!goes_on) return;  // nobody is left to read the outcome

  if (claim.refused) {
    decide(key, refused_outcome(request.op, *claim.refused), true, now, effects);
  } else if (request.wait && claim.handed_back == key) {
    decide(key, self_wait_outcome(request.op, run(key).made.id), true, now, effects);
  } else {
    const RunKey child = claim.handed_back.value_or(made.key);
    decide(key, child_outcome(request.op, run(child).made.id, created), !request.wait, now,
           effects);
    if (request.wait) wait_for(key, request.op, child, effects);
  }
}

void ModelStore::wait(RunKey key, const WaitRequest& request, TimePoint now, Effects& effects) {
  const auto target = find(run(key).made.workspace, request.run_id);
  if (!target) {
    decide(key, not_found_outcome(request.op, request.run_id), true, now, effects);
  } else if (*target == key) {
    decide(key, self_wait_outcome(request.op, request.run_id), true, now, effects);
  } else {
    wait_for(key, request.op, *target, effects);
  }
}

void ModelStore::decide(RunKey key, const std::string& entry, bool goes_on_from_it, TimePoint now,
                        Effects& effects) {
  append(key, entry, now);
  effects.outcomes.push_back(entry);
  if (goes_on_from_it) run(key).status = Status::running;
}

void ModelStore::wait_for(RunKey key, const std::string& op, RunKey target, Effects& effects) {
  if (is_end(run(target).status)) {
    deliver_result(target, key, op, effects);
  } else {
    model_.waits[{key, op}] = target;
  }
}

void ModelStore::end(RunKey key, const End& end, TimePoint now, Effects& effects) {
  Model::Run& ended = run(key);
  ended.status = end.status;
  ended.output = end.output;
  ended.failure = end.failure;
  ended.ended_at = now;
  ended.keep_until = now + ended.made.retention;
  if (ended.holds_key) {
    ended.key_until = now + ended.made.key_ttl;
    ended.keep_until = std::max(*ended.keep_until, *ended.key_until);
  }

  forget_wakeups(key);
  release_at_end(key, now, effects);
  std::vector<Model::Operation> waiters;
  for (const auto& [operation, target] : model_.waits) {
    if (target == key) waiters.push_back(operation);
  }
  for (const Model::Operation& waiter : waiters) {
    model_.waits.erase(waiter);
    deliver_result(key, waiter.first, waiter.second, effects);
  }
}

void ModelStore::forget_wakeups(RunKey key) {
  std::erase_if(model_.timers,
                [&](const auto& timer) { return std::get<RunKey>(timer.first) == key; });
  std::erase_if(model_.inbox, [&](const auto& item) { return item.second.run == key; });
  std::erase_if(model_.waits, [&](const auto& wait) { return wait.first.first == key; });
  std::erase_if(model_.progress, [&](const auto& progress) { return progress.first.first == key; });
}

void ModelStore::deliver_result(RunKey target, RunKey to, const std::string& op, Effects& effects) {
  const Model::Run& over = run(target);
  InboxItem item{.kind = InboxItem::Kind::result, .op = op};
  if (over.status == Status::completed) {
    item.value = over.output;
  } else {
    item.failure = over.failure.value_or(journal::Failure{});
    if (over.status == Status::cancelled) item.failure->code = "RUN_CANCELLED";
    if (item.failure->code.empty()) item.failure->code = "RUN_FAILED";
  }
  put(to, std::move(item), effects);
}

void ModelStore::put(RunKey key, InboxItem item, Effects& effects) {
  item.id = model_.next_item++;
  model_.inbox[item.id] = {.run = key, .item = item};
  effects.wake.push_back(key);
}

Answer ModelStore::answer(const CancelRun& command) {
  const auto key = find(command.workspace, command.id);
  if (!key) return RunMissing{};
  const Model::Run& target = run(*key);
  if (target.status == Status::cancelled) return Cancelled{record_of(target), {}};
  if (is_end(target.status)) return NotActive{record_of(target)};
  const auto version = record_of(target).version;
  if (command.expected_version && *command.expected_version != version.value_or(0))
    return VersionMoved{version};

  Cancelled cancelled;
  cancel_tree(*key, command.grace_until, command.reason, command.now, cancelled.effects);
  apply(*key, {}, command.now, cancelled.effects);
  std::erase(cancelled.effects.ended, *key);
  cancelled.run = record_of(target);
  return cancelled;
}

void ModelStore::cancel_tree(RunKey top, const std::optional<TimePoint>& grace_until,
                             const std::string& reason, TimePoint now, Effects& effects) {
  for (const RunKey key : tree_in_order(top)) {
    if (grace_until && is_driven(run(key))) {
      put(key, {.kind = InboxItem::Kind::cancel, .at = *grace_until}, effects);
      continue;
    }
    const journal::Entry entry = cancelled_entry(reason);
    append(key, journal::encode(entry), now);
    end(key, {.status = Status::cancelled, .failure = entry.arrival.failure}, now, effects);
    effects.ended.push_back(key);
  }
}

std::vector<RunKey> ModelStore::tree_in_order(RunKey top) {
  std::vector<RunKey> found{top};
  for (const auto& [key, child] : model_.runs) {
    if (child.made.parent != top || is_end(child.status)) continue;
    const std::vector<RunKey> below = tree_in_order(key);
    found.insert(found.end(), below.begin(), below.end());
  }
  return found;
}

std::set<RunKey> ModelStore::tree(RunKey top) {
  const std::vector<RunKey> found = tree_in_order(top);
  return {found.begin(), found.end()};
}

std::unique_ptr<Store> make_model_store(std::shared_ptr<Model> model) {
  return std::make_unique<ModelStore>(std::move(model));
}

}  // namespace semel::store
