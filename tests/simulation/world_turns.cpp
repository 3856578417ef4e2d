// What can happen next in a simulated world, one event at a time.
#include "idempotency/port.hpp"
#include "tests/simulation/kinds.hpp"
#include "tests/simulation/world.hpp"

#include <algorithm>

namespace semel::sim {

using namespace std::chrono_literals;

namespace {

bool writes(const store::Command& command) {
  return !std::holds_alternative<store::LoadRun>(command) &&
         !std::holds_alternative<store::ReadInbox>(command) &&
         !std::holds_alternative<store::FindDue>(command) &&
         !std::holds_alternative<store::FindWork>(command) &&
         !std::holds_alternative<store::FindRun>(command) &&
         !std::holds_alternative<store::FindReservation>(command);
}

bool sweeps(const store::Command& command) { return std::holds_alternative<store::Sweep>(command); }

/// For the trace: "advance_run 17 at 3: step_completed 1.2, asks step sleep"
std::string describe(const store::Command& command) {
  std::string text(store::command_name(command.index()));
  const auto add_entry = [&text](const std::string& bytes) {
    const auto entry = journal::decode(bytes);
    if (!entry) return;
    text += fmt::format(": {} {}", journal::to_string(entry->arrival.kind), entry->arrival.op);
    for (const journal::Request& request : entry->requests) {
      text += fmt::format(", {} {}", journal::to_string(request.kind), request.op);
    }
  };
  const auto add_step = [&](const store::AdvanceRun& step) {
    text += fmt::format(" {} at {}", step.run, step.seq);
    for (const std::string& entry : step.entries) add_entry(entry);
  };
  const auto add_payload = [&](const store::Deliver& deliver) {
    text += fmt::format(" {} with {}", deliver.token, deliver.payload);
    if (deliver.reading) add_step(deliver.reading->step);
  };
  if (const auto* start = std::get_if<store::StartRun>(&command)) {
    text += fmt::format(" {} {}", start->run.key, start->run.id);
    if (!start->first_entry.empty()) add_entry(start->first_entry);
  } else if (const auto* advance = std::get_if<store::AdvanceRun>(&command)) {
    add_step(*advance);
  } else if (const auto* deliver = std::get_if<store::Deliver>(&command)) {
    add_payload(*deliver);
  } else if (const auto* either = std::get_if<store::ResumeOrStart>(&command)) {
    add_payload(either->deliver);
  } else if (const auto* reopen = std::get_if<store::ReopenRun>(&command)) {
    text += fmt::format(" {} at {}", reopen->run, reopen->seq);
  } else if (const auto* load = std::get_if<store::LoadRun>(&command)) {
    text += fmt::format(" {}", load->run);
  } else if (const auto* read = std::get_if<store::ReadInbox>(&command)) {
    text += fmt::format(" {}", read->run);
  } else if (const auto* mark = std::get_if<store::MarkRun>(&command)) {
    text += fmt::format(" {}: {}", mark->run, mark->reason.message);
  }
  return text;
}

bool can_begin(const Flight& flight, TimePoint) { return !flight.has_begun(); }

bool can_go_on(const Flight& flight, TimePoint now) {
  return flight.has_begun() && flight.ready_at <= now;
}

base::Fault unknown_outcome() {
  return {base::Errc::unavailable, "simulated: nobody knows whether it happened"};
}

}  // namespace

void World::note(Fault fault) {
  if (batch_) {
    faults_.add(fault, outgoing());
  } else {
    unmet_.push_back(fault);
  }
  trace("fault: {}", name_of(fault));
}

/// Everything of the batch that is out.
std::vector<store::Command> World::outgoing() const {
  std::vector<store::Command> commands = batch_->commands;
  commands.insert(commands.end(), asides_.begin(), asides_.end());
  return commands;
}

std::vector<std::size_t> World::bodies(bool (*wanted)(const Flight& flight, TimePoint now)) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < flights_.size(); ++i) {
    if (wanted(*flights_[i], now_)) found.push_back(i);
  }
  return found;
}

void World::turn() {
  ++turns_;
  if (chance(profile_.jump_forward) || chance(profile_.jump_back)) jump();
  if (chance(profile_.restart) && !loop_->is_store_lost()) return restart();

  struct Choice {
    unsigned weight;
    void (World::*act)();
  };

  std::vector<Choice> choices;
  const auto offer = [&](bool possible, unsigned weight, void (World::*act)()) {
    if (possible) choices.push_back({weight, act});
  };
  offer(true, checks_.open_runs() < profile_.runs_max ? profile_.calls_weight : 1, &World::call);
  offer(can_take_batch(), profile_.batches_weight, &World::take_batch);
  offer(batch_ && !is_stalled(), profile_.batches_weight, &World::execute_batch);
  offer(!answering_.empty() && !is_stalled(), profile_.batches_weight, &World::deliver_answers);
  offer(loop_->is_store_lost(), profile_.batches_weight, &World::reopen_store);
  offer(!bodies(can_begin).empty(), profile_.bodies_weight, &World::begin_body);
  offer(!bodies(can_go_on).empty(), profile_.bodies_weight, &World::go_on_with_body);
  offer(true, profile_.clock_weight, &World::pass_time);
  offer(profile_.wakeups != 0, 1, &World::tick_for_nothing);
  offer(profile_.wakeups != 0 && !delivered_.empty(), 1, &World::repeat_result);
  offer(!missing_workflow_.empty(), 1, &World::add_missing_workflow);

  unsigned total = 0;
  for (const Choice& choice : choices) total += choice.weight;
  auto drawn = static_cast<unsigned>(random_.below(total));
  for (const Choice& choice : choices) {
    if (drawn < choice.weight) return (this->*choice.act)();
    drawn -= choice.weight;
  }
}

/// Without faults and without new calls: whatever can be done at this time. False: nothing can.
bool World::settle_one() {
  // Bodies first: what came of them shares a batch.
  if (!bodies(can_begin).empty()) {
    begin_body();
  } else if (!bodies(can_go_on).empty()) {
    go_on_with_body();
  } else if (!answering_.empty()) {
    deliver_answers();
  } else if (batch_) {
    execute_batch();
  } else if (loop_->is_store_lost()) {
    reopen_store();
  } else if (can_take_batch()) {
    take_batch();
  } else {
    return false;
  }
  return true;
}

void World::call() { clients_.call(*loop_, shown(), checks_.open_runs() < profile_.runs_max); }

void World::add_missing_workflow() {
  const Kind* kind = find_kind(missing_workflow_);
  kind->add(*registry_, *workflows_, missing_workflow_);
  trace("add {}", missing_workflow_);
  loop_->workflow_added(std::exchange(missing_workflow_, ""));
}

// ---------------------------------------------------------------------------------------------- batches

/// One is out at a time. In some worlds the next one goes before all answers of the last are taken up; never behind one
/// that failed.
bool World::can_take_batch() const {
  if (batch_ || !loop_->has_batch()) return false;
  return answering_.empty() || (profile_.answers_in_parts && answering_.back().executed.answers);
}

void World::take_batch() {
  batch_.emplace(loop_->take_batch());
  // Not with a sweep: what it took is only seen afterwards.
  if (!calm_ && std::ranges::none_of(batch_->commands, sweeps)) asides_ = customers_.ask();
  if (tracing_) {
    for (const store::Command& command : outgoing()) trace("batch: {}", describe(command));
  }
  for (const Fault fault : std::exchange(unmet_, {})) faults_.add(fault, outgoing());
  if (chance(profile_.stall)) {
    stalled_until_ = now_ + std::chrono::seconds{1 + random_.below(40)};
    stalled_until_turn_ = turns_ + 5 + random_.below(60);
    note(Fault::stall);
  }
}

/// What is going to happen to the batch that is out; none: nothing bad.
std::optional<Fault> World::draw_fate() {
  if (crash_in_) {
    if (*crash_in_ == 0) return Fault::crash_in_recovery;
    --*crash_in_;
  }
  if (chance(profile_.crash_before)) return Fault::crash_before_commit;
  if (chance(profile_.crash_after)) return Fault::crash_after_commit;
  if (chance(profile_.lands_and_fails)) return Fault::lands_and_fails;
  if (chance(profile_.fails_unlanded)) return Fault::fails_unlanded;
  return std::nullopt;
}

void World::execute_batch() {
  const std::optional<Fault> fate = draw_fate();
  if (fate) note(*fate);
  const bool never_happens = fate == Fault::crash_before_commit || fate == Fault::fails_unlanded ||
                             (fate == Fault::crash_in_recovery && random_.one_in(2));
  base::Result<std::vector<store::Answer>> answers = unknown_outcome();
  if (!never_happens) {
    for (store::Command& aside : asides_) idempotency::set_now(aside, shown());
    const std::vector<store::Command> commands = outgoing();
    answers = store_->execute(commands);
    if (std::ranges::any_of(commands, writes)) ++commits_;
    checks_.after_commit(latest_shown_, std::ranges::any_of(commands, sweeps));
    for (const store::Command& command : commands) {
      const auto* cancel = std::get_if<store::CancelRun>(&command);
      if (cancel != nullptr) checks_.cancel_asked(cancel->workspace, cancel->id);
    }
    if (!answers) return checks_.fail("store", "a batch was refused: " + answers.error().message);
    customers_.committed(asides_, std::span(*answers).last(asides_.size()), !fate);
    if (std::ranges::any_of(commands, sweeps)) customers_.swept(*store_, latest_shown_);
    answers->resize(answers->size() - asides_.size());
  }
  if (fate == Fault::crash_before_commit || fate == Fault::crash_after_commit ||
      fate == Fault::crash_in_recovery) {
    return crash();
  }
  if (fate == Fault::fails_unlanded) customers_.failed(asides_);
  if (fate == Fault::lands_and_fails) answers = unknown_outcome();
  if (!fate && chance(profile_.wakeups)) {
    std::vector<RunKey> keys;
    for (const auto& [key, run] : checks_.runs()) keys.push_back(key);
    add_wakeups(answers.value(), keys, random_);
    note(Fault::duplicate_wakeup);
  }
  engine::ExecutedBatch executed{*std::exchange(batch_, std::nullopt), std::move(answers)};
  answering_.push_back({std::move(executed), checks_.commit(), std::exchange(asides_, {})});
}

void World::deliver_answers() {
  auto& [executed, commit, asides] = answering_.front();
  const bool tells = executed.answers.has_value();
  std::vector<store::Command> commands;
  if (tells && profile_.frame_bytes_max < 100'000) {
    commands = executed.batch.commands;
    commands.insert(commands.end(), asides.begin(), asides.end());
  }
  trace("answers{}", tells ? "" : ": unavailable");
  const std::size_t limit =
      profile_.answers_in_parts ? 1 + random_.below(4) : std::numeric_limits<std::size_t>::max();
  if (loop_->committed(executed, shown(), limit)) {
    checks_.heard(commit);
    answering_.pop_front();
  }
  if (const std::uint64_t evicted = loop_->counters().evictions; evicted > evictions_) {
    faults_.add(Fault::eviction, commands);
    evictions_ = evicted;
  }
}

void World::reopen_store() {
  trace("reopen");
  store_.reset();
  open_store();
  customers_.reopened(*store_, shown());
  loop_->open(shown());
}

// ---------------------------------------------------------------------------------------------- bodies

void World::begin_body() {
  const auto waiting = bodies(can_begin);
  Flight& flight = *flights_[waiting[random_.below(waiting.size())]];
  const engine::StepJob& job = flight.job();
  ++bodies_;
  const Known* run = checks_.find(job.run);
  const History::Step* step = run == nullptr ? nullptr : run->history.step(job.op);
  if (step == nullptr || step->settled || step->attempt != job.attempt) ++late_bodies_;
  trace("begin {} {} attempt {}", job.run_id, job.op, job.attempt);
  flight.begin([this](const engine::StepJob& beating, std::string progress) {
    auto& attempt = outside_.step(beating.step_id).attempts[beating.attempt];
    if (attempt.timeout) {
      // Where the clock has jumped back it may have timed out already; then the heartbeat counts for nothing.
      const TimePoint moved = now_ + *attempt.timeout;
      attempt.deadline =
          latest_shown_ < attempt.deadline ? moved : std::min(moved, attempt.deadline);
    }
    trace("heartbeat {} {} {}", beating.run_id, beating.op, progress);
    loop_->heartbeat(beating.run, beating.op, beating.attempt, std::move(progress), shown());
  });
  if (outside_.take_killed()) crash();
}

void World::go_on_with_body() {
  const auto ready = bodies(can_go_on);
  const std::size_t index = ready[random_.below(ready.size())];
  Flight& flight = *flights_[index];
  if (flight.has_returned()) return deliver_result(index);
  trace("go on {} {}", flight.job().run_id, flight.job().op);
  flight.ready_at = now_ + Millis{random_.below(1500)};
  flight.go_on();
}

void World::deliver_result(std::size_t index) {
  const std::unique_ptr<Flight> flight = std::move(flights_[index]);
  flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(index));
  const engine::StepJob& job = flight->job();
  const std::uint32_t attempt =
      sabotage_ == nullptr ? job.attempt : sabotage_->attempt(job.attempt);
  Result result{job.run, job.op, attempt, flight->take_outcome()};
  trace("result {} {} attempt {}: {}", job.run_id, job.op, attempt,
        result.outcome.failure ? result.outcome.failure->message : result.outcome.value);
  loop_->step_finished(result.run, result.op, result.attempt, result.outcome, shown());
  delivered_.push_back(std::move(result));
}

void World::repeat_result() {
  note(Fault::duplicate_wakeup);
  const Result again = delivered_[random_.below(delivered_.size())];
  // While that very attempt is under way once more it would not be a repetition but a forgery.
  const bool is_under_way = std::ranges::any_of(flights_, [&](const auto& flight) {
    return flight->job().run == again.run && flight->job().op == again.op &&
           flight->job().attempt == again.attempt;
  });
  if (!is_under_way)
    loop_->step_finished(again.run, again.op, again.attempt, again.outcome, shown());
}

// ---------------------------------------------------------------------------------------------- time

/// On to the next thing that is due, as a rule; sometimes not so far, sometimes past it.
void World::pass_time() {
  std::optional<TimePoint> next = loop_->next_tick();
  for (const auto& flight : flights_) {
    if (flight->has_begun() && flight->ready_at > now_ && (!next || flight->ready_at < *next))
      next = flight->ready_at;
  }
  TimePoint target = next.value_or(now_ + 1s);
  if (!calm_ && random_.one_in(4)) target = now_ + Millis{random_.below(3000)};
  if (target > now_) set_clock(target);
  if (chance(profile_.late_tick)) {
    set_clock(now_ + Millis{500 + random_.below(5000)});
    return note(Fault::late_wakeup);
  }
  if (loop_->next_tick().value_or(TimePoint::max()) <= shown()) tick();
}

void World::tick() {
  trace("tick");
  loop_->tick(shown());
}

void World::tick_for_nothing() {
  note(Fault::duplicate_wakeup);
  tick();
}

void World::jump() {
  const bool forward = profile_.jump_back == 0 || (profile_.jump_forward != 0 && random_.one_in(2));
  const Millis far{1000 + random_.below(random_.one_in(4) ? 600'000 : 10'000)};
  if (!forward) outside_.note_due(shown());
  set_clock(forward ? now_ + far : now_ - far);
  note(forward ? Fault::clock_forward : Fault::clock_backward);
}

}  // namespace semel::sim
