// Bringing runs back: after an eviction, after a restart, after a crash, after the store was lost.
//
// Attempts that were under way when their process ended get the next number, durably, before anything of the run
// executes again — replay included — so that a run that kills its process is counted before it can do so again.
#include "base/assert.hpp"
#include "engine/loop.hpp"

#include <algorithm>

namespace semel::engine {

using journal::Arrival;
using journal::ArrivalKind;
using journal::Operation;
using journal::RequestKind;
using store::Answer;
using store::RunKey;
using store::Status;

namespace {

constexpr std::int64_t work_page = 256;

}  // namespace

/// A run that was read and is not running yet.
struct Loop::Loaded {
  RunPtr run;
  store::RunLoaded stored;
  std::vector<journal::Record> records;
};

void Loop::find_work(RunKey after) {
  submit(store::FindWork{after, work_page}, [this](Answer& answer) {
    const auto& found = std::get<store::RunsFound>(answer).runs;
    for (const RunKey key : found) load(key);
    if (static_cast<std::int64_t>(found.size()) == work_page) find_work(found.back());
  });
}

void Loop::load(RunKey key, std::function<void(const RunPtr&)> then) {
  if (const RunPtr run = live(key)) {
    if (then) then(run);
    return;
  }
  const auto [loading, is_first] = loading_.try_emplace(key);
  if (then) loading->second.push_back(std::move(then));
  if (!is_first) return;
  submit(store::LoadRun{key}, [this, key](Answer& answer) {
    if (auto* loaded = std::get_if<store::RunLoaded>(&answer)) {
      activate(std::move(*loaded));
    } else {
      finish_loading(key, nullptr);
    }
  });
}

void Loop::finish_loading(RunKey key, const RunPtr& run) {
  uncounted_.erase(key);
  if (!run) std::erase_if(held_, [key](const HeldResult& held) { return held.run == key; });
  const auto found = loading_.find(key);
  if (found == loading_.end()) return;
  auto waiting = std::move(found->second);
  loading_.erase(found);
  for (auto& then : waiting) then(run);
}

std::vector<journal::Lost> Loop::lost_here(const LiveRun& run) const {
  const RunKey key = run.key;
  const journal::RunState& state = run.state;
  const std::uint32_t generation = run.generation;
  std::vector<journal::Lost> lost = journal::lost_attempts(state);
  std::erase_if(lost, [&](const journal::Lost& candidate) {
    const std::uint32_t attempt = state.find(candidate.op)->attempt;
    const Body* body = bodies_.find(key, body_name(generation, candidate.op));
    if (body != nullptr && body->attempt == attempt && !body->superseded) return true;
    return std::ranges::any_of(held_, [&](const HeldResult& held) {
      return held.run == key && held.op == body_name(generation, candidate.op) &&
             held.attempt == attempt;
    });
  });
  return lost;
}

void Loop::activate(store::RunLoaded stored) {
  const RunKey key = stored.run.key;
  const Status status = stored.run.status;
  if (store::is_end(status) || status == Status::dead || status == Status::diverged || stopping_) {
    finish_loading(key, nullptr);
    return;
  }
  if (!owns(stored.run.partition)) {
    // Somebody else drives it, and does again what is under way here.
    just_opened_.erase(key);
    bodies_.for_each_of(key, [](Body& body) { body.ask_to_stop(); });
    finish_loading(key, nullptr);
    return;
  }
  const bool is_too_late = stored.run.deadline && *stored.run.deadline <= now_;
  if (stored.starts_at && *stored.starts_at > now_ && !is_too_late) {
    // Somebody looked at it, or the clock was set back: it begins when its time has come.
    note_timer(*stored.starts_at);
    if (stored.run.deadline) note_timer(*stored.run.deadline);
    finish_loading(key, nullptr);
    return;
  }
  const detail::WorkflowType* type = registry_.find(stored.run.workflow);
  if (type != nullptr && type->version < stored.run.code_version) type = nullptr;
  const store::Gained& gained = owned_.at(stored.run.partition);
  // Where its owner crashed that is counted before others get it: their own partitions do not say so.
  if (type == nullptr && (lease_ == std::chrono::nanoseconds{0} || gained.clean)) {
    await_worker(stored.run);
    finish_loading(key, nullptr);
    return;
  }
  auto records = journal::read_journal(stored.entries);
  if (!records) {
    mark(key, names_of(stored.run), stored.run.first_seq + stored.entries.size(), Status::diverged,
         {.code = "JOURNAL_CORRUPT",
          .message = records.error().message,
          .details = {},
          .name = {},
          .op = {}});
    finish_loading(key, nullptr);
    return;
  }

  auto loaded = std::make_shared<Loaded>();
  loaded->records = std::move(*records);
  loaded->run = std::make_shared<LiveRun>();
  LiveRun& run = *loaded->run;
  run.key = key;
  run.partition = stored.run.partition;
  run.id = stored.run.id;
  run.workspace = stored.run.workspace;
  run.instance = stored.run.instance;
  run.generation = stored.run.generation;
  run.first_seq = stored.run.first_seq;
  run.type = type;
  run.code_version = stored.run.code_version;
  run.deadline = stored.run.deadline;
  for (const journal::Record& record : loaded->records) {
    // An operator's retry of a run that missed its deadline has none to keep.
    const Arrival& arrival = record.entry.arrival;
    if (arrival.kind == ArrivalKind::reopened && run.deadline && *run.deadline <= arrival.at)
      run.deadline.reset();
  }
  run.row_status = status;
  run.progress = std::move(stored.progress);
  run.state = journal::fold(loaded->records, run.first_seq);
  if (options_.check_replay) {
    run.replayable = Replayable{stored.run.input, stored.entries};
  }
  loaded->stored = std::move(stored);
  add_live(loaded->run);

  if (loaded->records.empty() && tells(LogLevel::debug))
    tell(LogLevel::debug, "run.started", names_of(run), "a run was started");
  // What an operator's call has just asked for was never begun, so it cannot be lost.
  const bool is_fresh = just_opened_.erase(key) != 0;
  const bool has_lost = !is_fresh && !lost_here(run).empty();
  const bool is_careful = gained.crashes >= 2;
  const bool counted = !gained.clean && !is_fresh && !uncounted_.contains(key) &&
                       !counted_.contains(key) && (has_lost || is_careful);
  if (!has_lost && !counted) {
    resume(loaded);
    return;
  }
  if (!counted) {
    recover(loaded, false);
    return;
  }
  counted_.insert(key);
  const int crashes = static_cast<int>(run.state.crashes) + 1;
  if (crashes >= options_.crashes_max) {
    mark(key, names_of(run), run.state.next, Status::dead,
         {.code = "RUN_DEAD",
          .message = "its process crashed " + std::to_string(crashes) +
                     " times under it without progress in between",
          .details = {},
          .name = {},
          .op = {}});
    finish_loading(key, nullptr);
  } else if (crashes >= 2) {
    suspects_.emplace_back([this, loaded] {
      suspect_ = loaded->run->key;
      suspect_since_ = now_;
      recover(loaded, true);
    });
    next_suspect();
  } else {
    recover(loaded, true);
  }
}

/// Suspects run one at a time beside the others, so that innocent runs are not blamed for the crash of another.
void Loop::next_suspect() {
  if (suspect_ || suspects_.empty()) return;
  auto next = std::move(suspects_.front());
  suspects_.pop_front();
  next();
}

void Loop::suspect_progress(RunKey key, bool) {
  if (suspect_ != key) return;
  suspect_.reset();
  next_suspect();
}

void Loop::recover(const std::shared_ptr<Loaded>& loaded, bool counted) {
  LiveRun& run = *loaded->run;
  if (run.dropped) {  // cancelled while it stood in line as a suspect
    finish_loading(run.key, nullptr);
    suspect_progress(run.key, true);
    return;
  }
  ++counters_.recovered;
  if (tells(LogLevel::debug))
    tell(LogLevel::debug, "run.recovered", names_of(run), "a run goes on after a crash");
  journal::Entry entry;
  entry.arrival.kind = ArrivalKind::recovered;
  entry.arrival.ops = lost_here(run);
  entry.arrival.counted = counted;
  loaded->records.push_back({entry});
  write(loaded->run, std::move(entry), {.written = [this, loaded](bool durable) {
          if (loaded->run->dropped) {
            finish_loading(loaded->run->key, nullptr);  // cancelled meanwhile
          } else if (durable) {
            resume(loaded);
          }
        }});
}

void Loop::resume(const std::shared_ptr<Loaded>& loaded) {
  const RunPtr run = loaded->run;
  if (run->type == nullptr) {
    drop(run);
    await_worker(loaded->stored.run);
    finish_loading(run->key, nullptr);
    suspect_progress(run->key, true);
    return;
  }
  const auto& starts_at = loaded->stored.starts_at;
  const bool is_too_late = run->deadline && *run->deadline <= now_;
  if (starts_at && *starts_at > now_ && !is_too_late) {
    // The clock was set back while it was counted: it begins when its time has come again.
    note_timer(*starts_at);
    if (run->deadline) note_timer(*run->deadline);
    drop(run);
    finish_loading(run->key, nullptr);
    suspect_progress(run->key, true);
    return;
  }
  ++counters_.replays;
  auto outcome = replay(new_frame(), *run->type, loaded->stored.run.input, loaded->records, now_);
  if (const auto* diverged = std::get_if<Divergence>(&outcome)) {
    mark(run->key, names_of(*run), run->state.next, Status::diverged,
         {.code = "RUN_DIVERGED",
          .message = diverged->message(),
          .details = {},
          .name = {},
          .op = {}});
    finish_loading(run->key, nullptr);
    return;
  }
  auto& replayed = std::get<Replayed>(outcome);
  run->frame = std::move(replayed.frame);
  const bool has_started = std::ranges::any_of(loaded->records, [](const journal::Record& record) {
    return record.entry.arrival.kind == ArrivalKind::started;
  });
  std::vector<std::string> attempts;
  for (const Operation& operation : run->state.pending) {
    // One that came back while the store was away is not run again: its result is delivered below.
    const bool is_back = std::ranges::any_of(held_, [&](const HeldResult& held) {
      return held.run == run->key && held.op == body_name(run->generation, operation.op) &&
             held.attempt == operation.attempt;
    });
    if (operation.kind == RequestKind::step && !is_back) attempts.push_back(operation.op);
  }
  if (has_started) {
    continue_with(run, std::move(replayed.fresh));
  } else if (!is_too_late) {
    Arrival arrival;
    arrival.kind = ArrivalKind::started;
    transition(run, std::move(arrival));
  }
  for (const std::string& op : attempts) begin_attempt(run, op);
  when_ready(run, [this, run, inbox = std::move(loaded->stored.inbox)] { take_inbox(run, inbox); });
  when_ready(run, [this, run, payloads = std::move(loaded->stored.payloads)] {
    take_payloads(run, payloads);
  });
  for (HeldResult& result : std::exchange(held_, {})) {
    if (result.run == run->key) {
      const std::string op = body_op(result.op);
      if (result.op == body_name(run->generation, op)) {
        attempt_over(run, op, result.attempt, std::move(result.outcome));
      } else {
        ++counters_.late_results;
      }
    } else {
      held_.push_back(std::move(result));
    }
  }
  when_ready(run, [this, run] { fire_due(run); });
  finish_loading(run->key, run);
  run_deferred(run);
  note_rest(run);
  settle_memory(run);
}

/// A run that got through its replay and only waits: where its row or its count of crashes says otherwise, that is
/// written down. Whatever crashes from here on, it is not this run.
void Loop::note_rest(const RunPtr& run) {
  if (run->dropped || run->blocked || run->uncommitted != 0 || !run->frame) return;
  if (run->state.is_over() || run->state.has_work()) return;
  if (run->state.crashes > 0 || run->row_status == Status::running) write(run, {});
}

void Loop::mark(RunKey key, const RunNames& names, journal::Seq next, Status status,
                journal::Failure reason) {
  if (const RunPtr run = live(key)) drop(run);
  const detail::RunEnd end{static_cast<RunStatus>(status), {}, reason};
  tell(LogLevel::error, status == Status::dead ? "run.dead" : "run.diverged", names,
       status == Status::dead ? "the run crashed its process too often and is left alone"
                              : "the run's code does not fit its journal",
       {{"code", reason.code}});
  const auto version = next == 0 ? std::nullopt : std::optional<journal::Seq>(next - 1);
  submit(store::MarkRun{key, version, status, std::move(reason)}, [this, key, end](Answer& answer) {
    if (std::holds_alternative<store::Stale>(answer)) {
      ++counters_.stale;
      load(key);
      return;
    }
    over(key, end);
  });
}

void Loop::workflow_added(const std::string& name) {
  told_workflows_ = false;
  if (next_keep_) next_keep_ = now_;
  std::vector<RunKey> waiting;
  std::erase_if(without_worker_, [&](const auto& each) {
    if (each.first.first != name) return false;
    waiting.insert(waiting.end(), each.second.runs.begin(), each.second.runs.end());
    return true;
  });
  if (!workers_) return;
  for (const RunKey key : waiting) load(key);
}

}  // namespace semel::engine
