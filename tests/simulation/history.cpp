#include "tests/simulation/history.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace semel::sim {

using journal::Arrival;
using journal::ArrivalKind;
using journal::Entry;
using journal::Operation;
using journal::RequestKind;

namespace {

Violation broken(std::string invariant, std::string message) {
  return {std::move(invariant), std::move(message)};
}

/// "entry 4 (step_completed, operation 1.2)"
std::string name_of(std::size_t seq, const Arrival& arrival) {
  return fmt::format("entry {} ({}{}{})", seq, journal::to_string(arrival.kind),
                     arrival.op.empty() ? "" : ", operation ", arrival.op);
}

}  // namespace

const History::Step* History::step(const std::string& op) const {
  const auto found = steps_.find(op);
  return found == steps_.end() ? nullptr : &found->second;
}

std::optional<Violation> History::append(journal::Seq seq, TimePoint at, const std::string& bytes) {
  if (seq != entries_.size()) {
    return broken("S1",
                  fmt::format("an entry at position {}; the next is {}", seq, entries_.size()));
  }
  auto entry = journal::decode(bytes);
  if (!entry) return broken("S1", fmt::format("entry {}: {}", seq, entry.error().message));
  const bool reopened = entry->arrival.kind == ArrivalKind::reopened;
  if (state_.ended && !reopened) {
    return broken("S9", name_of(seq, entry->arrival) + " behind the end");
  }

  if (auto wrong = check_arrival(entry->arrival, at)) {
    wrong->message = name_of(seq, entry->arrival) + ": " + wrong->message;
    return wrong;
  }
  entries_.push_back(bytes);
  if (reopened) {
    ++reopens_;
    rebuild(entry->arrival.at_seq);
  } else {
    state_.apply(*entry);
  }
  auto wrong = note_requests(*entry);
  note(*entry);
  if (state_.continued) {
    // What follows has nothing of what was before.
    state_ = {};
    state_.next = entries_.size();
    steps_.clear();
    generation_begins_ = entries_.size();
    awaits_continuation_ = true;
  }
  last_ = *std::move(entry);
  return wrong;
}

std::optional<Violation> History::check_arrival(const Arrival& arrival, TimePoint at) {
  switch (arrival.kind) {
    case ArrivalKind::timer_fired:
    case ArrivalKind::cancelled:
    case ArrivalKind::woken:
      return check_timer(arrival, at);
    case ArrivalKind::retry_due:
      if (auto wrong = check_timer(arrival, at)) return wrong;
      return check_attempt(arrival);
    case ArrivalKind::step_completed:
    case ArrivalKind::step_failed:
    case ArrivalKind::attempt_failed:
    case ArrivalKind::begun:
      return check_attempt(arrival);
    case ArrivalKind::recovered:
    case ArrivalKind::reopened:
    case ArrivalKind::forked:
      return begin_anew(arrival);
    default:
      return std::nullopt;
  }
}

/// S10: nothing fires before it is due, or twice.
std::optional<Violation> History::check_timer(const Arrival& arrival, TimePoint at) const {
  if (arrival.kind == ArrivalKind::cancelled) {
    const bool by_grace = arrival.failure && arrival.failure->message.ends_with("grace is over");
    if (by_grace && (!state_.grace_until || *state_.grace_until > at)) {
      return broken("S10", "its grace is not over");
    }
    return std::nullopt;
  }
  if (arrival.kind == ArrivalKind::woken) {
    const bool all_asleep = std::ranges::all_of(arrival.ops, [&](const journal::Lost& sleep) {
      const Operation* operation = state_.find(sleep.op);
      return operation != nullptr && operation->kind == RequestKind::sleep;
    });
    return all_asleep ? std::nullopt : std::optional{broken("S10", "it wakes what is not asleep")};
  }
  const Operation* operation = state_.find(arrival.op);
  if (operation == nullptr) return broken("S10", "nothing waits for this timer (any more)");
  const bool has_timer =
      arrival.kind == ArrivalKind::timer_fired
          ? operation->kind == RequestKind::sleep
          : operation->kind == RequestKind::step && operation->phase == Operation::Phase::backoff;
  if (!has_timer) return broken("S10", "this operation has no timer");
  if (operation->at > at) {
    return broken("S10",
                  fmt::format("it is {} ms early",
                              std::chrono::duration_cast<Millis>(operation->at - at).count()));
  }
  return std::nullopt;
}

/// S4: results, failures and beginnings belong to the attempt under way; a step settles once.
std::optional<Violation> History::check_attempt(const Arrival& arrival) {
  const auto found = steps_.find(arrival.op);
  if (found == steps_.end()) return broken("S4", "no such step was asked for");
  Step& step = found->second;
  if (step.settled) return broken("S4", "the step has settled before");
  const bool is_next = arrival.kind == ArrivalKind::retry_due;
  const std::uint32_t right = is_next ? step.attempt + 1 : step.attempt;
  if (arrival.attempt != right) {
    return broken("S4", fmt::format("attempt {}, it should be {}", arrival.attempt, right));
  }
  switch (arrival.kind) {
    case ArrivalKind::retry_due:
      if (step.at_most_once) return broken("S5", "an at_most_once step is tried again");
      step.attempt = arrival.attempt;
      ++step.retries;
      break;
    case ArrivalKind::begun:
      if (!step.at_most_once || step.begun) return broken("S5", "it begins a second time");
      step.begun = true;
      break;
    case ArrivalKind::step_completed:
    case ArrivalKind::step_failed:
      step.settled = true;
      step.failed = arrival.kind == ArrivalKind::step_failed;
      break;
    default:
      break;
  }
  return std::nullopt;
}

/// S4 and S5: attempts that begin anew get a number never used; what may have happened at most once does not.
std::optional<Violation> History::begin_anew(const Arrival& arrival) {
  const bool by_operator = arrival.kind == ArrivalKind::reopened;
  for (const journal::Lost& lost : arrival.ops) {
    const auto found = steps_.find(lost.op);
    if (found == steps_.end()) {
      if (by_operator) continue;  // the failure of another run, taken back
      return broken("S4", fmt::format("operation {} is no step", lost.op));
    }
    Step& step = found->second;
    if (step.settled && !(by_operator && step.failed)) {
      return broken("S3", fmt::format("step {} has its result and begins anew", lost.op));
    }
    if (lost.attempt == 0) {
      step.settled = true;
      unknown_step_ = unknown_step_ || step.at_most_once;
      continue;
    }
    if (lost.attempt <= step.attempt) {
      return broken("S4", fmt::format("step {} gets attempt {} after attempt {}", lost.op,
                                      lost.attempt, step.attempt));
    }
    if (step.at_most_once && step.begun && !step.settled) {
      return broken("S5", fmt::format("at_most_once step {} had begun and begins anew", lost.op));
    }
    step.attempt = lost.attempt;
    step.settled = false;
    step.begun = false;
    ++step.retries;
  }
  return std::nullopt;
}

std::optional<Violation> History::note_requests(const Entry& entry) {
  for (const journal::Request& request : entry.requests) {
    if (request.kind != RequestKind::step) continue;
    const auto [added, is_new] = steps_.try_emplace(request.op);
    if (!is_new) return broken("S4", fmt::format("step {} is asked for twice", request.op));
    added->second.attempt = request.attempt;
    added->second.at_most_once = request.at_most_once;
  }
  return std::nullopt;
}

void History::note(const Entry& entry) {
  const Arrival& arrival = entry.arrival;
  forked_ = forked_ || arrival.kind == ArrivalKind::forked;
  step_failed_ = step_failed_ || arrival.kind == ArrivalKind::step_failed;
  const bool from_other =
      arrival.kind == ArrivalKind::result_arrived || arrival.kind == ArrivalKind::outcome;
  other_failed_ = other_failed_ || (from_other && arrival.failure.has_value());
  if (arrival.kind == ArrivalKind::woken) {
    woken_.emplace(entries_.size() - 1, static_cast<int>(arrival.ops.size()));
  }
  switch (arrival.kind) {
    case ArrivalKind::outcome:
      // The outcome of a child that was made settles nothing.
      awaits_continuation_ = awaits_continuation_ || state_.find(arrival.op) == nullptr;
      break;
    case ArrivalKind::reopened:
    case ArrivalKind::forked:
      awaits_continuation_ = true;
      break;
    case ArrivalKind::recovered:
      break;
    default:
      // Whoever wrote this had gone on before.
      awaits_continuation_ = false;
  }
}

/// A `reopened` entry takes back parts of older ones: folds all of it anew. What the void end asked for never began and
/// may be asked for again.
void History::rebuild(journal::Seq void_end) {
  const auto records = journal::read_journal(std::span(entries_).subspan(generation_begins_));
  state_ = journal::fold(*records, generation_begins_);
  if (void_end + 1 >= records->size()) return;
  for (const journal::Request& request : (*records)[void_end].entry.requests) {
    if (request.kind == RequestKind::step) steps_.erase(request.op);
  }
}

}  // namespace semel::sim
