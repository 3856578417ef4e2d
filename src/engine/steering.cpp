#include "engine/steering.hpp"

#include "engine/loop.hpp"

#include <algorithm>

namespace semel::engine {

using journal::Arrival;
using journal::ArrivalKind;
using journal::Operation;
using journal::Record;
using journal::RequestKind;
using store::RunKey;
using store::Status;
using store::TimerKind;

namespace {

std::string is_now(const store::RunRecord& run) {
  return "run " + run.id + " is " + std::string(to_string(static_cast<RunStatus>(run.status)));
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

Refusal not_found(const std::string& id) { return {"RUN_NOT_FOUND", "there is no run " + id, id}; }

Refusal moved_on(const std::string& id) {
  return {"CONCURRENCY_ERROR", "run " + id + " has moved on", id};
}

Refusal not_active(const store::RunRecord& run) {
  return {"RUN_NOT_ACTIVE", is_now(run) + "; only an unfinished run can be cancelled", run.id};
}

bool is_at(const store::RunRecord& run, const std::optional<std::uint64_t>& expected) {
  return !expected || run.version.value_or(0) == *expected;
}

std::optional<Refusal> refuse_retry(const store::RunRecord& run) {
  switch (run.status) {
    case Status::failed:
    case Status::dead:
    case Status::diverged:
      return std::nullopt;
    case Status::completed:
    case Status::cancelled:
      return Refusal{"RUN_FINISHED",
                     is_now(run) + "; only a failed, dead or diverged run can be retried", run.id};
    default:
      return Refusal{"RUN_ACTIVE", "run " + run.id + " is not over", run.id};
  }
}

std::variant<store::ReopenRun, Refusal> reopening(const store::RunLoaded& loaded, TimePoint now) {
  const std::string id = loaded.run.id;
  auto records = journal::read_journal(loaded.entries);
  if (!records) {
    return Refusal{"JOURNAL_CORRUPT", records.error().message, id};
  }
  Record reopened;
  reopened.entry.arrival.kind = ArrivalKind::reopened;
  reopened.entry.arrival.at = now;
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
  command.now = now;
  command.entries.push_back(journal::encode(reopened.entry));
  command.changes.status = Status::running;
  set_again(command.changes, loaded.run.key, state);
  for (const journal::Lost& begun_anew : again) {
    command.changes.timers_cleared.push_back({loaded.run.key, TimerKind::retry, begun_anew.op, {}});
  }
  if (loaded.run.deadline && *loaded.run.deadline > now) {
    command.changes.timers_set.push_back(
        {loaded.run.key, TimerKind::deadline, "", *loaded.run.deadline});
  } else {
    command.changes.timers_cleared.push_back({loaded.run.key, TimerKind::deadline, "", {}});
  }
  return command;
}

std::variant<Forking, Refusal> forking(const store::RunLoaded& loaded, std::uint64_t seq,
                                       store::NewRun copy, TimePoint now) {
  const journal::Seq first = loaded.run.first_seq;
  if (seq < first || seq >= first + loaded.entries.size()) {
    return Refusal{"VALIDATION_ERROR",
                   "/seq: the journal has " + std::to_string(loaded.entries.size()) +
                       " entries, numbered from " + std::to_string(first),
                   loaded.run.id};
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
    return Refusal{"VALIDATION_ERROR",
                   "/seq: entry " + std::to_string(wanted) + " ends the run; fork before it",
                   loaded.run.id};
  }
  Record forked;
  forked.entry.arrival.kind = ArrivalKind::forked;
  forked.entry.arrival.value = value::encode(loaded.run.id);
  forked.entry.arrival.ops = journal::lost_attempts(journal::fold(*records));
  records->push_back(forked);
  entries.push_back(journal::encode(forked.entry));
  const journal::RunState state = journal::fold(*records);

  store::StartRun start;
  start.run = std::move(copy);
  start.run.hooks = claims_of(state);
  start.first_entry = entries.front();
  start.changes.status = Status::running;
  store::AdvanceRun rest;
  rest.run = start.run.key;
  rest.seq = 1;
  rest.now = now;
  rest.entries.assign(entries.begin() + 1, entries.end());
  set_again(rest.changes, start.run.key, state);
  for (const Record& record : *records) {
    for (const journal::Request& request : record.entry.requests) {
      if (request.kind != RequestKind::attribute) continue;
      rest.changes.attributes.emplace_back(
          request.name, value::decode<std::string>(request.value, value::Mode::journal));
    }
  }
  return Forking{std::move(start), std::move(rest)};
}

std::optional<Waking> waking(const store::RunLoaded& loaded, TimePoint now) {
  const Status status = loaded.run.status;
  if (status != Status::running && status != Status::waiting) return std::nullopt;
  const auto records = journal::read_journal(loaded.entries);
  if (!records) return std::nullopt;
  const journal::RunState state = journal::fold(*records, loaded.run.first_seq);
  if (state.is_over()) return std::nullopt;
  journal::Entry woken;
  woken.arrival.kind = ArrivalKind::woken;
  Waking made;
  for (const Operation& operation : state.pending) {
    if (operation.kind != RequestKind::sleep) continue;
    woken.arrival.ops.push_back({operation.op, 0});
    made.command.changes.timers_cleared.push_back(
        {loaded.run.key, TimerKind::sleep, operation.op, operation.at});
    ++made.sleeps;
  }
  if (made.sleeps == 0) return std::nullopt;
  made.command.run = loaded.run.key;
  made.command.seq = state.next;
  made.command.now = now;
  made.command.entries.push_back(journal::encode(woken));
  made.command.changes.status = Status::running;
  return made;
}

}  // namespace semel::engine
