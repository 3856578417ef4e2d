// An operator's calls: cancel, retry, fork, wake, and waiting for a result.
#include "base/clock.hpp"
#include "engine/loop.hpp"

#include <algorithm>

namespace semel::engine {

using journal::Arrival;
using journal::ArrivalKind;
using journal::Operation;
using journal::Record;
using journal::RequestKind;
using store::Answer;
using store::RunKey;
using store::Status;
using store::Timer;
using store::TimerKind;

namespace {

Refusal not_found(const std::string& id) { return {"RUN_NOT_FOUND", "there is no run " + id, id}; }

Refusal moved_on(const std::string& id) {
  return {"CONCURRENCY_ERROR", "run " + id + " has moved on", id};
}

Refusal unavailable(const base::Fault& fault) { return {"STORE_UNAVAILABLE", fault.message, ""}; }

template <class T>
std::function<void(const base::Fault&)> refuse_on_fault(const Reply<T>& reply) {
  return [reply](const base::Fault& fault) { reply(unavailable(fault)); };
}

/// Answers once and for certain: where everything that could have answered is gone, with a refusal.
template <class T>
class SureReply {
 public:
  SureReply(Reply<T> reply, Refusal otherwise)
      : reply_(std::move(reply)), otherwise_(std::move(otherwise)) {}

  SureReply(const SureReply&) = delete;
  SureReply& operator=(const SureReply&) = delete;

  ~SureReply() {
    if (reply_) reply_(std::move(otherwise_));
  }

  void operator()(std::variant<T, Refusal> answer) {
    if (auto reply = std::exchange(reply_, nullptr)) reply(std::move(answer));
  }

 private:
  Reply<T> reply_;
  Refusal otherwise_;
};

bool is_at(const store::RunRecord& run, const std::optional<std::uint64_t>& expected) {
  return !expected || run.version.value_or(0) == *expected;
}

/// Sets again what an end, or a copy, does not have: timers and waits of what is still pending.
void set_again(store::Changes& changes, RunKey key, const journal::RunState& state) {
  for (const Operation& operation : state.pending) {
    if (operation.kind == RequestKind::sleep) {
      changes.timers_set.push_back({key, TimerKind::sleep, operation.op, operation.at});
    } else if (operation.kind == RequestKind::step &&
               operation.phase == Operation::Phase::backoff) {
      changes.timers_set.push_back({key, TimerKind::retry, operation.op, operation.at});
    } else if (!operation.run_id.empty()) {
      changes.waits.push_back({operation.op, operation.run_id});
    }
  }
  if (state.grace_until)
    changes.timers_set.push_back({key, TimerKind::grace, "", *state.grace_until});
}

/// The operation whose failure ended the run, with the attempt that failed, if taking it back is possible: nothing else
/// may have followed from it.
std::optional<journal::Lost> failure_to_void(const std::vector<Record>& records, std::size_t end,
                                             const journal::Failure& failure) {
  if (failure.op.empty()) return std::nullopt;
  for (std::size_t i = records.size(); i-- > 0;) {
    const Arrival& arrival = records[i].entry.arrival;
    if (arrival.kind == ArrivalKind::recovered) {
      const bool settled_it = std::ranges::any_of(arrival.ops, [&](const journal::Lost& lost) {
        return lost.op == failure.op && lost.attempt == 0;
      });
      if (settled_it) return journal::Lost{failure.op, 1};
    }
    if (arrival.op != failure.op || !arrival.failure || records[i].arrival_void) continue;
    if (arrival.kind != ArrivalKind::step_failed && arrival.kind != ArrivalKind::result_arrived)
      continue;
    if (i == end || records[i].entry.requests.empty())
      return journal::Lost{failure.op, std::max(arrival.attempt, 1U)};
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<detail::RunEnd> end_of(const store::RunRecord& run) {
  const bool goes_on =
      !store::is_end(run.status) && run.status != Status::dead && run.status != Status::diverged;
  if (goes_on) return std::nullopt;
  return detail::RunEnd{static_cast<RunStatus>(run.status), run.output,
                        run.failure.value_or(journal::Failure{})};
}

void Loop::with_run(std::string workspace, std::string id,
                    std::function<void(store::RunLoaded*)> found,
                    std::function<void(const base::Fault&)> failed) {
  submit(
      store::FindRun{std::move(workspace), std::move(id)},
      [found = std::move(found)](Answer& answer) { found(std::get_if<store::RunLoaded>(&answer)); },
      std::move(failed));
}

void Loop::cancel(std::string workspace, const std::string& id, CancelOptions options,
                  const Reply<std::monostate>& reply, TimePoint now) {
  now_ = now;
  store::CancelRun command;
  command.workspace = std::move(workspace);
  command.id = id;
  command.expected_version = options.expected_version;
  command.now = now_;
  if (options.grace) command.grace_until = now_ + base::bounded(*options.grace);
  submit(
      std::move(command),
      [this, id, reply](Answer& answer) {
        if (auto* cancelled = std::get_if<store::Cancelled>(&answer)) {
          reply(std::monostate{});
          if (const auto end = end_of(cancelled->run)) over(cancelled->run.key, *end);
          run_effects(cancelled->effects);
        } else if (std::holds_alternative<store::RunMissing>(answer)) {
          reply(not_found(id));
        } else if (auto* finished = std::get_if<store::NotActive>(&answer)) {
          reply(Refusal{"RUN_NOT_ACTIVE",
                        "run " + id + " is " +
                            std::string(to_string(static_cast<RunStatus>(finished->run.status))) +
                            "; only an unfinished run can be cancelled",
                        id});
        } else {
          reply(moved_on(id));
        }
      },
      refuse_on_fault(reply));
}

/// Whoever asks again and again, each time for a while, must not be remembered each time.
void Loop::add_watcher(RunKey key, Watcher watcher) {
  auto& watchers = watchers_[key];
  std::erase_if(watchers, [](const Watcher& each) { return each.is_gone(); });
  watchers.push_back(std::move(watcher));
}

std::size_t Loop::watchers() const {
  std::size_t count = 0;
  for (const auto& [key, watchers] : watchers_) count += watchers.size();
  return count;
}

void Loop::watch(std::string workspace, const std::string& id, const Reply<detail::RunEnd>& reply,
                 RunKey key, const std::optional<std::weak_ptr<const void>>& caller) {
  const RunPtr run = live(key);
  if (run && !stopping_ && run->id == id && run->workspace == workspace) {
    add_watcher(key, {reply, caller});
    return;
  }
  with_run(
      std::move(workspace), id,
      [this, id, reply, caller](store::RunLoaded* found) {
        if (found == nullptr) {
          reply(not_found(id));
        } else if (auto end = end_of(found->run)) {
          reply(*std::move(end));
        } else if (stopping_) {
          reply(Refusal{"ENGINE_STOPPED", "the engine is being stopped", id});
        } else {
          add_watcher(found->run.key, {reply, caller});
        }
      },
      refuse_on_fault(reply));
}

void Loop::wake(std::string workspace, const std::string& id, RunOptions options, Reply<int> reply,
                TimePoint now) {
  now_ = now;
  // The run may be dropped at any point on the way, and whatever was to happen next with it.
  auto answer = std::make_shared<SureReply<int>>(std::move(reply), moved_on(id));
  const auto end_sleeps = [this, answer, expected = options.expected_version](const RunPtr& run) {
    if (!run) {
      (*answer)(0);
      return;
    }
    when_ready(run, [this, run, answer, expected] {
      if (run->state.is_over()) return;
      if (expected && run->state.next != *expected + 1) return;  // it moved on since it was found
      Arrival arrival;
      arrival.kind = ArrivalKind::woken;
      for (const Operation& operation : run->state.pending) {
        if (operation.kind == RequestKind::sleep) arrival.ops.push_back({operation.op, 0});
      }
      const int count = static_cast<int>(arrival.ops.size());
      if (count == 0) {
        (*answer)(0);
        return;
      }
      transition(run, std::move(arrival), {.written = [answer, count](bool durable) {
                   if (durable) (*answer)(count);
                 }});
    });
  };
  with_run(
      std::move(workspace), id,
      [this, id, options, answer, end_sleeps](store::RunLoaded* found) {
        if (found == nullptr) {
          (*answer)(not_found(id));
        } else if (!is_at(found->run, options.expected_version)) {
          (*answer)(moved_on(id));
        } else if (store::is_end(found->run.status)) {
          (*answer)(Refusal{"RUN_NOT_ACTIVE", "run " + id + " is over", id});
        } else if (found->run.status == Status::pending || !workers_) {
          (*answer)(0);  // it does not sleep, it has not begun; or nothing runs yet
        } else {
          load(found->run.key, end_sleeps);
        }
      },
      [answer](const base::Fault& fault) { (*answer)(unavailable(fault)); });
}

void Loop::retry(std::string workspace, const std::string& id, RunOptions options,
                 const Reply<std::monostate>& reply, TimePoint now) {
  now_ = now;
  with_run(
      std::move(workspace), id,
      [this, id, options, reply](store::RunLoaded* found) {
        if (found == nullptr) {
          reply(not_found(id));
          return;
        }
        const Status status = found->run.status;
        if (!is_at(found->run, options.expected_version)) {
          reply(moved_on(id));
        } else if (status == Status::completed || status == Status::cancelled) {
          reply(Refusal{"RUN_FINISHED",
                        "run " + id + " is " +
                            std::string(to_string(static_cast<RunStatus>(status))) +
                            "; only a failed, dead or diverged run can be retried",
                        id});
        } else if (status != Status::failed && status != Status::dead &&
                   status != Status::diverged) {
          reply(Refusal{"RUN_ACTIVE", "run " + id + " is not over", id});
        } else {
          submit(
              store::LoadRun{found->run.key},
              [this, id, options, reply](Answer& answer) {
                auto* loaded = std::get_if<store::RunLoaded>(&answer);
                if (loaded == nullptr) {
                  reply(not_found(id));
                } else if (!is_at(loaded->run, options.expected_version)) {
                  reply(moved_on(id));
                } else {
                  reopen(*loaded, reply);
                }
              },
              refuse_on_fault(reply));
        }
      },
      refuse_on_fault(reply));
}

void Loop::reopen(const store::RunLoaded& loaded, const Reply<std::monostate>& reply) {
  const std::string id = loaded.run.id;
  auto records = journal::read_journal(loaded.entries);
  if (!records) {
    reply(Refusal{"JOURNAL_CORRUPT", records.error().message, id});
    return;
  }
  Record reopened;
  reopened.entry.arrival.kind = ArrivalKind::reopened;
  reopened.entry.arrival.at = now_;
  reopened.entry.arrival.at_seq = records->size();
  if (loaded.run.status == Status::failed && !records->empty()) {
    const std::size_t end = records->size() - 1;
    reopened.entry.arrival.at_seq = end;
    if (const auto failed =
            failure_to_void(*records, end, loaded.run.failure.value_or(journal::Failure{}))) {
      reopened.entry.arrival.ops.push_back(*failed);
    }
  }
  // As the run will be: what is then under way, or rested when it ended, begins anew under the next number.
  const auto as_reopened = [&](const Record& with) {
    std::vector<std::string> entries = loaded.entries;
    entries.push_back(journal::encode(with.entry));
    return journal::fold(*journal::read_journal(entries), loaded.run.first_seq);
  };
  journal::RunState state = as_reopened(reopened);
  std::vector<journal::Lost> again;
  for (const Operation& operation : state.pending) {
    if (operation.kind != RequestKind::step) {
      if (std::ranges::find(reopened.entry.arrival.ops, operation.op, &journal::Lost::op) !=
          reopened.entry.arrival.ops.end())
        again.push_back({operation.op, 1});
      continue;
    }
    // An at_most_once step whose body may have run is not run again, whoever asks.
    const bool is_over = operation.abandoned || operation.phase == Operation::Phase::begun;
    again.push_back({operation.op, is_over ? 0 : operation.attempt + 1});
  }
  reopened.entry.arrival.ops = again;
  state = as_reopened(reopened);

  store::ReopenRun command;
  command.run = loaded.run.key;
  command.seq = loaded.run.first_seq + records->size();
  command.now = now_;
  command.entries.push_back(journal::encode(reopened.entry));
  command.changes.status = Status::running;
  set_again(command.changes, loaded.run.key, state);
  for (const journal::Lost& begun_anew : again) {
    command.changes.timers_cleared.push_back({loaded.run.key, TimerKind::retry, begun_anew.op, {}});
  }
  if (loaded.run.deadline && *loaded.run.deadline > now_) {
    command.changes.timers_set.push_back(
        {loaded.run.key, TimerKind::deadline, "", *loaded.run.deadline});
  } else {
    command.changes.timers_cleared.push_back({loaded.run.key, TimerKind::deadline, "", {}});
  }
  for (const Timer& timer : command.changes.timers_set) note_timer(timer.due);
  submit(
      std::move(command),
      [this, key = loaded.run.key, id, reply](Answer& answer) {
        if (auto* advanced = std::get_if<store::Advanced>(&answer)) {
          reply(std::monostate{});
          run_effects(advanced->effects);
          if (!workers_) return;
          just_opened_.insert(key);
          load(key);
        } else if (auto* refused = std::get_if<store::StartRefused>(&answer)) {
          reply(refusal_of(*refused));
        } else {
          reply(moved_on(id));
        }
      },
      refuse_on_fault(reply));
}

void Loop::fork(std::string workspace, const std::string& id, std::uint64_t seq, RunOptions options,
                const Reply<std::string>& reply, TimePoint now) {
  now_ = now;
  with_run(
      std::move(workspace), id,
      [this, id, seq, options, reply](store::RunLoaded* found) {
        if (found == nullptr) {
          reply(not_found(id));
        } else if (!is_at(found->run, options.expected_version)) {
          reply(moved_on(id));
        } else {
          submit(
              store::LoadRun{found->run.key},
              [this, id, seq, options, reply](Answer& answer) {
                auto* loaded = std::get_if<store::RunLoaded>(&answer);
                if (loaded == nullptr) {
                  reply(not_found(id));
                } else if (!is_at(loaded->run, options.expected_version)) {
                  reply(moved_on(id));
                } else {
                  fork_from(*loaded, seq, reply);
                }
              },
              refuse_on_fault(reply));
        }
      },
      refuse_on_fault(reply));
}

void Loop::fork_from(const store::RunLoaded& loaded, std::uint64_t seq,
                     const Reply<std::string>& reply) {
  const journal::Seq first = loaded.run.first_seq;
  if (seq < first || seq >= first + loaded.entries.size()) {
    reply(Refusal{"VALIDATION_ERROR",
                  "/seq: the journal has " + std::to_string(loaded.entries.size()) +
                      " entries, numbered from " + std::to_string(first),
                  loaded.run.id});
    return;
  }
  const std::uint64_t wanted = seq;
  seq -= first;
  // What the store decided for an entry belongs to it: without it the copy would wait for an answer nobody gives.
  while (seq + 1 < loaded.entries.size()) {
    const auto next = journal::decode(loaded.entries[seq + 1]);
    if (!next || next->arrival.kind != ArrivalKind::outcome) break;
    ++seq;
  }
  std::vector<std::string> entries(loaded.entries.begin(),
                                   loaded.entries.begin() + static_cast<std::ptrdiff_t>(seq) + 1);
  auto records = journal::read_journal(entries);
  if (!records || journal::ends_run(records->back().entry)) {
    reply(Refusal{"VALIDATION_ERROR",
                  "/seq: entry " + std::to_string(wanted) + " ends the run; fork before it",
                  loaded.run.id});
    return;
  }
  Record forked;
  forked.entry.arrival.kind = ArrivalKind::forked;
  forked.entry.arrival.value = value::encode(loaded.run.id);
  forked.entry.arrival.ops = journal::lost_attempts(journal::fold(*records));
  records->push_back(forked);
  entries.push_back(journal::encode(forked.entry));
  const journal::RunState state = journal::fold(*records);

  StartInput input{loaded.run.workspace, loaded.run.workflow, loaded.run.input, {}, {}};
  store::StartRun start;
  start.run = new_run(std::move(input));
  start.run.hooks = claims_of(state);
  start.first_entry = entries.front();
  start.changes.status = Status::running;
  store::AdvanceRun rest;
  rest.run = start.run.key;
  rest.seq = 1;
  rest.now = now_;
  rest.entries.assign(entries.begin() + 1, entries.end());
  set_again(rest.changes, start.run.key, state);
  for (const Timer& timer : rest.changes.timers_set) note_timer(timer.due);
  for (const Record& record : *records) {
    for (const journal::Request& request : record.entry.requests) {
      if (request.kind != RequestKind::attribute) continue;
      rest.changes.attributes.emplace_back(
          request.name, value::decode<std::string>(request.value, value::Mode::journal));
    }
  }
  const RunKey key = start.run.key;
  const std::string id = start.run.id;
  // Two commands of one batch: one transaction.
  auto refused = std::make_shared<std::optional<Refusal>>();
  submit(std::move(start), [refused](Answer& answer) {
    if (const auto* why = std::get_if<store::StartRefused>(&answer)) *refused = refusal_of(*why);
  });
  submit(
      std::move(rest),
      [this, key, id, refused, reply](Answer& answer) {
        if (*refused) {
          reply(**refused);
          return;
        }
        reply(id);
        run_effects(std::get<store::Advanced>(answer).effects);
        if (!workers_) return;
        just_opened_.insert(key);
        load(key);
      },
      refuse_on_fault(reply));
}

}  // namespace semel::engine
