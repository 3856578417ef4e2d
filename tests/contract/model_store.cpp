#include "tests/contract/model_store.hpp"

#include "base/assert.hpp"
#include "store/outcome.hpp"

#include <algorithm>
#include <set>

namespace semel::store {

RunRecord record_of(const Model::Run& run) {
  RunRecord record{.key = run.made.key,
                   .workspace = run.made.workspace,
                   .partition = run.made.partition,
                   .id = run.made.id,
                   .instance = run.made.instance,
                   .workflow = run.made.workflow,
                   .code_version = run.made.code_version,
                   .status = run.status,
                   .input = run.made.input,
                   .output = run.output,
                   .failure = run.failure,
                   .idempotency_key = run.made.idempotency_key,
                   .fingerprint = run.made.fingerprint,
                   .created_at = run.made.created_at,
                   .ended_at = run.ended_at,
                   .deadline = run.made.deadline,
                   .parent = run.made.parent,
                   .version = std::nullopt,
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
      answers.push_back(
          std::visit([this](const auto& each) -> Answer { return answer(each); }, command));
    }
    return answers;
  }

 private:
  // ---------------------------------------------------------------------------------------------- the node

  Answer answer(const OpenNode& command) {
    NodeOpened opened{.clean = !model_.open};
    if (model_.open && !model_.well) opened.crashes = model_.crashes + 1;
    model_.open = true;
    model_.well = false;
    model_.crashes = opened.crashes;
    opened.first_key = reserve(command.keys_count);
    return opened;
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
        cancel_tree(holder, std::nullopt, "superseded by another run with the same key",
                    made.created_at, effects);
      }
    }
    if (by_id) remove(*by_id);
    if (by_key && by_key != by_id) forget_key(*by_key);

    model_.runs[made.key] = Model::Run{.made = made,
                                       .status = status,
                                       .holds_key = made.idempotency_key.has_value(),
                                       .attributes = made.attributes};
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
    if (reopened.made.idempotency_key) {
      const auto holder = find_key(reopened.made.workspace, *reopened.made.idempotency_key);
      if (holder && *holder != command.run) {
        if (!has_passed(run(*holder).key_until, command.now)) {
          return StartRefused{Why::run_active, run(*holder).made.id};
        }
        forget_key(*holder);
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
    for (const std::int64_t id : changes.inbox_consumed) {
      const auto item = model_.inbox.find(id);
      if (item != model_.inbox.end() && item->second.run == key) model_.inbox.erase(item);
    }
    for (const Timer& timer : changes.timers_cleared)
      model_.timers.erase({key, timer.kind, timer.op});
    for (const Timer& timer : changes.timers_set)
      model_.timers[{key, timer.kind, timer.op}] = timer.due;
    for (const auto& [name, value] : changes.attributes) run(key).attributes[name] = value;
    for (const std::string& op : changes.waits_dropped) model_.waits.erase({key, op});

    const bool goes_on = !changes.end;
    for (const ChildRequest& request : changes.children)
      make_child(key, request, goes_on, now, effects);
    if (goes_on) {
      for (const WaitRequest& request : changes.waits) wait(key, request, now, effects);
    }
    if (changes.end) end(key, *changes.end, now, effects);

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
    if (command.expected_version && command.expected_version != version)
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
    model_.runs.erase(key);
  }

  // ---------------------------------------------------------------------------------------------- looking

  Answer answer(const LoadRun& command) {
    const auto found = model_.runs.find(command.run);
    if (found == model_.runs.end()) return RunMissing{};
    RunLoaded loaded{.run = record_of(found->second)};
    const auto start = model_.timers.find({command.run, TimerKind::start, ""});
    if (start != model_.timers.end()) loaded.starts_at = start->second;
    for (const auto& [at, entry] : found->second.entries) loaded.entries.push_back(entry);
    loaded.inbox = inbox(command.run);
    for (const auto& [operation, value] : model_.progress) {
      if (operation.first == command.run) loaded.progress.emplace_back(operation.second, value);
    }
    return loaded;
  }

  Answer answer(const ReadInbox& command) { return InboxRead{inbox(command.run)}; }

  std::vector<InboxItem> inbox(RunKey key) {
    std::vector<InboxItem> items;
    for (const auto& [id, item] : model_.inbox) {
      if (item.run == key) items.push_back(item.item);
    }
    return items;
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
      if (each.status == Status::running || !inbox(key).empty()) found.runs.push_back(key);
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
};

}  // namespace

std::unique_ptr<Store> make_model_store(std::shared_ptr<Model> model) {
  return std::make_unique<ModelStore>(std::move(model));
}

}  // namespace semel::store
