// Entries of live runs: something arrives, the workflow goes on, what it asks for is written and then released.
#include "base/assert.hpp"
#include "base/clock.hpp"
#include "engine/loop.hpp"
#include "idempotency/fingerprint.hpp"

#include <algorithm>

namespace semel::engine {

using journal::Arrival;
using journal::ArrivalKind;
using journal::Entry;
using journal::Operation;
using journal::Request;
using journal::RequestKind;
using store::Answer;
using store::RunKey;
using store::Status;
using store::Timer;
using store::TimerKind;

namespace {

Timer timer_of(const LiveRun& run, const Operation& operation) {
  const TimerKind kind = operation.kind == RequestKind::sleep ? TimerKind::sleep : TimerKind::retry;
  return {run.key, kind, operation.op, operation.at};
}

bool has_timer(const Operation& operation) {
  return operation.kind == RequestKind::sleep ||
         (operation.kind == RequestKind::step && operation.phase == Operation::Phase::backoff);
}

/// The end an entry brings, if it does.
base::Rare<store::End> end_of(const Entry& entry) {
  switch (entry.arrival.kind) {
    case ArrivalKind::cancelled:
      return store::End{Status::cancelled, {}, entry.arrival.failure};
    case ArrivalKind::timed_out:
    case ArrivalKind::limit_reached:
      return store::End{Status::failed, {}, entry.arrival.failure};
    default:
      break;
  }
  if (entry.requests.empty()) return std::nullopt;
  const Request& last = entry.requests.back();
  switch (last.kind) {
    case RequestKind::completed:
      return store::End{Status::completed, last.value, std::nullopt};
    case RequestKind::failed:
      return store::End{Status::failed, {}, last.failure};
    case RequestKind::cancelled:
      return store::End{Status::cancelled, {}, last.failure};
    default:
      return std::nullopt;
  }
}

detail::RunEnd run_end(const store::End& end) {
  return {static_cast<RunStatus>(end.status), end.output, end.failure.value_or(journal::Failure{})};
}

}  // namespace

void Loop::when_ready(const RunPtr& run, std::function<void()> action) {
  if (run->dropped) return;
  if (run->blocked || !run->frame) {
    run->deferred.push_back(std::move(action));
  } else {
    action();
  }
}

void Loop::run_deferred(const RunPtr& run) {
  while (!run->deferred.empty() && !run->blocked && !run->dropped) {
    auto waiting = std::exchange(run->deferred, {});
    for (auto& action : waiting) {
      if (run->dropped) return;
      if (run->blocked) {
        run->deferred.push_back(std::move(action));
      } else {
        action();
      }
    }
  }
}

/// The workflow's own code runs here, eagerly, because it has no effects; what it asks for waits for the commit.
void Loop::transition(const RunPtr& run, Arrival arrival, EntryExtra extra) {
  if (auto entry = go_on_with(run, std::move(arrival)))
    write(run, *std::move(entry), std::move(extra));
}

/// What the workflow makes of it; none: it diverged.
std::optional<Entry> Loop::go_on_with(const RunPtr& run, Arrival arrival) {
  SEMEL_ASSERT(!run->blocked && run->frame != nullptr && !run->state.is_over());
  run->frame->deliver(arrival, run->state, now_);
  Entry entry{std::move(arrival), run->frame->take_asked()};
  if (run->frame->divergence()) {
    // Only a version outside of what the code knows can do this to a live run.
    mark(run->key, names_of(*run), run->state.next, Status::diverged,
         {.code = "RUN_DIVERGED",
          .message = run->frame->divergence()->message(),
          .details = {},
          .name = {},
          .op = {}});
    return std::nullopt;
  }
  return entry;
}

void Loop::write(const RunPtr& run, Entry entry, EntryExtra extra) {
  store::AdvanceRun advance = prepare(run, entry);
  advance.changes.inbox_consumed = std::move(extra.consumed);
  // Where the run ends at its limit instead, nobody has read them.
  if (entry.arrival.kind != ArrivalKind::limit_reached)
    advance.changes.payloads_consumed = std::move(extra.payloads);
  const std::string transaction = transaction_of(*run, entry);
  submit_entry(std::move(advance), run, std::move(entry), std::move(extra.written));
  // In the same commit: nothing of it stays where the entry that asks for it does not.
  if (!transaction.empty()) transact_step(run, transaction);
}

/// One more entry, and it is the last.
bool Loop::is_full(const LiveRun& run) const {
  return run.state.next - run.first_seq + 1 >= options_.limits.journal_entries_max;
}

/// The command that writes the entry, which from here on is under way.
store::AdvanceRun Loop::prepare(const RunPtr& run, Entry& entry) {
  auto children = run->frame ? run->frame->take_children() : std::vector<detail::ChildSpec>{};
  const bool goes_on = !journal::ends_run(entry) && !journal::ends_generation(entry);
  if (goes_on && is_full(*run)) {
    entry = {};
    entry.arrival.kind = ArrivalKind::limit_reached;
    entry.arrival.failure = journal::Failure{
        .code = "JOURNAL_TOO_LARGE",
        .message = "the run's journal has reached its limit of " +
                   std::to_string(options_.limits.journal_entries_max) + " entries",
        .details = {},
        .name = {},
        .op = {}};
    children.clear();
  }
  store::AdvanceRun advance;
  advance.run = run->key;
  advance.now = now_;
  advance.seq = run->state.next;
  advance.changes = apply_entry(*run, entry, children);
  advance.entries.push_back(journal::encode(entry));
  if (run->replayable) run->replayable->entries.push_back(advance.entries.back());
  run->blocked = asks_store(advance.changes);
  ++run->uncommitted;
  // No longer at rest: evicted now, it would not hear that its entry is durable.
  if (run->is_idle) idle_.erase(run->idle_position);
  run->is_idle = false;
  return advance;
}

/// Applies the entry to the run's state and says what else it changes.
store::Changes Loop::apply_entry(LiveRun& run, const Entry& entry,
                                 const std::vector<detail::ChildSpec>& children) {
  store::Changes changes;
  if (run.type != nullptr && run.type->version > run.code_version) {
    // From here on an older program leaves it alone.
    run.code_version = run.type->version;
    changes.code_version = run.code_version;
  }
  const auto clear = [&](const std::string& op) {
    const Operation* operation = run.state.find(op);
    if (operation != nullptr && has_timer(*operation))
      changes.timers_cleared.push_back(timer_of(run, *operation));
  };
  const auto set = [&](Timer timer) {
    note_timer(timer.due);
    changes.timers_set.push_back(std::move(timer));
  };

  const Arrival& arrival = entry.arrival;
  switch (arrival.kind) {
    case ArrivalKind::started:
      if (run.row_status == Status::pending)
        changes.timers_cleared.push_back({run.key, TimerKind::start, "", {}});
      break;
    case ArrivalKind::timer_fired:
    case ArrivalKind::retry_due:
      clear(arrival.op);
      break;
    case ArrivalKind::woken:
      for (const journal::Lost& sleep : arrival.ops) clear(sleep.op);
      break;
    case ArrivalKind::attempt_failed:
      set({run.key, TimerKind::retry, arrival.op, arrival.at});
      break;
    case ArrivalKind::cancel_requested:
      if (run.state.grace_until && arrival.at >= *run.state.grace_until) break;
      if (run.state.grace_until)
        changes.timers_cleared.push_back({run.key, TimerKind::grace, "", *run.state.grace_until});
      set({run.key, TimerKind::grace, "", arrival.at});
      break;
    default:
      break;
  }

  std::size_t next_child = 0;
  for (const Request& request : entry.requests) {
    switch (request.kind) {
      case RequestKind::sleep:
        set({run.key, TimerKind::sleep, request.op, request.at});
        break;
      case RequestKind::drop:
      case RequestKind::abandon: {
        clear(request.op);
        // Asked for and dropped in one go: it was never set.
        std::erase_if(changes.timers_set, [&](const Timer& timer) {
          return timer.op == request.op && timer.kind != TimerKind::grace;
        });
        const Operation* operation = run.state.find(request.op);
        if (operation != nullptr &&
            (operation->kind == RequestKind::child || operation->kind == RequestKind::result_of)) {
          changes.waits_dropped.push_back(request.op);
        }
        break;
      }
      case RequestKind::attribute:
        changes.attributes.emplace_back(
            request.name, value::decode<std::string>(request.value, value::Mode::journal));
        break;
      case RequestKind::child:
      case RequestKind::spawn: {
        const detail::ChildSpec& spec = children.at(next_child++);
        changes.children.push_back({request.op, child_run(run, spec), spec.wait});
        break;
      }
      case RequestKind::result_of:
        changes.waits.push_back({request.op, request.name});
        break;
      default:
        break;
    }
  }

  run.state.apply(entry);
  if (auto end = end_of(entry)) {
    // The store takes everything that could wake the run with it; what this entry asked for last is not even begun.
    changes.timers_set.clear();
    changes.timers_cleared.clear();
    changes.children.clear();
    changes.waits.clear();
    changes.end = std::move(end);
    run.row_status = changes.end->status;
    return changes;
  }
  changes.hooks = hook_changes(entry, run.state);
  if (run.state.continued) {
    changes.timers_set.clear();
    changes.timers_cleared.clear();
    changes.children.clear();
    changes.waits.clear();
    std::erase_if(changes.hooks, [](const store::HookChange& change) {
      return change.kind != store::HookChange::Kind::release;
    });
    changes.continue_as_new = entry.requests.back().value;
    run.row_status = Status::running;
    return changes;
  }
  // Nothing of a recovered run was replayed yet, and its code may go on from what it finds there: parked now and killed
  // before that, nothing would wake it.
  if (arrival.kind == ArrivalKind::recovered) return changes;
  const Status status = run.state.has_work() ? Status::running : Status::waiting;
  if (status != run.row_status) changes.status = status;
  run.row_status = status;
  return changes;
}

void Loop::entry_committed(const RunPtr& run, const Entry& entry, Answer& answer) {
  --run->uncommitted;
  if (std::holds_alternative<store::Stale>(answer)) return read_anew(run);
  after_commit(run, entry, std::get<store::Advanced>(answer).effects);
}

/// Someone else wrote at our place: what we have in memory is wrong, and never mended in place.
void Loop::read_anew(const RunPtr& run) {
  ++counters_.stale;
  if (run->dropped) return;
  drop(run);
  loading_.erase(run->key);
  load(run->key);
}

void Loop::after_commit(const RunPtr& run, const Entry& entry, store::Effects& effects) {
  run_effects(effects);
  if (run->dropped) return;
  if (run->state.crashes == 0 && run->uncommitted == 0) suspect_progress(run->key, false);
  if (const auto end = end_of(entry)) {
    count_end(static_cast<RunStatus>(end->status));
    const detail::RunEnd told = run_end(*end);
    tell_end(*run, told);
    over(run->key, told);
    return;
  }
  if (journal::ends_generation(entry)) {
    // Whatever is under way belongs to the old generation; the new one is read as any run is.
    bodies_.for_each_of(run->key, [](Body& body) { body.ask_to_stop(); });
    drop(run);
    if (workers_) load(run->key);
    return;
  }
  // Nothing is written behind an entry that asks the store: it is the last to be answered.
  if (run->blocked && run->uncommitted == 0) {
    run->blocked = false;
    apply_outcomes(run, effects.outcomes);
  }
  release(run, entry);
  settle(run);
}

/// Something was committed for the run and taken up.
void Loop::settle(const RunPtr& run) {
  if (options_.check_replay && run->frame && run->uncommitted == 0 && !run->blocked)
    check_by_replay(run);
  run_deferred(run);
  note_rest(run);
  settle_memory(run);
}

/// What only the store could decide has been written behind our entry; the workflow goes on from it.
void Loop::apply_outcomes(const RunPtr& run, const std::vector<std::string>& outcomes) {
  for (const std::string& bytes : outcomes) {
    auto outcome = journal::decode(bytes);
    SEMEL_ASSERT(outcome.has_value());
    if (run->replayable) run->replayable->entries.push_back(bytes);
    run->frame->deliver(outcome->arrival, run->state, now_);
    const Operation* operation = run->state.find(outcome->arrival.op);
    const bool goes_on =
        outcome->arrival.failure || operation == nullptr || operation->kind != RequestKind::child;
    if (goes_on && run->row_status == Status::waiting) run->row_status = Status::running;
    const std::string hook =
        operation != nullptr && operation->kind == RequestKind::hook_next ? operation->name : "";
    run->state.apply(*outcome);
    // It took the oldest payload; the next in line may be waiting for another one.
    if (!hook.empty() && run->state.awaiter(hook) != nullptr) read_inbox(run->key);
  }
  continue_with(run, run->frame->take_asked());
}

void Loop::continue_with(const RunPtr& run, std::vector<Request> requests) {
  if (requests.empty()) return;
  Entry entry;
  entry.requests = std::move(requests);
  write(run, std::move(entry));
}

void Loop::count_end(RunStatus status) {
  if (status == RunStatus::completed) ++counters_.runs_completed;
  if (status == RunStatus::failed) ++counters_.runs_failed;
  if (status == RunStatus::cancelled) ++counters_.runs_cancelled;
}

void Loop::run_effects(const store::Effects& effects) {
  for (const RunKey key : effects.ended) {
    count_end(RunStatus::cancelled);
    if (!watchers_.contains(key)) {
      over(key, {RunStatus::cancelled, {}, {}});
      continue;
    }
    submit(store::LoadRun{key}, [this, key](Answer& answer) {
      const auto* loaded = std::get_if<store::RunLoaded>(&answer);
      // Gone: another run has its id. It was cancelled all the same, and somebody waits to hear it.
      if (loaded == nullptr) return over(key, {RunStatus::cancelled, {}, {}});
      over(key, {static_cast<RunStatus>(loaded->run.status), loaded->run.output,
                 loaded->run.failure.value_or(journal::Failure{})});
    });
    if (const RunPtr run = live(key)) drop(run);
  }
  if (!workers_) return;
  for (const RunKey key : effects.created) load(key);
  for (const RunKey key : effects.opened) {
    just_opened_.insert(key);
    load(key);
  }
  for (const RunKey key : effects.moved) {
    if (const RunPtr run = live(key)) {
      read_anew(run);
    } else {
      load(key);
    }
  }
  for (const RunKey key : effects.wake) read_inbox(key);
}

/// The entry is durable: the attempts it asked for may begin.
void Loop::release(const RunPtr& run, const Entry& entry) {
  switch (entry.arrival.kind) {
    case ArrivalKind::retry_due:
      begin_attempt(run, entry.arrival.op);
      break;
    case ArrivalKind::begun:
      hand_out(run, entry.arrival.op);
      break;
    default:
      break;
  }
  for (const Request& request : entry.requests) {
    if (request.kind == RequestKind::step) begin_attempt(run, request.op);
    if (request.kind == RequestKind::abandon) {
      if (Body* body = bodies_.find(run->key, body_name(run->generation, request.op)))
        body->ask_to_stop();
    }
  }
}

/// Ends a run from outside its code.
void Loop::fail_run(const RunPtr& run, ArrivalKind kind, journal::Failure failure) {
  Entry entry;
  entry.arrival.kind = kind;
  entry.arrival.failure = std::move(failure);
  write(run, std::move(entry));
}

void Loop::read_inbox(RunKey key) {
  const RunPtr run = live(key);
  if (!run) {
    load(key);
    return;
  }
  // A batch that is not out yet will see what this call is about.
  if (run->inbox_asked == counters_.batches + 1) return;
  run->inbox_asked = counters_.batches + 1;
  submit(store::ReadInbox{key}, [this, run](Answer& answer) {
    auto read = std::get<store::InboxRead>(std::move(answer));
    if (run->dropped) {
      // Evicted meanwhile: whoever brings it back reads its inbox with it.
      if (!read.items.empty() || !read.payloads.empty()) load(run->key);
      return;
    }
    when_ready(run, [this, run, items = std::move(read.items)] { take_inbox(run, items); });
    when_ready(run,
               [this, run, payloads = std::move(read.payloads)] { take_payloads(run, payloads); });
  });
}

void Loop::take_inbox(const RunPtr& run, const std::vector<store::InboxItem>& items) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (run->dropped || run->state.is_over()) return;
    if (run->blocked) {
      const std::vector<store::InboxItem> rest(items.begin() + static_cast<std::ptrdiff_t>(i),
                                               items.end());
      when_ready(run, [this, run, rest] { take_inbox(run, rest); });
      return;
    }
    const store::InboxItem& item = items[i];
    if (item.id <= run->inbox_seen) continue;
    run->inbox_seen = item.id;
    Arrival arrival;
    if (item.kind == store::InboxItem::Kind::cancel) {
      arrival.kind = ArrivalKind::cancel_requested;
      arrival.at = item.at;
    } else {
      arrival.kind = ArrivalKind::result_arrived;
      arrival.op = item.op;
      arrival.value = item.value;
      arrival.failure = item.failure;
    }
    transition(run, std::move(arrival), {.consumed = {item.id}});
  }
}

Refusal refusal_of(const store::StartRefused& refused) {
  using Why = store::StartRefused::Why;
  switch (refused.why) {
    case Why::input_differs:
      return {"IDEMPOTENCY_CONFLICT",
              "run " + refused.run_id + " has this key or id and was started with other input",
              refused.run_id};
    case Why::run_active:
      return {"RUN_ACTIVE", "run " + refused.run_id + " has this key or id", refused.run_id};
    case Why::run_finished:
      return {"RUN_FINISHED", "run " + refused.run_id + " has this key or id and is finished",
              refused.run_id};
    case Why::hook_conflict:
      return {"HOOK_CONFLICT", "run " + refused.run_id + " has the token", refused.run_id};
    case Why::claims_differ:
      return {"IDEMPOTENCY_CONFLICT",
              "the key belongs to run " + refused.run_id + " and the id to another",
              refused.run_id};
  }
  return {};
}

/// A child has the options a start has. No key is needed: it is created in the very commit that asks for it.
store::NewRun Loop::child_run(const LiveRun& parent, const detail::ChildSpec& spec) {
  StartInput input{parent.workspace, spec.workflow, spec.input, {}, spec.options};
  if (spec.options.key || spec.options.run_id) {
    input.fingerprint = idempotency::start_fingerprint(spec.workflow, value::canonical(spec.input));
  }
  store::NewRun run = new_run(std::move(input));
  if (run.start_at) note_timer(*run.start_at);
  if (run.deadline) note_timer(*run.deadline);
  if (spec.wait) run.parent = parent.key;
  return run;
}

store::NewRun new_run(StartInput input, const Registry& registry, RunKey key, std::string instance,
                      TimePoint now, std::chrono::nanoseconds retention) {
  store::NewRun run;
  run.key = key;
  run.workspace = std::move(input.workspace);
  run.instance = std::move(instance);
  run.chosen_id = input.options.run_id.has_value();
  run.id = input.options.run_id.value_or(run.instance);
  run.workflow = std::move(input.workflow);
  const detail::WorkflowType* type = registry.find(run.workflow);
  run.code_version = type == nullptr ? 1 : type->version;
  run.input = std::move(input.input);
  run.created_at = now;
  run.idempotency_key = std::move(input.options.key);
  if (input.options.key_ttl) run.key_ttl = base::bounded(*input.options.key_ttl);
  run.fingerprint = std::move(input.fingerprint);
  run.check_fingerprint = input.options.fingerprint == Fingerprint::on;
  run.on_running = static_cast<store::OnRunning>(input.options.on_running);
  run.after_done = static_cast<store::AfterDone>(input.options.after_done);
  if (input.options.delay && *input.options.delay > Millis{0})
    run.start_at = now + base::bounded(*input.options.delay);
  if (input.options.deadline) run.deadline = now + base::bounded(*input.options.deadline);
  run.attributes = std::move(input.options.attributes);
  if (input.options.token) {
    run.hooks = {{.token = *std::move(input.options.token),
                  .shape = type == nullptr ? std::string{} : type->token_payload}};
  }
  run.retention = retention;
  return run;
}

store::NewRun Loop::new_run(StartInput input) {
  store::NewRun run = engine::new_run(std::move(input), registry_, new_key(), ids_.next(now_), now_,
                                      options_.retention);
  run.partition = home(run.key);
  return run;
}

void Loop::start(StartInput input, Reply<StartReply> reply, TimePoint now) {
  now_ = now;
  const detail::WorkflowType* type = registry_.find(input.workflow);
  if (type == nullptr) {
    reply(Refusal{"WORKFLOW_NOT_FOUND",
                  "no workflow named \"" + input.workflow + "\" is registered", ""});
    return;
  }
  if (lost_) {
    reply(Refusal{"STORE_UNAVAILABLE", "the store is not available", ""});
    return;
  }
  if (!opened_) {
    before_open_.emplace_back(
        [this, input = std::move(input), reply = std::move(reply)] { start(input, reply, now_); });
    return;
  }
  store::StartRun command;
  command.run = new_run(std::move(input));
  if (command.run.start_at) note_timer(*command.run.start_at);
  if (command.run.deadline) note_timer(*command.run.deadline);

  RunPtr run;
  if (!command.run.start_at && workers_ && !stopping_ && !homes_.empty()) {
    // Speculation: the first segment runs before anybody knows whether the key is free. It has no effects, and a run of
    // n steps is n + 1 commits this way.
    run = std::make_shared<LiveRun>();
    run->key = command.run.key;
    run->partition = command.run.partition;
    run->id = command.run.id;
    run->workspace = command.run.workspace;
    run->instance = command.run.instance;
    run->type = type;
    run->code_version = command.run.code_version;
    run->deadline = command.run.deadline;
    run->frame = new_frame();
    Entry entry;
    entry.arrival.kind = ArrivalKind::started;
    try {
      run->frame->create(*type, command.run.input);
    } catch (...) {
      const detail::Failure failure = detail::describe(std::current_exception());
      reply(Refusal{failure.code, failure.message, ""});
      return;
    }
    run->frame->deliver(entry.arrival, run->state, now_);
    entry.requests = run->frame->take_asked();
    command.changes = apply_entry(*run, entry, run->frame->take_children());
    command.first_entry = journal::encode(entry);
    if (options_.check_replay) {
      run->replayable = Replayable{command.run.input, {command.first_entry}};
    }
    run->blocked = asks_store(command.changes);
    run->uncommitted = 1;
    add_live(run);
    const std::string id = command.run.id;
    submit(
        std::move(command),
        [this, run, entry = std::move(entry), id, reply](Answer& answer) {
          --run->uncommitted;
          if (auto* started = std::get_if<store::RunStarted>(&answer)) {
            if (tells(LogLevel::debug))
              tell(LogLevel::debug, "run.started", names_of(*run), "a run was started");
            reply(StartReply{id, true, run->key});
            after_commit(run, entry, started->effects);
            return;
          }
          drop(run);
          if (auto* exists = std::get_if<store::RunExists>(&answer)) {
            reply(StartReply{exists->run.id, false, 0});
          } else {
            reply(refusal_of(std::get<store::StartRefused>(answer)));
          }
        },
        [reply](const base::Fault& fault) {
          reply(Refusal{"STORE_UNAVAILABLE", fault.message, ""});
        });
    return;
  }

  const RunKey key = command.run.key;
  const std::string id = command.run.id;
  const bool delayed = command.run.start_at.has_value();
  submit(
      std::move(command),
      [this, key, id, delayed, reply](Answer& answer) {
        if (auto* started = std::get_if<store::RunStarted>(&answer)) {
          reply(StartReply{id, true, key});
          run_effects(started->effects);
          if (!delayed && workers_ && !stopping_) load(key);
        } else if (auto* exists = std::get_if<store::RunExists>(&answer)) {
          reply(StartReply{exists->run.id, false, 0});
        } else {
          reply(refusal_of(std::get<store::StartRefused>(answer)));
        }
      },
      [reply](const base::Fault& fault) {
        reply(Refusal{"STORE_UNAVAILABLE", fault.message, ""});
      });
}

}  // namespace semel::engine
