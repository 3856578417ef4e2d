#include "tests/contract/model_store.hpp"

#include "base/assert.hpp"
#include "base/shape.hpp"
#include "store/outcome.hpp"
#include "store/start_text.hpp"
#include "store/unit_of_work.hpp"

#include <algorithm>
#include <set>

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

/// A pending, running or waiting run: what an owner may advance.
bool can_advance(const Model::Run& run) {
  return run.status == Status::pending || run.status == Status::running ||
         run.status == Status::waiting;
}

bool is_driven(const Model::Run& run) {
  return run.status == Status::running || run.status == Status::waiting;
}

class ModelStore final : public Store {
 public:
  explicit ModelStore(std::shared_ptr<Model> model) : owned_(std::move(model)), model_(*owned_) {}

  base::Result<std::vector<Answer>> execute(std::span<const Command> batch) override {
    std::vector<Answer> answers;
    for (const Command& command : batch) {
      answers.push_back(answer_one(command));
    }
    return answers;
  }

  Answer answer_one(const Command& command) {
    return std::visit([this](const auto& each) -> Answer { return answer(each); }, command);
  }

 private:
  // ---------------------------------------------------------------------------------------------- the node

  Answer answer(const OpenNode& command) {
    Gained whole{.clean = !model_.open};
    if (model_.open && !model_.well) whole.crashes = model_.crashes + 1;
    model_.open = true;
    model_.well = false;
    model_.crashes = whole.crashes;
    return NodeOpened{.first_key = reserve(command.keys_count), .gained = {whole}};
  }

  Answer answer(const KeepNode&) { return NodeKept{}; }

  Answer answer(const GiveUp&) { return Done{}; }

  Answer answer(const MoveRuns& command) {
    RunsFound found;
    for (const RunKey key : command.runs) {
      const auto run = model_.runs.find(key);
      if (run != model_.runs.end() && can_advance(run->second)) found.runs.push_back(key);
    }
    return found;
  }

  Answer answer(const ReserveKeys& command) { return KeysReserved{reserve(command.keys_count)}; }

  RunKey reserve(std::int64_t count) {
    const RunKey first = model_.next_key;
    model_.next_key += count;
    return first;
  }

  Answer answer(const NodeWell& command) {
    model_.well = true;
    model_.crashes = 0;
    if (command.closed) model_.open = false;
    return Done{};
  }

  // ---------------------------------------------------------------------------------------------- starts

  Answer answer(const StartRun& command) {
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

  struct Claim {
    std::optional<StartRefused> refused;
    std::optional<RunKey> handed_back;
  };

  Claim create(const NewRun& made, Status status, std::optional<RunKey> asker, Effects& effects) {
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
      model_.hooks[model_.next_hook++] = {
          .run = made.key, .claim = claim, .since = made.created_at};
    if (made.start_at) model_.timers[{made.key, TimerKind::start, ""}] = *made.start_at;
    if (made.deadline) model_.timers[{made.key, TimerKind::deadline, ""}] = *made.deadline;
    return {};
  }

  /// What the holder of a key or id is to `made`; empty: it gives way.
  std::optional<Claim> ask(RunKey holder_key, const NewRun& made) {
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

  // ---------------------------------------------------------------------------------------------- advancing

  Answer answer(const AdvanceRun& command) {
    const auto found = model_.runs.find(command.run);
    if (found == model_.runs.end() || !can_advance(found->second)) return Stale{};
    if (found->second.entries.size() != command.seq) return Stale{};

    for (const std::string& entry : command.entries) append(command.run, entry, command.now);
    if (command.changes.status) found->second.status = *command.changes.status;
    Advanced advanced;
    apply(command.run, command.changes, command.now, advanced.effects);
    return advanced;
  }

  Answer answer(const ReopenRun& command) {
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

  Answer answer(const MarkRun& command) {
    const auto found = model_.runs.find(command.run);
    if (found == model_.runs.end() || is_end(found->second.status)) return Stale{};
    if (record_of(found->second).version != command.seq) return Stale{};
    found->second.status = command.status;
    found->second.failure = command.reason;
    return Advanced{};
  }

  Answer answer(const SaveProgress& command) {
    const auto found = model_.runs.find(command.run);
    if (found != model_.runs.end() && !is_end(found->second.status)) {
      model_.progress[{command.run, command.op}] = command.value;
    }
    return Done{};
  }

  void append(RunKey key, const std::string& entry, TimePoint at) {
    run(key).entries.emplace_back(at, entry);
  }

  void apply(RunKey key, const Changes& changes, TimePoint now, Effects& effects) {
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

  static void settle(Effects& effects) {
    std::set<RunKey> seen{effects.ended.begin(), effects.ended.end()};
    std::erase_if(effects.wake, [&](RunKey woken) { return !seen.insert(woken).second; });
  }

  void make_child(RunKey key, const ChildRequest& request, bool goes_on, TimePoint now,
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

  void wait(RunKey key, const WaitRequest& request, TimePoint now, Effects& effects) {
    const auto target = find(run(key).made.workspace, request.run_id);
    if (!target) {
      decide(key, not_found_outcome(request.op, request.run_id), true, now, effects);
    } else if (*target == key) {
      decide(key, self_wait_outcome(request.op, request.run_id), true, now, effects);
    } else {
      wait_for(key, request.op, *target, effects);
    }
  }

  /// Writes an outcome; the run's code may go on from it at once, and then its owner has work.
  void decide(RunKey key, const std::string& entry, bool goes_on_from_it, TimePoint now,
              Effects& effects) {
    append(key, entry, now);
    effects.outcomes.push_back(entry);
    if (goes_on_from_it) run(key).status = Status::running;
  }

  void wait_for(RunKey key, const std::string& op, RunKey target, Effects& effects) {
    if (is_end(run(target).status)) {
      deliver_result(target, key, op, effects);
    } else {
      model_.waits[{key, op}] = target;
    }
  }

  // ---------------------------------------------------------------------------------------------- ends

  void end(RunKey key, const End& end, TimePoint now, Effects& effects) {
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

  void forget_wakeups(RunKey key) {
    std::erase_if(model_.timers,
                  [&](const auto& timer) { return std::get<RunKey>(timer.first) == key; });
    std::erase_if(model_.inbox, [&](const auto& item) { return item.second.run == key; });
    std::erase_if(model_.waits, [&](const auto& wait) { return wait.first.first == key; });
    std::erase_if(model_.progress,
                  [&](const auto& progress) { return progress.first.first == key; });
  }

  void deliver_result(RunKey target, RunKey to, const std::string& op, Effects& effects) {
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

  void put(RunKey key, InboxItem item, Effects& effects) {
    item.id = model_.next_item++;
    model_.inbox[item.id] = {.run = key, .item = item};
    effects.wake.push_back(key);
  }

  Answer answer(const CancelRun& command) {
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

  void cancel_tree(RunKey top, const std::optional<TimePoint>& grace_until,
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

  /// `top` and the unfinished runs below it: each before its children, children by age.
  std::vector<RunKey> tree_in_order(RunKey top) {
    std::vector<RunKey> found{top};
    for (const auto& [key, child] : model_.runs) {
      if (child.made.parent != top || is_end(child.status)) continue;
      const std::vector<RunKey> below = tree_in_order(key);
      found.insert(found.end(), below.begin(), below.end());
    }
    return found;
  }

  std::set<RunKey> tree(RunKey top) {
    const std::vector<RunKey> found = tree_in_order(top);
    return {found.begin(), found.end()};
  }

  // ---------------------------------------------------------------------------------------------- hooks

  /// The active hook with this token.
  std::optional<std::int64_t> find_hook(const std::string& workspace, const std::string& token) {
    for (const auto& [id, hook] : model_.hooks) {
      if (hook.active && hook.claim.token == token && run(hook.run).made.workspace == workspace)
        return id;
    }
    return std::nullopt;
  }

  std::optional<std::int64_t> find_hook_of(RunKey key, const std::string& op) {
    for (const auto& [id, hook] : model_.hooks) {
      if (hook.active && hook.run == key && hook.claim.op == op) return id;
    }
    return std::nullopt;
  }

  std::optional<std::int64_t> oldest_payload(std::int64_t hook) {
    for (const auto& [id, payload] : model_.payloads) {
      if (payload.hook == hook) return id;
    }
    return std::nullopt;
  }

  bool has_payload(RunKey key) {
    return std::ranges::any_of(model_.payloads, [&](const auto& payload) {
      return model_.hooks.at(payload.second.hook).run == key;
    });
  }

  PayloadItem item_of(std::int64_t id) {
    const Model::Payload& payload = model_.payloads.at(id);
    return {.id = id,
            .hook = model_.hooks.at(payload.hook).claim.op,
            .value = payload.value,
            .checked = payload.checked};
  }

  std::vector<PayloadItem> oldest_payloads(RunKey key) {
    std::vector<PayloadItem> found;
    for (const auto& [id, hook] : model_.hooks) {
      const auto payload = hook.active && hook.run == key ? oldest_payload(id) : std::nullopt;
      if (payload) found.push_back(item_of(*payload));
    }
    std::ranges::sort(found, {}, &PayloadItem::id);
    return found;
  }

  void consume_payload(RunKey key, std::int64_t id) {
    const auto payload = model_.payloads.find(id);
    if (payload == model_.payloads.end()) return;
    Model::Hook& hook = model_.hooks.at(payload->second.hook);
    if (hook.run != key) return;
    hook.fed = false;
    model_.payloads.erase(payload);
  }

  /// The hooks that were released.
  std::vector<std::int64_t> change_hooks(RunKey key, const Changes& changes, TimePoint now,
                                         Effects& effects) {
    std::map<std::string, std::pair<std::string, std::string>> conflicts;
    std::vector<std::int64_t> released;
    for (const HookChange& change : changes.hooks) {
      if (changes.continue_as_new && change.kind != HookChange::Kind::release) continue;
      const auto answer = [&](const std::string& entry) { decide(key, entry, true, now, effects); };
      if (change.kind == HookChange::Kind::open) {
        if (const auto owner = open_hook(key, change.claim, now)) {
          conflicts[change.op] = {change.claim.token, *owner};
          answer(conflict_outcome(change.op, change.claim.token, *owner));
        } else if (change.awaited) {
          answer(hook_outcome(change.op));
        }
        continue;
      }
      const bool is_release = change.kind == HookChange::Kind::release;
      const auto conflict = conflicts.find(change.hook);
      if (conflict != conflicts.end() && !is_release) {
        const bool is_asked =
            change.kind == HookChange::Kind::try_next || change.kind == HookChange::Kind::close;
        if (is_asked)
          answer(conflict_outcome(change.op, conflict->second.first, conflict->second.second));
        continue;
      }
      const auto hook = find_hook_of(key, change.hook);
      const auto payload = hook ? oldest_payload(*hook) : std::nullopt;
      if (change.kind == HookChange::Kind::close) {
        if (hook && !payload) model_.hooks.erase(*hook);
        answer(close_outcome(change.op, !payload));
      } else if (change.kind == HookChange::Kind::release) {
        if (!hook) continue;
        model_.hooks.at(*hook).active = false;
        if (payload) released.push_back(*hook);
      } else if (payload) {
        const PayloadItem item = item_of(*payload);
        const auto misfit = item.checked
                                ? std::nullopt
                                : shapes_.check(model_.hooks.at(*hook).claim.shape, item.value);
        consume_payload(key, *payload);
        answer(payload_outcome(change.op, item, misfit));
      } else if (change.kind == HookChange::Kind::try_next) {
        answer(payload_outcome(change.op, std::nullopt, std::nullopt));
      }
    }
    return released;
  }

  /// The id of the run that has the token; none: the hook is open.
  std::optional<std::string> open_hook(RunKey key, const HookClaim& claim, TimePoint now) {
    const auto holder = find_hook(run(key).made.workspace, claim.token);
    if (!holder) {
      model_.hooks[model_.next_hook++] = {.run = key, .claim = claim, .since = now};
      return std::nullopt;
    }
    Model::Hook& hook = model_.hooks.at(*holder);
    if (hook.run == key && hook.claim.op == claim.op && !claim.op.empty()) return std::nullopt;
    if (hook.run != key || !hook.claim.op.empty()) return run(hook.run).made.id;
    if (hook.claim.shape != claim.shape) {
      for (auto& [id, payload] : model_.payloads) {
        if (payload.hook == *holder) payload.checked = false;
      }
    }
    hook.claim = claim;
    return std::nullopt;
  }

  void continue_as_new(RunKey key, const std::string& input) {
    Model::Run& again = run(key);
    again.status = Status::running;
    again.input = input;
    ++again.generation;
    again.first_seq = again.entries.size();
    std::erase_if(model_.timers, [&](const auto& timer) {
      const auto& [of, kind, op] = timer.first;
      return of == key && (kind == TimerKind::sleep || kind == TimerKind::retry);
    });
    std::erase_if(model_.inbox, [&](const auto& item) {
      return item.second.run == key && item.second.item.kind == InboxItem::Kind::result;
    });
    std::erase_if(model_.waits, [&](const auto& wait) { return wait.first.first == key; });
    std::erase_if(model_.progress,
                  [&](const auto& progress) { return progress.first.first == key; });
    for (auto& [id, hook] : model_.hooks) {
      if (hook.run == key && hook.active) hook.claim.op.clear();
    }
  }

  void release_at_end(RunKey key, TimePoint now, Effects& effects) {
    std::vector<std::int64_t> released;
    for (auto& [id, hook] : model_.hooks) {
      if (hook.run != key || !hook.active) continue;
      hook.active = false;
      hook.at_end = run(key).status == Status::failed;
      released.push_back(id);
    }
    if (run(key).status == Status::cancelled) return;
    for (const std::int64_t hook : released) pass_on(hook, now, effects);
  }

  void pass_on(std::int64_t gone_id, TimePoint now, Effects& effects) {
    const Model::Hook gone = model_.hooks.at(gone_id);
    std::vector<std::int64_t> left;
    std::optional<std::int64_t> starter;
    for (const auto& [id, payload] : model_.payloads) {
      if (payload.hook != gone_id || !payload.or_start) continue;
      left.push_back(id);
      if (payload.start && !starter) starter = id;
    }
    const std::string workspace = run(gone.run).made.workspace;
    auto taken = find_hook(workspace, gone.claim.token);
    if (taken) {
      model_.hooks.at(*taken).fed |= gone.fed;
      effects.wake.push_back(model_.hooks.at(*taken).run);
    } else {
      if (gone.fed || !starter) return;
      NewRun made = started_later(*model_.payloads.at(*starter).start, now);
      const Status status = made.start_at ? Status::pending : Status::running;
      const Claim claim = create(made, status, std::nullopt, effects);
      if (claim.refused || claim.handed_back) return;
      if (status == Status::running) effects.created.push_back(made.key);
      taken = find_hook(workspace, gone.claim.token);
      model_.hooks.at(*taken).fed = true;
      model_.payloads.at(*starter).start.reset();
    }
    const bool same_shape = model_.hooks.at(*taken).claim.shape == gone.claim.shape;
    for (const std::int64_t id : left) {
      model_.payloads.at(id).hook = *taken;
      model_.payloads.at(id).checked &= same_shape;
    }
  }

  std::optional<Answer> repeated(const Deliver& deliver) {
    if (!deliver.resume_id) return std::nullopt;
    const auto found = model_.receipts.find({deliver.workspace, deliver.token, *deliver.resume_id});
    if (found == model_.receipts.end() || found->second.until <= deliver.now) return std::nullopt;
    if (found->second.fingerprint != deliver.fingerprint)
      return ResumeIdReused{found->second.answer.run_id};
    return found->second.answer;
  }

  /// `or_start`: it can start a run, or has.
  void put(std::int64_t hook_id, const Deliver& deliver, bool or_start,
           std::optional<NewRun> start) {
    const Model::Hook& hook = model_.hooks.at(hook_id);
    model_.payloads[model_.next_payload++] = {.hook = hook_id,
                                              .value = deliver.payload,
                                              .at = deliver.now,
                                              .checked = !hook.claim.shape.empty(),
                                              .or_start = or_start,
                                              .start = std::move(start)};
  }

  Delivered receipt(std::int64_t hook_id, const Deliver& deliver, bool started) {
    Delivered answer{.run_id = run(model_.hooks.at(hook_id).run).made.id,
                     .hook_id = std::to_string(hook_id),
                     .started = started};
    if (deliver.resume_id) {
      model_.receipts[{deliver.workspace, deliver.token, *deliver.resume_id}] = {
          deliver.fingerprint, answer, deliver.now + resume_id_kept};
    }
    return answer;
  }

  Answer deliver_to(std::int64_t hook_id, const Deliver& deliver, std::optional<NewRun> start) {
    const Model::Hook& hook = model_.hooks.at(hook_id);
    const auto version = record_of(run(hook.run)).version;
    if (deliver.expected_version && *deliver.expected_version != version.value_or(0))
      return VersionMoved{version};
    if (const auto misfit = shapes_.check(hook.claim.shape, deliver.payload))
      return PayloadRefused{misfit->path, misfit->message};
    Delivered answer = receipt(hook_id, deliver, false);
    answer.read = read_at_once(hook_id, deliver, answer.effects);
    if (answer.read) return answer;
    put(hook_id, deliver, start.has_value(), std::move(start));
    answer.effects.wake.push_back(hook.run);
    return answer;
  }

  /// Accepted and consumed: the payload is never there for anybody else.
  bool read_at_once(std::int64_t hook_id, const Deliver& deliver, Effects& effects) {
    const Model::Hook& hook = model_.hooks.at(hook_id);
    const bool others_wait = std::ranges::any_of(
        model_.payloads, [&](const auto& each) { return each.second.hook == hook_id; });
    if (!deliver.reading || deliver.reading->step.run != hook.run ||
        deliver.reading->hook != hook.claim.op || hook.fed || others_wait) {
      return false;
    }
    Answer advanced = answer(deliver.reading->step);
    if (std::holds_alternative<Stale>(advanced)) return false;
    effects = std::get<Advanced>(std::move(advanced)).effects;
    return true;
  }

  Answer answer(const Deliver& command) {
    if (const auto before = repeated(command)) return *before;
    const auto hook = find_hook(command.workspace, command.token);
    if (!hook) return HookMissing{};
    return deliver_to(*hook, command, std::nullopt);
  }

  Answer answer(const ResumeOrStart& command) {
    if (const auto before = repeated(command.deliver)) return *before;
    if (const auto hook = find_hook(command.deliver.workspace, command.deliver.token))
      return deliver_to(*hook, command.deliver, command.run);
    if (const auto misfit =
            shapes_.check(command.run.hooks.front().shape, command.deliver.payload)) {
      return PayloadRefused{misfit->path, misfit->message};
    }
    Effects effects;
    const Status status = command.run.start_at ? Status::pending : Status::running;
    const Claim claim = create(command.run, status, std::nullopt, effects);
    if (claim.refused) return *claim.refused;
    if (claim.handed_back) {
      const Model::Run& holder = run(*claim.handed_back);
      return StartRefused{is_end(holder.status) ? Why::run_finished : Why::run_active,
                          holder.made.id};
    }
    const auto hook = find_hook(command.deliver.workspace, command.deliver.token);
    model_.hooks.at(*hook).fed = true;
    put(*hook, command.deliver, true, std::nullopt);
    Delivered answer = receipt(*hook, command.deliver, true);
    answer.effects = std::move(effects);
    if (status == Status::running) answer.effects.created.push_back(command.run.key);
    return answer;
  }

  // ---------------------------------------------------------------------------------------------- units of work

  /// Has no SQL: that is what SQLite's own tests are about.
  class Unit final : public UnitOfWork {
   public:
    Unit(ModelStore& store, TimePoint now) : store_(store), now_(now) {}

    void run(std::string_view, std::span<const sql::Value>,
             const std::function<void(const sql::Row&)>&) override {
      throw sql::SqlError("SQL_ERROR", "the model has no SQL");
    }

    void run_own(std::string_view sql, std::span<const sql::Value> parameters,
                 const std::function<void(const sql::Row&)>& each) override {
      run(sql, parameters, each);
    }

    Answer execute(const Command& command) override {
      Answer answer = store_.answer_one(command);
      if (const auto* started = std::get_if<RunStarted>(&answer)) {
        add(started->effects);
        const StartRun& start = std::get<StartRun>(command);
        if (!start.first_entry.empty()) {
          effects.opened.push_back(start.run.key);
        } else if (!start.run.start_at) {
          effects.created.push_back(start.run.key);
        }
      } else if (const auto* delivered = std::get_if<Delivered>(&answer)) {
        add(delivered->effects);
      } else if (const auto* cancelled = std::get_if<Cancelled>(&answer)) {
        add(cancelled->effects);
        if (is_end(cancelled->run.status)) effects.ended.push_back(cancelled->run.key);
      } else if (const auto* advanced = std::get_if<Advanced>(&answer)) {
        add(advanced->effects);
        if (const auto* reopen = std::get_if<ReopenRun>(&command)) {
          effects.opened.push_back(reopen->run);
        } else if (const auto* advance = std::get_if<AdvanceRun>(&command);
                   advance != nullptr &&
                   std::ranges::find(effects.opened, advance->run) == effects.opened.end()) {
          effects.moved.push_back(advance->run);
        }
      }
      return answer;
    }

    RunKey new_run_key() override { return store_.reserve(1); }

    TimePoint now() const override { return now_; }

    Effects effects;

   private:
    void add(const Effects& more) {
      std::ranges::copy(more.wake, std::back_inserter(effects.wake));
      std::ranges::copy(more.created, std::back_inserter(effects.created));
      std::ranges::copy(more.ended, std::back_inserter(effects.ended));
    }

    ModelStore& store_;
    TimePoint now_;
  };

  Answer answer(const Transact& command) {
    const auto is_next = [&] {
      if (!command.step) return true;
      const auto found = model_.runs.find(command.step->run);
      return found != model_.runs.end() && can_advance(found->second) &&
             found->second.entries.size() == command.step->seq;
    };
    if (!is_next()) return Stale{};
    const Model before = model_;
    Transacted done;
    Unit unit(*this, command.now);
    try {
      done.value = command.work->run(unit);
      if (!is_next()) std::rethrow_exception(moved_its_own_run());
    } catch (...) {
      model_ = before;
      done.error = std::current_exception();
      return done;
    }
    if (command.step) {
      const Transact::Step& step = *command.step;
      done.entry = step_outcome(step.op, step.name, step.attempt, done.value);
      append(step.run, done.entry, command.now);
    }
    done.effects = std::move(unit.effects);
    settle(done.effects);
    return done;
  }

  std::int64_t forget_receipts(TimePoint now, std::int64_t limit) {
    std::vector<std::pair<TimePoint, decltype(model_.receipts)::key_type>> passed;
    for (const auto& [id, receipt] : model_.receipts) {
      if (receipt.until <= now) passed.emplace_back(receipt.until, id);
    }
    std::ranges::sort(passed);
    std::int64_t forgotten = 0;
    for (const auto& [until, id] : passed) {
      if (forgotten == limit) break;
      model_.receipts.erase(id);
      ++forgotten;
    }
    return forgotten;
  }

  // ---------------------------------------------------------------------------------------------- reservations

  Answer answer(const Reserve& command) { return ModelReservations{model_}.answer(command); }

  Answer answer(const Complete& command) { return ModelReservations{model_}.answer(command); }

  Answer answer(const Release& command) { return ModelReservations{model_}.answer(command); }

  Answer answer(const Renew& command) { return ModelReservations{model_}.answer(command); }

  Answer answer(const Forget& command) { return ModelReservations{model_}.answer(command); }

  Answer answer(const FindReservation& command) {
    return ModelReservations{model_}.answer(command);
  }

  // ---------------------------------------------------------------------------------------------- sweeping

  Answer answer(const Sweep& command) {
    Swept swept;
    std::int64_t left = command.limit;
    for (const RunKey key : passed(&Model::Run::key_until, command.now)) {
      if (left == 0) break;
      forget_key(key);
      ++swept.keys;
      --left;
    }
    for (const RunKey key : passed(&Model::Run::keep_until, command.now)) {
      if (left == 0) break;
      remove(key);
      ++swept.runs;
      --left;
    }
    swept.resume_ids = forget_receipts(command.now, left);
    left -= swept.resume_ids;
    swept.reservations = ModelReservations{model_}.sweep(command.now, left);
    left -= swept.reservations;
    while (left > 0 && !model_.garbage.empty()) {
      const auto oldest = model_.garbage.begin();
      const std::int64_t taken = std::min(left, oldest->second);
      swept.entries += taken;
      oldest->second -= taken;
      left -= taken;
      if (oldest->second == 0) model_.garbage.erase(oldest);
    }
    swept.more = left == 0;
    return swept;
  }

  /// The runs whose time `until` has come, oldest first.
  std::vector<RunKey> passed(std::optional<TimePoint> Model::Run::* until, TimePoint now) {
    std::vector<std::pair<TimePoint, RunKey>> found;
    for (const auto& [key, each] : model_.runs) {
      if (has_passed(each.*until, now)) found.emplace_back(*(each.*until), key);
    }
    std::ranges::sort(found);
    std::vector<RunKey> keys;
    for (const auto& [time, key] : found) keys.push_back(key);
    return keys;
  }

  static bool has_passed(const std::optional<TimePoint>& until, TimePoint now) {
    return until && *until <= now;
  }

  void forget_key(RunKey key) {
    run(key).holds_key = false;
    run(key).key_until.reset();
  }

  void remove(RunKey key) {
    model_.garbage[key] = std::ssize(run(key).entries);
    std::erase_if(model_.payloads, [&](const auto& payload) {
      return model_.hooks.at(payload.second.hook).run == key;
    });
    std::erase_if(model_.hooks, [&](const auto& hook) { return hook.second.run == key; });
    model_.runs.erase(key);
  }

  // ---------------------------------------------------------------------------------------------- looking

  Answer answer(const LoadRun& command) {
    const auto found = model_.runs.find(command.run);
    if (found == model_.runs.end()) return RunMissing{};
    RunLoaded loaded{.run = record_of(found->second)};
    const auto start = model_.timers.find({command.run, TimerKind::start, ""});
    if (start != model_.timers.end()) loaded.starts_at = start->second;
    for (Seq seq = found->second.first_seq; seq < found->second.entries.size(); ++seq)
      loaded.entries.push_back(found->second.entries[seq].second);
    loaded.inbox = inbox(command.run);
    loaded.payloads = oldest_payloads(command.run);
    for (const auto& [operation, value] : model_.progress) {
      if (operation.first == command.run) loaded.progress.emplace_back(operation.second, value);
    }
    return loaded;
  }

  Answer answer(const ReadInbox& command) {
    return InboxRead{inbox(command.run), oldest_payloads(command.run)};
  }

  std::vector<InboxItem> inbox(RunKey key) {
    std::vector<InboxItem> items;
    for (const auto& [id, item] : model_.inbox) {
      if (item.run == key) items.push_back(item.item);
    }
    return items;
  }

  Answer answer(const FindEnded& command) {
    RunsFound found;
    for (const RunKey key : command.runs) {
      const auto at = model_.runs.find(key);
      if (at == model_.runs.end() || !can_advance(at->second)) found.runs.push_back(key);
    }
    return found;
  }

  Answer answer(const FindDue& command) {
    std::vector<std::tuple<TimePoint, RunKey, TimerKind, std::string>> all;
    for (const auto& [timer, due] : model_.timers) {
      const auto& [key, kind, op] = timer;
      if (can_advance(run(key))) all.emplace_back(due, key, kind, op);
    }
    std::ranges::sort(all);
    TimersDue found;
    for (const auto& [due, key, kind, op] : all) {
      if (due > command.now || std::ssize(found.timers) == command.limit) {
        found.next = due;
        break;
      }
      found.timers.push_back({.run = key, .kind = kind, .op = op, .due = due});
    }
    return found;
  }

  Answer answer(const FindWork& command) {
    RunsFound found;
    for (const auto& [key, each] : model_.runs) {
      if (key <= command.after || !can_advance(each)) continue;
      if (std::ssize(found.runs) == command.limit) break;
      if (each.status == Status::running || !inbox(key).empty() || has_payload(key))
        found.runs.push_back(key);
    }
    return found;
  }

  Answer answer(const FindRun& command) {
    const auto key = find(command.workspace, command.id);
    if (!key) return RunMissing{};
    return RunLoaded{.run = record_of(run(*key))};
  }

  Model::Run& run(RunKey key) { return model_.runs.at(key); }

  std::optional<RunKey> find(const std::string& workspace, const std::string& id) {
    for (const auto& [key, each] : model_.runs) {
      if (each.made.workspace == workspace && each.made.id == id) return key;
    }
    return std::nullopt;
  }

  /// Who holds the idempotency key.
  std::optional<RunKey> find_key(const std::string& workspace, const std::string& idempotency_key) {
    for (const auto& [key, each] : model_.runs) {
      if (each.holds_key && each.made.workspace == workspace &&
          each.made.idempotency_key == idempotency_key)
        return key;
    }
    return std::nullopt;
  }

  std::shared_ptr<Model> owned_;
  Model& model_;
  base::ShapeChecker shapes_;
};

}  // namespace

std::unique_ptr<Store> make_model_store(std::shared_ptr<Model> model) {
  return std::make_unique<ModelStore>(std::move(model));
}

}  // namespace semel::store
