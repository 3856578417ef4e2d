#include "tests/simulation/checks.hpp"

#include "tests/simulation/workflows.hpp"

#include <semel/value.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace semel::sim {

using journal::ArrivalKind;
using journal::Operation;
using journal::RequestKind;
using store::TimerKind;

namespace {

std::string_view name_of(Status status) { return to_string(static_cast<RunStatus>(status)); }

/// "run 01J9… (chain)"
std::string name_of(const Known& run) {
  return fmt::format("run {} ({})", run.id(), run.row.workflow);
}

bool is_timed(const Operation& operation) {
  return operation.kind == RequestKind::sleep ||
         (operation.kind == RequestKind::step && operation.phase == Operation::Phase::backoff);
}

bool waits_for_run(const Operation& operation) {
  return operation.kind == RequestKind::child || operation.kind == RequestKind::result_of;
}

}  // namespace

Checks::Checks(std::shared_ptr<store::sqlite::Database> database, const Outside& outside,
               int crashes_max)
    : hooks_(database),
      mirror_(std::move(database)),
      outside_(outside),
      crashes_max_(crashes_max) {}

void Checks::fail(std::string invariant, std::string message) {
  if (!violation_) violation_ = Violation{std::move(invariant), std::move(message)};
}

Known* Checks::find(const std::string& workspace, const std::string& id) {
  const auto found = by_id_.find({mirror_.workspace(workspace), id});
  return found == by_id_.end() ? nullptr : &runs_.at(found->second);
}

const Known* Checks::find(RunKey key) const {
  if (const auto found = runs_.find(key); found != runs_.end()) return &found->second;
  const auto gone = gone_.find(key);
  return gone == gone_.end() ? nullptr : &gone->second;
}

bool Checks::has_rival(const Known& run) const {
  return !fleeting_.empty() || std::ranges::any_of(runs_, [&](const auto& other) {
    return other.second.made_in == run.made_in && other.first != run.key &&
           other.second.row.key == run.row.key;
  });
}

bool Checks::is_swept(const std::string& workspace, const std::string& id) {
  const std::int64_t number = mirror_.workspace(workspace);
  return std::ranges::any_of(gone_, [&](const auto& run) {
    return run.second.row.workspace == number && run.second.id() == id;
  });
}

void Checks::cancel_asked(const std::string& workspace, const std::string& id) {
  Known* run = find(workspace, id);
  if (run == nullptr) return;
  run->cancel_asked = true;
  // Children are younger than their parents: one pass finds the whole family.
  for (auto& [key, other] : runs_) {
    if (!other.row.parent) continue;
    const Known* above = find(*other.row.parent);
    if (above != nullptr && above->cancel_asked) other.cancel_asked = true;
  }
}

bool Checks::has_cancel_in_inbox(RunKey run) {
  return std::ranges::any_of(mirror_.inbox(), [run](const InboxRow& item) {
    return item.run == run && item.kind == store::InboxItem::Kind::cancel;
  });
}

// ---------------------------------------------------------------------------------------------- after a commit

void Checks::after_commit(TimePoint shown, bool swept) {
  ++commit_;
  const Mirror::Changes changes = mirror_.take_changes();
  for (const std::string& what : changes.rewritten) fail("S1", what);
  std::map<RunKey, Row> before;
  for (const auto& [key, row] : changes.runs) {
    if (const auto known = runs_.find(key); known != runs_.end())
      before.emplace(key, known->second.row);
  }
  std::erase_if(fleeting_, [&](const auto& run) { return !is_news(run.second); });
  take_in(changes, shown);
  append(changes.entries, shown);
  for (const auto& [key, row] : changes.runs) {
    const auto known = runs_.find(key);
    if (known == runs_.end()) continue;
    const auto old = before.find(key);
    const Row* row_before = old == before.end() ? nullptr : &old->second;
    check_row(known->second, row_before);
    check_key(known->second, row_before, shown, swept);
  }
  check_timers();
  check_waits();
  if (const auto wrong = hooks_.after_commit(changes.entries, !changes.removed.empty()))
    fail(wrong->invariant, wrong->message);
  if (const auto orphans = mirror_.orphans(); !orphans.empty()) {
    fail("L1", fmt::format("nothing will ever wake run {}, which is {}", orphans.front().id,
                           name_of(orphans.front().status)));
  }
}

void Checks::take_in(const Mirror::Changes& changes, TimePoint shown) {
  for (const auto& [key, row] : changes.runs) {
    if (row && !runs_.contains(key)) created(key, *row);
  }
  for (const auto& [key, row] : changes.runs) {
    auto found = runs_.find(key);
    if (found == runs_.end()) {
      fleeting_.emplace(key, commit_);
      found = made_and_removed(key, changes);
      if (found == runs_.end()) continue;
    }
    Known& run = found->second;
    if (!row) {
      removed(run, changes, shown);
      continue;
    }
    if (row->is_over() && !run.row.is_over()) run.ended_in = commit_;
    run.row = *row;
    note_claims(run);
    if (row->is_over()) {
      open_.erase(key);
    } else {
      open_.insert(key);
    }
  }
}

void Checks::created(RunKey key, const Row& row) {
  if (gone_.contains(key)) fail("S15", fmt::format("run key {} is used a second time", key));
  Known run;
  run.key = key;
  run.made_in = commit_;
  run.row.workspace = row.workspace;
  run.row.id = row.id;
  if (row.key) {
    const auto holders = holders_.find({row.workspace, *row.key});
    if (holders != holders_.end() && !holders->second.empty())
      run.key_before = *holders->second.begin();
  }
  if (const auto other = by_id_.find({row.workspace, row.id}); other != by_id_.end()) {
    run.id_before = other->second;
  }
  runs_.emplace(key, std::move(run));
}

/// A run that nobody but a trigger saw went by the rules that hold for all. None where it never was: taken back with its
/// savepoint, or refused for its token. (Whoever is told that it was made finds no trace of it.)
std::map<RunKey, Known>::iterator Checks::made_and_removed(RunKey key,
                                                           const Mirror::Changes& changes) {
  const auto last = changes.removed.find(key);
  if (last == changes.removed.end() || !is_end(last->second.status)) return runs_.end();
  if (gone_.contains(key)) fail("S15", fmt::format("run key {} is used a second time", key));
  Known run;
  run.key = key;
  run.made_in = commit_;
  run.row.workspace = last->second.workspace;
  run.row.id = last->second.id;
  return runs_.emplace(key, std::move(run)).first;
}

void Checks::removed(Known& run, const Mirror::Changes& changes, TimePoint shown) {
  const bool made_room = std::ranges::any_of(changes.runs, [&](const auto& other) {
    return other.second && other.second->id == run.id() && other.first != run.key;
  });
  if (const auto last = changes.removed.find(run.key); last != changes.removed.end()) {
    // It may have been reopened by the same batch, too: then it has ended anew.
    if (!run.row.is_over() || run.row.keep_until != last->second.keep_until) run.ended_in = commit_;
    run.row.status = last->second.status;
    run.row.key_until = last->second.key_until;
    run.row.keep_until = last->second.keep_until;
  }
  const bool is_due = run.row.keep_until && *run.row.keep_until <= shown;
  if (!run.row.is_over()) fail("S15", name_of(run) + " is gone and was not over");
  if (!is_due && !made_room) fail("S15", name_of(run) + " was swept before its time");
  if (const auto rows = mirror_.leftovers(run.key); rows != 0) {
    fail("S15", fmt::format("{} is gone and {} rows of it are left", name_of(run), rows));
  }
  const RunKey key = run.key;
  if (const auto mine = by_id_.find({run.row.workspace, run.id()});
      mine != by_id_.end() && mine->second == key) {
    by_id_.erase(mine);
  }
  if (run.row.key) holders_[{run.row.workspace, *run.row.key}].erase(key);
  open_.erase(key);
  gone_.emplace(key, std::move(run));
  runs_.erase(key);
}

void Checks::note_claims(const Known& run) {
  by_id_[{run.row.workspace, run.id()}] = run.key;
  if (!run.row.key) return;
  auto& holders = holders_[{run.row.workspace, *run.row.key}];
  if (run.row.holds_key) {
    holders.insert(run.key);
  } else {
    holders.erase(run.key);
  }
}

void Checks::append(const std::vector<NewEntry>& entries, TimePoint shown) {
  // A fork begins with a copy of another run's entries; their results are not its own.
  std::map<RunKey, std::pair<journal::Seq, std::string>> forked_at;
  for (const NewEntry& entry : entries) {
    const auto decoded = journal::decode(entry.bytes);
    if (decoded && decoded->arrival.kind == ArrivalKind::forked) {
      forked_at[entry.run] = {
          entry.seq, value::decode<std::string>(decoded->arrival.value, value::Mode::journal)};
    }
  }
  for (const NewEntry& entry : entries) {
    const auto found = runs_.find(entry.run);
    if (found == runs_.end()) {
      if (!gone_.contains(entry.run) && !fleeting_.contains(entry.run))
        fail("S1", fmt::format("an entry of run key {}, which is not there", entry.run));
      continue;
    }
    Known& run = found->second;
    const auto fork = forked_at.find(entry.run);
    const bool is_copy = fork != forked_at.end() && entry.seq < fork->second.first;
    // What was true then is not checked again for the copy: its times are not its own.
    const TimePoint at = is_copy ? TimePoint::max() : entry.at;
    if (const auto wrong = run.history.append(entry.seq, at, entry.bytes)) {
      fail(wrong->invariant, name_of(run) + ": " + wrong->message);
      return;
    }
    if (entry.at > shown)
      fail("S10", fmt::format("{}: entry {} is from the future", name_of(run), entry.seq));
    const journal::Arrival& arrival = run.history.last().arrival;
    if (is_copy) continue;
    if (arrival.kind == ArrivalKind::reopened) {
      run.reopened_in = commit_;
      if (run.row.is_over()) run.ended_in = commit_;  // over as before, and yet anew
      run.missed_deadline = run.row.deadline && *run.row.deadline <= entry.at;
    }
    if (arrival.kind == ArrivalKind::forked) check_copy(run, entry.seq, fork->second.second);
    if (arrival.kind == ArrivalKind::cancelled) check_cancelled(run);
    // Retried, it goes on at once: its deadline may have ended it before it ever began.
    const bool is_delayed =
        run.start_at && run.reopened_in == 0 && run.history.is_first_generation();
    if (arrival.kind == ArrivalKind::started && is_delayed && *run.start_at > entry.at) {
      fail("S10", name_of(run) + " began before its delay was over");
    }
    if (arrival.kind == ArrivalKind::timed_out &&
        (!run.row.deadline || *run.row.deadline > entry.at)) {
      fail("S10", name_of(run) + " failed by its deadline before it");
    }
    check_result(run, entry);
  }
}

void Checks::check_copy(const Known& run, std::size_t forked_at, const std::string& source) {
  const auto other = by_id_.find({run.row.workspace, source});
  // Swept since, or its id was chosen and is another run's by now.
  if (other == by_id_.end() || source.starts_with("id-")) return;
  const auto& original = runs_.at(other->second).history.entries();
  const auto& copy = run.history.entries();
  for (std::size_t i = 0; i < forked_at; ++i) {
    if (i >= original.size() || original[i] != copy[i]) {
      fail("S1", fmt::format("{}: entry {} is not what run {} has there", name_of(run), i, source));
      return;
    }
  }
}

/// S4: what is recorded is what the body of this very attempt came to; a time-out is not recorded before its time.
void Checks::check_result(const Known& run, const NewEntry& entry) {
  const journal::Arrival& arrival = run.history.last().arrival;
  const bool completed = arrival.kind == ArrivalKind::step_completed;
  if (!completed && arrival.kind != ArrivalKind::step_failed &&
      arrival.kind != ArrivalKind::attempt_failed)
    return;
  const auto wrong = [&](const std::string& what) {
    fail("S4", fmt::format("{}: entry {} records attempt {} of step {}, {}", name_of(run),
                           entry.seq, arrival.attempt, arrival.op, what));
  };
  if (arrival.name == Workflows::transaction_name) return;  // the store's: see check_ledger
  const Outside::Step* step = outside_.find(step_id(run, arrival.op));
  const auto attempt =
      step == nullptr ? decltype(step->attempts.end()){} : step->attempts.find(arrival.attempt);
  if (step == nullptr || attempt == step->attempts.end()) return wrong("which never began");
  const auto& outcome = attempt->second.outcome;
  if (!completed && arrival.failure->message == "the attempt timed out") {
    if (attempt->second.deadline > entry.at && !attempt->second.was_due)
      wrong("whose time is not over");
    return;
  }
  if (!outcome) return wrong("which has not returned");
  if (outcome->failure.has_value() == completed) return wrong("which came to the opposite");
  if (completed && outcome->value != arrival.value) wrong("whose result was " + outcome->value);
  if (!completed && outcome->failure->message != arrival.failure->message)
    wrong("which failed otherwise");
}

// ---------------------------------------------------------------------------------------------- rows

void Checks::check_row(const Known& run, const Row* before) {
  const Row& row = run.row;
  const bool reopened = run.reopened_in == commit_;
  if (before != nullptr && before->is_over() && !reopened) {
    Row same = row;
    // Its key may be taken from it, or forgotten.
    same.holds_key = before->holds_key;
    same.key_until = before->key_until;
    if (same != *before)
      fail("S9",
           fmt::format("{} was {} and its row changed", name_of(run), name_of(before->status)));
  }
  if (reopened && before != nullptr &&
      (before->status == Status::completed || before->status == Status::cancelled)) {
    fail("S9", fmt::format("{} was {} and is open again", name_of(run), name_of(before->status)));
  }
  if (before != nullptr && !before->is_over() && !before->is_driven() && row.is_driven() &&
      !reopened) {
    fail("S9",
         fmt::format("{} was {} and goes on by itself", name_of(run), name_of(before->status)));
  }

  const journal::RunState& state = run.history.state();
  if (row.is_over() != state.ended) {
    fail("S9", fmt::format("{} is {} in its row, its journal {}", name_of(run), name_of(row.status),
                           state.ended ? "has ended" : "has not ended"));
  }
  if (row.is_over()) check_end(run);
  const bool has_work = state.has_work() || run.history.awaits_continuation();
  const bool is_delayed = row.status == Status::pending && run.history.entries().empty();
  if (row.is_driven() && has_work && row.status != Status::running && !is_delayed) {
    fail("L1",
         fmt::format("{} has work for its owner and is {}", name_of(run), name_of(row.status)));
  }
  if (row.status == Status::dead && static_cast<int>(state.crashes) + 1 < crashes_max_) {
    fail("L4", fmt::format("{} is dead after {} crashes", name_of(run), state.crashes + 1));
  }
  if (row.status == Status::diverged && row.workflow != "drifting") {
    const auto failure = journal::decode_failure(row.failure);
    fail("S12", fmt::format("{} diverged: {}", name_of(run), failure ? failure->message : "?"));
  }
}

void Checks::check_end(const Known& run) {
  const journal::Entry& last = run.history.last();
  Status right = Status::failed;
  std::string output;
  if (last.arrival.kind == ArrivalKind::cancelled) {
    right = Status::cancelled;
  } else if (!last.requests.empty()) {
    const journal::Request& end = last.requests.back();
    if (end.kind == RequestKind::completed) right = Status::completed;
    if (end.kind == RequestKind::cancelled) right = Status::cancelled;
    output = end.value;
  }
  if (run.row.status != right || run.row.output != output) {
    fail("S9",
         fmt::format("{} is {} with \"{}\" in its row, {} with \"{}\" in its journal", name_of(run),
                     name_of(run.row.status), run.row.output, name_of(right), output));
  }
}

/// S11: one holder; an unfinished run is never without its key, a finished one only after its time, or if another has it.
void Checks::check_key(const Known& run, const Row* before, TimePoint shown, bool swept) {
  if (!run.row.key) return;
  const auto& holders = holders_[{run.row.workspace, *run.row.key}];
  if (holders.size() > 1) {
    fail("S11", fmt::format("key {} has {} holders, {} among them", *run.row.key, holders.size(),
                            name_of(run)));
  }
  if (!run.row.is_over() && !run.row.holds_key) {
    fail("S11", fmt::format("{} is not over and has lost its key {}", name_of(run), *run.row.key));
  }
  const bool lost = before != nullptr && before->holds_key && !run.row.holds_key;
  const bool is_time = before != nullptr && before->key_until && *before->key_until <= shown;
  // It may have ended and been forgotten by one batch; or who took it over was replaced under its id.
  const bool nobody_knows = (run.ended_in == commit_ && swept) || !fleeting_.empty();
  if (lost && holders.empty() && !is_time && !nobody_knows) {
    fail("S11", fmt::format("{} lost its key {} before its time", name_of(run), *run.row.key));
  }
}

/// L3: an immediate cancel reaches the unfinished children in the same commit.
void Checks::check_cancelled(const Known& run) {
  if (run.history.state().grace_until) return;
  for (const RunKey key : open_) {
    const Known& child = runs_.at(key);
    if (child.row.parent == run.key) {
      fail("L3", fmt::format("{} was cancelled, its child {} was not", name_of(run), child.id()));
    }
  }
}

// ---------------------------------------------------------------------------------------------- reasons to wake

std::vector<store::Timer> Checks::expected_timers(const std::vector<store::Timer>& actual) const {
  std::vector<store::Timer> expected;
  for (const RunKey key : open_) {
    const Known& run = runs_.at(key);
    const journal::RunState& state = run.history.state();
    for (const Operation& operation : state.pending) {
      if (!is_timed(operation)) continue;
      const TimerKind kind =
          operation.kind == RequestKind::sleep ? TimerKind::sleep : TimerKind::retry;
      expected.push_back({key, kind, operation.op, operation.at});
    }
    if (run.row.status == Status::pending) {
      // When it is due stands nowhere else.
      const auto start = std::ranges::find_if(actual, [key](const store::Timer& timer) {
        return timer.run == key && timer.kind == TimerKind::start;
      });
      expected.push_back(
          {key, TimerKind::start, "", start == actual.end() ? TimePoint{} : start->due});
    }
    if (run.row.deadline && !run.missed_deadline)
      expected.push_back({key, TimerKind::deadline, "", *run.row.deadline});
    if (state.grace_until) expected.push_back({key, TimerKind::grace, "", *state.grace_until});
  }
  std::ranges::sort(expected, {}, [](const store::Timer& timer) {
    return std::tie(timer.run, timer.kind, timer.op);
  });
  return expected;
}

/// L1: a timer is there if and only if the journal says that something waits for it.
void Checks::check_timers() {
  const std::vector<store::Timer> actual = mirror_.timers();
  for (const store::Timer& timer : actual) {
    if (timer.kind == TimerKind::start && runs_.contains(timer.run))
      runs_.at(timer.run).start_at = timer.due;
  }
  const std::vector<store::Timer> expected = expected_timers(actual);
  if (actual == expected) return;
  const auto [there, wanted] = std::ranges::mismatch(actual, expected);
  const bool is_extra =
      wanted == expected.end() || (there != actual.end() && there->run < wanted->run);
  const store::Timer& timer = is_extra ? *there : *wanted;
  const Known* run = find(timer.run);
  fail("L1",
       fmt::format("{}: its timer (kind {}, operation {}) is {}",
                   run == nullptr ? std::to_string(timer.run) : name_of(*run),
                   static_cast<int>(timer.kind), timer.op.empty() ? "none" : timer.op,
                   is_extra ? "there and nothing waits for it" : "missing, or at another time"));
}

/// L1: whoever waits for another run is entered with it, or has its result in the inbox.
void Checks::check_waits() {
  std::set<std::pair<RunKey, std::string>> entered;
  for (const Waiter& waiter : mirror_.waiters()) {
    if (!open_.contains(waiter.run) || !open_.contains(waiter.target)) {
      fail("L1", fmt::format("run key {} waits for {}, and one of them is over", waiter.run,
                             waiter.target));
      return;
    }
    entered.emplace(waiter.run, waiter.op);
  }
  for (const InboxRow& item : mirror_.inbox()) {
    if (!open_.contains(item.run)) {
      fail("L1", fmt::format("the inbox of run key {}, which is over, is not empty", item.run));
      return;
    }
    if (item.kind == store::InboxItem::Kind::result) entered.emplace(item.run, item.op);
  }
  for (const RunKey key : open_) {
    const Known& run = runs_.at(key);
    for (const Operation& operation : run.history.state().pending) {
      if (!waits_for_run(operation) || entered.contains({key, operation.op})) continue;
      fail("L1", fmt::format("{}: operation {} waits for run {}, and nothing will tell it",
                             name_of(run), operation.op, operation.run_id));
      return;
    }
  }
}

// ---------------------------------------------------------------------------------------------- bodies

/// S3: the journal has asked for exactly this attempt, and its result is not recorded. S5: it is the only one.
void Checks::body_handed_out(const engine::StepJob& job, bool in_flight) {
  const auto wrong = [&](std::string invariant, const std::string& what) {
    fail(std::move(invariant), fmt::format("run {}: the body of step {} attempt {} {}", job.run_id,
                                           job.op, job.attempt, what));
  };
  const auto found = runs_.find(job.run);
  if (found == runs_.end()) {
    const Known* gone = find(job.run);
    const bool just_gone =
        fleeting_.contains(job.run) || (gone != nullptr && is_news(gone->ended_in));
    return just_gone ? void() : wrong("S3", "begins for a run that is not there");
  }
  const Known& run = found->second;
  const History::Step* step = run.history.step(job.op);
  if (step == nullptr) return wrong("S3", "begins and was not asked for");
  if (step->settled) return wrong("S3", "begins although its result is recorded");
  if (step->attempt != job.attempt)
    return wrong("S3", fmt::format("begins, attempt {} was asked for", step->attempt));
  if (step->at_most_once && !step->begun) return wrong("S3", "begins before its begun entry");
  // Cancelled before anybody has heard that it was asked for: it begins, and is asked to stop.
  if (run.row.is_over() && !is_news(run.ended_in))
    return wrong("S3", "begins although the run is over");
  if (job.step_id != step_id(run, job.op)) return wrong("S5", "has the id " + job.step_id);
  const Outside::Step* outside = outside_.find(job.step_id);
  if (outside != nullptr && outside->attempts.contains(job.attempt))
    return wrong("S3", "begins a second time");
  if (in_flight) wrong("S5", "begins while another attempt is under way");
}

// ---------------------------------------------------------------------------------------------- everything

/// S5: what a transaction wrote is there once, if and only if its entry is.
void Checks::check_ledger() {
  const auto lines = mirror_.ledger();
  for (const auto& [line, count] : lines) {
    if (count > 1) return fail("S5", fmt::format("the ledger has line {} {} times", line, count));
  }
  for (const auto& [key, run] : runs_) {
    if (run.row.workflow != "clerk") continue;
    std::string line;
    std::string op;
    bool is_recorded = false;
    for (const std::string& bytes : run.history.entries()) {
      const auto entry = journal::decode(bytes);
      is_recorded |= entry->arrival.kind == ArrivalKind::outcome && entry->arrival.op == op;
      for (const auto& request : entry->requests) {
        if (request.kind == RequestKind::uuid) line = request.value;
        if (request.name == Workflows::transaction_name) op = request.op;
      }
    }
    if (is_recorded != lines.contains(line)) {
      return fail("S5", fmt::format("{}: its transaction is {}recorded, and what it wrote is {}",
                                    name_of(run), is_recorded ? "" : "not ",
                                    is_recorded ? "missing" : "there"));
    }
  }
}

void Checks::everything() {
  check_ledger();
  if (const auto wrong = hooks_.everything()) return fail(wrong->invariant, wrong->message);
  const auto rows = mirror_.all_runs();
  for (const auto& [key, run] : runs_) {
    const auto row = rows.find(key);
    if (row == rows.end()) return fail("S6", name_of(run) + " was committed and is gone");
    if (row->second != run.row)
      return fail("S6", name_of(run) + ": its row is not as it was committed");
  }
  if (rows.size() != runs_.size()) fail("S6", "there is a run that was never committed");
  const auto journals = mirror_.all_journals();
  for (const auto& [key, run] : runs_) {
    const auto found = journals.find(key);
    const std::vector<std::string> none;
    const auto& there = found == journals.end() ? none : found->second;
    if (there == run.history.entries()) continue;
    const auto differs = std::ranges::mismatch(there, run.history.entries());
    return fail("S1", fmt::format("{}: entry {} was committed and is gone or changed", name_of(run),
                                  differs.in1 - there.begin()));
  }
}

}  // namespace semel::sim
