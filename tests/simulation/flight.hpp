// A step body under way in the simulated process: begun when the simulation says so, gone on with and heard back from
// when it says so. A crash destroys it wherever it stands.
#pragma once

#include "engine/live_run.hpp"
#include "tests/simulation/outside.hpp"

#include <functional>
#include <optional>
#include <string>

namespace semel::sim {

class Flight {
 public:
  /// What a heartbeat of the body does.
  using Heartbeat = std::function<void(const engine::StepJob& job, std::string progress)>;

  Flight(engine::StepJob job, Outside& outside, TimePoint ready_at)
      : ready_at(ready_at), job_(std::move(job)), outside_(outside) {}

  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  ~Flight() {
    outside_.take_paused(job_.step_id);
    if (task_) task_.destroy();
  }

  const engine::StepJob& job() const { return job_; }

  bool has_begun() const { return begun_; }

  bool has_returned() const { return outcome_.has_value(); }

  /// A blocking body runs through; a Task runs to where it first suspends.
  void begin(const Heartbeat& heartbeat);
  /// Resumes a suspended Task.
  void go_on();

  /// What came of it. The body is gone before the loop hears of it: it may be the last to hold what the frame lent it.
  engine::StepOutcome take_outcome();

  TimePoint ready_at;  ///< when it is begun or goes on at the earliest

 private:
  struct Driven;
  static Driven drive(Flight& flight, StepContext context);
  void returned(engine::StepOutcome outcome);

  engine::StepJob job_;
  Outside& outside_;
  bool begun_ = false;
  std::optional<engine::StepOutcome> outcome_;
  std::coroutine_handle<> task_;
};

}  // namespace semel::sim
