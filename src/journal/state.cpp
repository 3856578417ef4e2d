#include "journal/state.hpp"

#include <algorithm>

namespace semel::journal {

namespace {

constexpr bool is_progress(ArrivalKind kind) {
  switch (kind) {
    case ArrivalKind::continued:
    case ArrivalKind::started:
    case ArrivalKind::step_completed:
    case ArrivalKind::step_failed:
    case ArrivalKind::attempt_failed:
    case ArrivalKind::timer_fired:
    case ArrivalKind::result_arrived:
    case ArrivalKind::payload_arrived:
    case ArrivalKind::woken:
    case ArrivalKind::reopened:
      return true;
    default:
      return false;
  }
}

/// Applies what the newest of `records` (a reopened entry) takes back to the ones before it.
void mark_void(std::span<Record> records, const Arrival& reopened) {
  records[reopened.at_seq].requests_void = true;
  for (const Lost& taken_back : reopened.ops) {
    for (std::size_t i = records.size(); i-- > 0;) {
      Record& record = records[i];
      const ArrivalKind kind = record.entry.arrival.kind;
      // An outcome nobody knows was written by a recovery, perhaps with others.
      if (kind == ArrivalKind::recovered &&
          std::erase(record.entry.arrival.ops, Lost{taken_back.op, 0}) != 0) {
        break;
      }
      const bool is_failure =
          (kind == ArrivalKind::step_failed || kind == ArrivalKind::result_arrived) &&
          record.entry.arrival.failure.has_value();
      if (is_failure && record.entry.arrival.op == taken_back.op) {
        record.arrival_void = true;
        break;
      }
    }
  }
  // The ends that come from outside the workflow's code have nothing but themselves to take back.
  const ArrivalKind end = records[reopened.at_seq].entry.arrival.kind;
  if (end == ArrivalKind::timed_out || end == ArrivalKind::limit_reached) {
    records[reopened.at_seq].arrival_void = true;
  }
}

}  // namespace

Operation* RunState::find(std::string_view op) {
  const auto found = std::ranges::find(pending, op, &Operation::op);
  return found == pending.end() ? nullptr : &*found;
}

const Operation* RunState::find(std::string_view op) const {
  return const_cast<RunState*>(this)->find(op);
}

OpenHook* RunState::find_hook(std::string_view op) {
  const auto found = std::ranges::find(hooks, op, &OpenHook::op);
  return found == hooks.end() ? nullptr : &*found;
}

const OpenHook* RunState::find_hook(std::string_view op) const {
  return const_cast<RunState*>(this)->find_hook(op);
}

const Operation* RunState::awaiter(std::string_view hook) const {
  const auto found = std::ranges::find_if(pending, [hook](const Operation& operation) {
    return operation.kind == RequestKind::hook_next && operation.name == hook;
  });
  return found == pending.end() ? nullptr : &*found;
}

bool RunState::has_work() const {
  return std::ranges::any_of(pending, [](const Operation& operation) {
    return operation.kind == RequestKind::step && operation.phase != Operation::Phase::backoff;
  });
}

void RunState::remove(std::string_view op) {
  std::erase_if(pending, [op](const Operation& operation) { return operation.op == op; });
}

/// With everything that awaits it: those awaits were told where it went.
void RunState::remove_hook(std::string_view op) {
  std::erase_if(hooks, [op](const OpenHook& hook) { return hook.op == op; });
  std::erase_if(pending, [op](const Operation& operation) {
    return operation.kind == RequestKind::hook_next && operation.name == op;
  });
}

void RunState::apply_outcome(const Arrival& arrival) {
  const Operation* operation = find(arrival.op);
  if (operation == nullptr) {
    if (OpenHook* hook = find_hook(arrival.op); hook != nullptr) {
      if (arrival.failure) {
        remove_hook(arrival.op);
      } else {
        hook->is_open = true;
      }
    }
    return;
  }
  switch (operation->kind) {
    case RequestKind::child:
      if (arrival.failure) break;
      find(arrival.op)->run_id = arrival.name;
      return;
    case RequestKind::hook_next:
    case RequestKind::hook_try:
      if (OpenHook* hook = find_hook(operation->name); hook != nullptr)
        hook->taken = std::max(hook->taken, arrival.at_seq);
      break;
    case RequestKind::hook_close:
      if (arrival.value == "true") remove_hook(std::string{operation->name});
      break;
    default:
      break;
  }
  remove(arrival.op);
}

void RunState::apply_arrival(const Arrival& arrival) {
  if (is_progress(arrival.kind)) crashes = 0;
  Operation* operation = arrival.op.empty() ? nullptr : find(arrival.op);
  switch (arrival.kind) {
    case ArrivalKind::continued:
    case ArrivalKind::started:
      break;
    case ArrivalKind::step_completed:
    case ArrivalKind::step_failed:
    case ArrivalKind::timer_fired:
    case ArrivalKind::result_arrived:
      remove(arrival.op);
      break;
    case ArrivalKind::attempt_failed:
      if (operation == nullptr) break;
      operation->phase = Operation::Phase::backoff;
      operation->at = arrival.at;
      ++operation->failures;
      break;
    case ArrivalKind::retry_due:
      if (operation == nullptr) break;
      operation->phase = Operation::Phase::under_way;
      operation->attempt = arrival.attempt;
      break;
    case ArrivalKind::begun:
      if (operation != nullptr) operation->phase = Operation::Phase::begun;
      break;
    case ArrivalKind::recovered:
      if (arrival.counted) ++crashes;
      [[fallthrough]];
    case ArrivalKind::reopened:
    case ArrivalKind::forked:
      for (const Lost& lost : arrival.ops) {
        if (lost.attempt == 0) {
          remove(lost.op);
        } else if (Operation* again = find(lost.op); again != nullptr) {
          again->phase = Operation::Phase::under_way;
          again->attempt = lost.attempt;
        }
      }
      break;
    case ArrivalKind::outcome:
      apply_outcome(arrival);
      break;
    case ArrivalKind::payload_arrived:
      if (operation == nullptr) break;
      if (OpenHook* hook = find_hook(operation->name); hook != nullptr)
        hook->taken = std::max(hook->taken, arrival.at_seq);
      remove(arrival.op);
      break;
    case ArrivalKind::cancel_requested:
      grace_until = grace_until ? std::min(*grace_until, arrival.at) : arrival.at;
      break;
    case ArrivalKind::woken:
      for (const Lost& sleep : arrival.ops) remove(sleep.op);
      break;
    case ArrivalKind::cancelled:
    case ArrivalKind::timed_out:
    case ArrivalKind::limit_reached:
      ended = true;
      break;
  }
}

void RunState::apply_request(const Request& request) {
  switch (request.kind) {
    case RequestKind::step:
    case RequestKind::sleep:
    case RequestKind::child:
    case RequestKind::spawn:
    case RequestKind::result_of:
    case RequestKind::hook_next:
    case RequestKind::hook_try:
    case RequestKind::hook_close: {
      Operation operation;
      operation.kind = request.kind;
      operation.at_most_once = request.at_most_once;
      operation.attempt = request.attempt;
      operation.op = request.op;
      operation.name = request.name;
      operation.at = request.at;
      if (request.kind == RequestKind::result_of) operation.run_id = request.name;
      pending.push_back(std::move(operation));
      break;
    }
    case RequestKind::hook:
      hooks.push_back({.op = request.op,
                       .token = request.name,
                       .shape = request.value,
                       .is_open = (request.attempt & hook_implied) != 0,
                       .is_random = (request.attempt & hook_random) != 0,
                       .is_webhook = (request.attempt & hook_webhook) != 0});
      break;
    case RequestKind::hook_release:
      remove_hook(request.op);
      break;
    case RequestKind::continue_as_new:
      continued = true;
      break;
    case RequestKind::drop:
      remove(request.op);
      break;
    case RequestKind::abandon:
      if (Operation* operation = find(request.op); operation != nullptr) {
        // One that rests between two attempts is over: it is not tried again.
        if (operation->phase == Operation::Phase::backoff) {
          remove(request.op);
        } else {
          operation->abandoned = true;
        }
      }
      break;
    case RequestKind::completed:
    case RequestKind::failed:
    case RequestKind::cancelled:
      ended = true;
      break;
    case RequestKind::now:
    case RequestKind::uuid:
    case RequestKind::random:
    case RequestKind::version:
    case RequestKind::attribute:
    case RequestKind::emit:
      break;
  }
}

void RunState::apply(const Entry& entry) {
  apply_arrival(entry.arrival);
  for (const Request& request : entry.requests) apply_request(request);
  ++next;
}

base::Result<std::vector<Record>> read_journal(std::span<const std::string> entries) {
  std::vector<Record> records;
  records.reserve(entries.size());
  for (const std::string& bytes : entries) {
    auto entry = decode(bytes);
    if (!entry) return entry.error();
    records.push_back({std::move(*entry)});
    const Arrival& arrival = records.back().entry.arrival;
    if (arrival.kind == ArrivalKind::reopened && arrival.at_seq < records.size() - 1) {
      mark_void(std::span(records).first(records.size() - 1), arrival);
    }
  }
  return records;
}

RunState fold(std::span<const Record> records, Seq first) {
  RunState state;
  state.next = first;
  for (const Record& record : records) {
    if (!record.arrival_void && !record.requests_void) {
      state.apply(record.entry);
      continue;
    }
    Entry visible = record.entry;
    if (record.arrival_void) visible.arrival = {};
    if (record.requests_void) visible.requests.clear();
    state.apply(visible);
  }
  return state;
}

std::vector<Lost> lost_attempts(const RunState& state) {
  std::vector<Lost> lost;
  for (const Operation& operation : state.pending) {
    if (operation.kind != RequestKind::step || operation.phase == Operation::Phase::backoff)
      continue;
    const bool over = operation.abandoned || operation.phase == Operation::Phase::begun;
    lost.push_back({operation.op, over ? 0 : operation.attempt + 1});
  }
  return lost;
}

Failure outcome_unknown(const Operation& operation) {
  return {.code = "OUTCOME_UNKNOWN",
          .message = "step \"" + operation.name +
                     "\" was under way when its process ended; it may have happened or not",
          .details = {},
          .name = operation.name,
          .op = operation.op,
          .attempts = operation.attempt};
}

}  // namespace semel::journal
