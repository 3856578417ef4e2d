// Attempts: begun behind their commit, retried by policy, timed out, heard back from late.
#include "base/assert.hpp"
#include "base/clock.hpp"
#include "engine/loop.hpp"

#include <algorithm>
#include <cmath>

namespace semel::engine {

using journal::Arrival;
using journal::ArrivalKind;
using journal::Operation;
using store::Answer;
using store::RunKey;

namespace {

/// The same on every attempt and never again: the run's instance is fresh at every start, its generation counts
/// continuations, the path is the operation's.
std::string step_id(const LiveRun& run, const std::string& op) {
  const std::string generation = std::to_string(run.generation);
  std::string id;
  id.reserve(run.instance.size() + generation.size() + op.size() + 2);
  return id.append(run.instance).append("-").append(generation).append("-").append(op);
}

}  // namespace

namespace {

thread_local bool is_inside_loop = false;

}  // namespace

bool inside_loop() { return is_inside_loop; }

void Body::ask_to_stop() {
  const bool was = std::exchange(is_inside_loop, true);
  stop.request_stop();
  is_inside_loop = was;
}

StepOutcome outcome_of(const std::exception_ptr& error) {
  StepOutcome outcome;
  outcome.failure = detail::describe(error);
  try {
    std::rethrow_exception(error);
  } catch (const FatalError&) {
    outcome.retryable = false;
  } catch (const RetryableError& retryable) {
    if (retryable.after) outcome.retry_after = base::bounded(*retryable.after);
  } catch (...) {
    return outcome;  // described above, and retried by policy
  }
  return outcome;
}

void Loop::begin_attempt(const RunPtr& run, const std::string& op) {
  if (stopping_ || run->dropped || run->state.is_over() || is_draining(*run)) return;
  const Operation* operation = run->state.find(op);
  if (operation == nullptr || operation->phase == Operation::Phase::backoff) return;
  const detail::StepSpec* spec = run->frame ? run->frame->step(op) : nullptr;
  if (spec != nullptr && spec->body->is_transaction()) {
    when_ready(run, [this, run, op] { transact_step(run, op); });
    return;
  }
  if (!operation->at_most_once || operation->phase == Operation::Phase::begun) {
    hand_out(run, op);
    return;
  }
  when_ready(run, [this, run, op] {
    const bool is_over = run->state.is_over();
    const Operation* still = is_over ? nullptr : run->state.find(op);
    if (still == nullptr || still->phase != Operation::Phase::under_way) return;
    journal::Entry entry;
    entry.arrival.kind = ArrivalKind::begun;
    entry.arrival.op = op;
    entry.arrival.name = still->name;
    entry.arrival.attempt = still->attempt;
    write(run, std::move(entry));
  });
}

void Loop::hand_out(const RunPtr& run, const std::string& op) {
  if (stopping_ || run->dropped || is_draining(*run)) return;
  const Operation* operation = run->state.find(op);
  if (operation == nullptr) return;
  const std::string name = body_name(run->generation, op);
  if (Body* under_way = bodies_.find(run->key, name)) {
    // Never two attempts of one step at a time in one process.
    under_way->next_waits = under_way->attempt != operation->attempt;
    return;
  }
  const detail::StepSpec* spec = run->frame->step(op);
  SEMEL_ASSERT(spec != nullptr);
  Body body;
  body.op = name;
  body.attempt = operation->attempt;
  body.run = run;
  StepJob job;
  job.run = run->key;
  job.op = name;
  job.attempt = operation->attempt;
  job.body = spec->body;
  job.step_id = step_id(*run, op);
  job.run_id = run->id;
  job.workspace = run->workspace;
  const auto progress =
      std::ranges::find(run->progress, op, &std::pair<std::string, std::string>::first);
  if (progress != run->progress.end()) job.progress = progress->second;
  job.stop = body.stop;
  if (spec->options.timeout) {
    body.timeout = base::bounded(*spec->options.timeout);
    body.deadline = now_ + *body.timeout;
    job.deadline = body.deadline;
    add_deadline({body.deadline, run->key, name, body.attempt});
  }
  ++run->frame->bodies_in_flight;
  bodies_.add(run->key, std::move(body));
  host_.run_step(std::move(job));
}

void Loop::step_finished(RunKey key, const std::string& name, std::uint32_t attempt,
                         StepOutcome outcome, TimePoint now) {
  now_ = now;
  Body* found = bodies_.find(key, name);
  if (found == nullptr || found->attempt != attempt) {
    ++counters_.late_results;
    return;
  }
  const Body body = bodies_.take(key, *found);
  Frame& frame = *body.run->frame;
  if (--frame.bodies_in_flight == 0) frame.release_buried();

  const RunPtr run = live(key);
  const std::string op = body_op(name);
  const bool is_old = body.run->generation != (run ? run->generation : body.run->generation);
  // It timed out, or its run went on as new, or failed and was retried meanwhile.
  const bool is_late = is_old || body.superseded || (run && body.next_waits);
  if (!is_late && run && run->frame) {
    attempt_over(run, op, attempt, std::move(outcome));
  } else if (!is_late && (run || uncounted_.contains(key))) {
    // It is being read anew, or the whole store is: the run will be back, and this is its result.
    held_.push_back({key, name, attempt, std::move(outcome)});
    if (!run && !lost_ && opened_ && workers_) load(key);  // it may be somebody else's by now
  } else {
    ++counters_.late_results;
    if (run && body.next_waits && !is_old)
      when_ready(run, [this, run, op] { begin_attempt(run, op); });
  }
  if (run) {
    release_left_hooks(run);
    settle_memory(run);
  } else {
    bodies_.forget(key);
  }
}

/// Branches that lost a race were kept for the sake of a body; with them their hooks went.
void Loop::release_left_hooks(const RunPtr& run) {
  if (!run->frame || !run->frame->has_asked()) return;
  when_ready(run, [this, run] {
    if (run->state.is_over()) return;
    continue_with(run, run->frame->take_asked());
  });
}

void Loop::attempt_over(const RunPtr& run, const std::string& op, std::uint32_t attempt,
                        StepOutcome outcome) {
  if (!run->blocked && run->frame) {
    write_attempt(run, op, attempt, outcome);
    return;
  }
  when_ready(run, [this, run, op, attempt, outcome = std::move(outcome)]() mutable {
    write_attempt(run, op, attempt, outcome);
  });
}

void Loop::write_attempt(const RunPtr& run, const std::string& op, std::uint32_t attempt,
                         StepOutcome& outcome) {
  // Its end may be on its way to the store already.
  const bool is_over = run->state.is_over();
  const Operation* operation = is_over ? nullptr : run->state.find(op);
  if (operation == nullptr || operation->attempt != attempt ||
      operation->phase == Operation::Phase::backoff) {
    ++counters_.late_results;
    return;
  }
  if (stopping_ && outcome.failure && outcome.retryable) {
    // It was asked to stop and may not have failed by itself: the next process begins it anew, as it does after a crash.
    ++counters_.late_results;
    return;
  }
  Arrival arrival;
  arrival.op = op;
  arrival.name = operation->name;
  arrival.attempt = attempt;
  ++(outcome.failure ? counters_.steps_failed : counters_.steps_done);
  if (!outcome.failure && outcome.value.size() > options_.limits.payload_bytes_max) {
    outcome.failure = journal::Failure{
        .code = "PAYLOAD_TOO_LARGE",
        .message = "the result has " + std::to_string(outcome.value.size()) +
                   " bytes; the limit is " + std::to_string(options_.limits.payload_bytes_max),
        .details = {},
        .name = {},
        .op = {}};
    outcome.retryable = false;
  }
  if (!outcome.failure) {
    std::erase_if(run->progress, [&](const auto& reported) { return reported.first == op; });
    arrival.kind = ArrivalKind::step_completed;
    arrival.value = std::move(outcome.value);
    transition(run, std::move(arrival));
    return;
  }
  const detail::StepSpec* spec = run->frame->step(op);
  SEMEL_ASSERT(spec != nullptr);
  const Retry& retry = spec->options.retry;
  const bool again = outcome.retryable && !operation->abandoned && !operation->at_most_once &&
                     static_cast<int>(operation->failures) + 1 < retry.attempts;
  arrival.failure = std::move(outcome.failure);
  if (again) {
    arrival.kind = ArrivalKind::attempt_failed;
    arrival.at = now_ + outcome.retry_after.value_or(backoff(retry, operation->failures));
    tell_failed_attempt(*run, arrival, arrival.at);
    journal::Entry entry;
    entry.arrival = std::move(arrival);
    write(run, std::move(entry));
    return;
  }
  arrival.kind = ArrivalKind::step_failed;
  tell_failed_attempt(*run, arrival, std::nullopt);
  arrival.failure->code = "STEP_FAILED";
  arrival.failure->name = operation->name;
  arrival.failure->op = op;
  arrival.failure->attempts = operation->failures + 1;
  transition(run, std::move(arrival));
}

std::chrono::nanoseconds Loop::backoff(const Retry& retry, std::uint32_t failures) {
  const auto max = std::chrono::duration<double, std::nano>(retry.max);
  const auto initial = std::chrono::duration<double, std::nano>(retry.initial);
  auto delay = std::min(max, initial * std::pow(retry.factor, failures));
  if (retry.jitter) delay *= 0.5 + 0.5 * base::unit_interval(random_);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(delay.count()));
}

/// Lets go of deadlines whose bodies have come back whenever these are the most: steps end long before their time.
void Loop::add_deadline(Deadline deadline) {
  constexpr std::size_t few = 64;
  if (deadlines_.size() > 2 * bodies_.size() + few) {
    decltype(deadlines_) still_awaited;
    for (; !deadlines_.empty(); deadlines_.pop()) {
      const Body* body = bodies_.find(deadlines_.top().run, deadlines_.top().op);
      if (body != nullptr && body->attempt == deadlines_.top().attempt)
        still_awaited.push(deadlines_.top());
    }
    deadlines_ = std::move(still_awaited);
  }
  deadlines_.push(std::move(deadline));
}

/// An attempt that has run out of time fails now; its body is asked to stop and may take as long as it likes.
void Loop::expire_bodies() {
  while (!deadlines_.empty() && deadlines_.top().at <= now_) {
    const Deadline due = deadlines_.top();
    deadlines_.pop();
    Body* found = bodies_.find(due.run, due.op);
    if (found == nullptr || found->attempt != due.attempt || found->superseded) continue;
    if (found->deadline > now_) {
      // A heartbeat moved it.
      deadlines_.push({found->deadline, due.run, due.op, due.attempt});
      continue;
    }
    found->superseded = true;
    found->ask_to_stop();
    const RunPtr run = live(due.run);
    if (!run) continue;
    StepOutcome timed_out;
    timed_out.failure = journal::Failure{
        .code = "TIMEOUT", .message = "the attempt timed out", .details = {}, .name = {}, .op = {}};
    if (due.op != body_name(run->generation, body_op(due.op))) continue;
    if (run->frame) {
      attempt_over(run, body_op(due.op), due.attempt, std::move(timed_out));
    } else {
      // It is being read anew. As any result it is delivered once the run is back, which does not begin the attempt again
      // by then, also if its body has come back.
      held_.push_back({due.run, due.op, due.attempt, std::move(timed_out)});
    }
  }
}

void Loop::heartbeat(RunKey key, const std::string& name, std::uint32_t attempt,
                     std::string progress, TimePoint now) {
  now_ = now;
  Body* found = bodies_.find(key, name);
  if (found == nullptr || found->attempt != attempt || found->superseded) return;
  if (found->timeout) {
    found->deadline =
        now_ + *found->timeout;  // its place in the queue is found wrong when it is due
  }
  const RunPtr run = live(key);
  const std::string op = body_op(name);
  if (run && name != body_name(run->generation, op)) return;  // of an old generation
  if (progress.empty() || !run || progress.size() > options_.limits.payload_bytes_max) return;
  const auto known =
      std::ranges::find(run->progress, op, &std::pair<std::string, std::string>::first);
  if (known != run->progress.end()) {
    known->second = progress;
  } else {
    run->progress.emplace_back(op, progress);
  }
  submit(store::SaveProgress{key, op, std::move(progress)}, [](Answer&) {});
}

}  // namespace semel::engine
