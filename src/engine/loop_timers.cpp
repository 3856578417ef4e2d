// Timers. The store remembers when a parked run must be looked at; what is due then is read off the run itself, so a
// wake-up that comes twice, late or for nothing does no harm.
#include "engine/loop.hpp"

#include <algorithm>
#include <utility>

namespace semel::engine {

using journal::Arrival;
using journal::ArrivalKind;
using journal::Operation;
using journal::RequestKind;
using store::Answer;

namespace {

constexpr std::int64_t due_page = 1000;
constexpr std::chrono::milliseconds next_page_after{1};
constexpr std::chrono::seconds suspect_time{10};
/// While there is more to sweep, more rows go than were written since the last time, in portions that hold up nobody for
/// long. A command leaves a row, or little more.
constexpr std::chrono::milliseconds sweep_again_after{3};
constexpr std::int64_t swept_per_command = 2;
constexpr std::int64_t swept_min = 1000;
constexpr std::int64_t swept_max = 5000;

bool is_timed(const Operation& operation) {
  return operation.kind == RequestKind::sleep ||
         (operation.kind == RequestKind::step && operation.phase == Operation::Phase::backoff);
}

}  // namespace

void Loop::note_timer(TimePoint due) {
  if (!next_due_ || due < *next_due_) next_due_ = due;
}

std::optional<TimePoint> Loop::next_tick() const {
  if (lost_ || !opened_) return std::nullopt;
  std::optional<TimePoint> next;
  const auto consider = [&](const std::optional<TimePoint>& at) {
    if (at && (!next || *at < *next)) next = at;
  };
  if (workers_ && !finding_due_ && !stopping_) consider(next_due_);
  if (!deadlines_.empty()) consider(deadlines_.top().at);
  if (!stopping_) consider(next_sweep_);
  consider(well_at_);
  if (!keeping_) consider(next_keep_);
  if (!finding_ended_) consider(next_look_afar_);
  if (suspect_) consider(suspect_since_ + suspect_time);
  return next;
}

void Loop::sweep() {
  next_sweep_.reset();
  const std::uint64_t before = std::exchange(commands_at_sweep_, counters_.commands);
  const std::int64_t wanted =
      swept_per_command * static_cast<std::int64_t>(counters_.commands - before);
  submit(store::Sweep{.now = now_, .limit = std::clamp(wanted, swept_min, swept_max)},
         [this](Answer& answer) {
           const bool more = std::get<store::Swept>(answer).more;
           next_sweep_ =
               now_ + (more ? std::chrono::nanoseconds(sweep_again_after) : options_.sweep_every);
         });
}

void Loop::tick(TimePoint now) {
  now_ = now;
  if (lost_ || !opened_) return;
  expire_bodies();
  if (workers_ && !stopping_ && !finding_due_ && next_due_ && *next_due_ <= now_) find_due();
  if (!stopping_ && next_sweep_ && *next_sweep_ <= now_) sweep();
  if (well_at_ && *well_at_ <= now_) {
    well_at_.reset();
    for (auto& [partition, gained] : owned_) gained.crashes = 0;
    counted_.clear();
    submit(store::NodeWell{}, [](Answer&) {});
  }
  if (!keeping_ && next_keep_ && *next_keep_ <= now_) keep();
  if (!finding_ended_ && next_look_afar_ && *next_look_afar_ <= now_) find_ended();
  if (suspect_ && suspect_since_ + suspect_time <= now_) {
    suspect_.reset();
    next_suspect();
  }
}

void Loop::find_due() {
  finding_due_ = true;
  next_due_.reset();
  std::int64_t limit = due_page;
  // Timers of runs nobody here can drive stay due; they must not crowd out the others.
  for (const auto& [workflow, stranded] : without_worker_) limit += std::ssize(stranded.runs);
  submit(store::FindDue{now_, limit}, [this, limit](Answer& answer) {
    finding_due_ = false;
    auto& due = std::get<store::TimersDue>(answer);
    timers_due(due);
    if (static_cast<std::int64_t>(due.timers.size()) == limit) {
      note_timer(now_ + next_page_after);
    } else if (due.next) {
      note_timer(*due.next);
    }
  });
}

void Loop::timers_due(store::TimersDue& due) {
  for (const store::Timer& timer : due.timers) {
    if (const RunPtr run = live(timer.run)) {
      when_ready(run, [this, run] { fire_due(run); });
    } else {
      load(timer.run);
    }
  }
}

/// Everything of a run that is due at this time, oldest first.
void Loop::fire_due(const RunPtr& run) {
  while (!run->dropped && !run->state.is_over()) {
    if (run->blocked) {
      when_ready(run, [this, run] { fire_due(run); });
      return;
    }
    if (run->deadline && *run->deadline <= now_) {
      fail_run(run, ArrivalKind::timed_out,
               {.code = "DEADLINE_EXCEEDED",
                .message = "the run did not finish before its deadline",
                .details = {},
                .name = {},
                .op = {}});
      return;
    }
    if (run->state.grace_until && *run->state.grace_until <= now_) {
      fail_run(run, ArrivalKind::cancelled,
               {.code = "RUN_CANCELLED",
                .message = "cancelled; its grace is over",
                .details = {},
                .name = {},
                .op = {}});
      return;
    }
    const Operation* first = nullptr;
    for (const Operation& operation : run->state.pending) {
      if (is_timed(operation) && operation.at <= now_ &&
          (first == nullptr || operation.at < first->at))
        first = &operation;
    }
    if (first == nullptr) break;
    Arrival arrival;
    arrival.op = first->op;
    arrival.name = first->name;
    if (first->kind == RequestKind::sleep) {
      arrival.kind = ArrivalKind::timer_fired;
      transition(run, std::move(arrival));
    } else {
      arrival.kind = ArrivalKind::retry_due;
      arrival.attempt = first->attempt + 1;
      journal::Entry entry;
      entry.arrival = std::move(arrival);
      write(run, std::move(entry));
    }
  }
  expect_timers(*run);
}

/// What is not due now was perhaps due when the store was asked: the clock may have been set back since.
void Loop::expect_timers(const LiveRun& run) {
  if (run.dropped || run.state.is_over()) return;
  if (run.deadline) note_timer(*run.deadline);
  if (run.state.grace_until) note_timer(*run.state.grace_until);
  for (const Operation& operation : run.state.pending) {
    if (is_timed(operation)) note_timer(operation.at);
  }
}

}  // namespace semel::engine
