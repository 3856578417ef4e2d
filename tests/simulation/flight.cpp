#include "tests/simulation/flight.hpp"

#include "base/assert.hpp"

namespace semel::sim {

namespace {

class BodyHost final : public detail::StepHost {
 public:
  BodyHost(const engine::StepJob& job, Flight::Heartbeat heartbeat)
      : job_(job), heartbeat_(std::move(heartbeat)) {}

  Client& client(const std::string&) override {
    throw Error("NOT_SIMULATED", "bodies of the simulation make no calls; tests/crash does");
  }

  void heartbeat(std::string progress) override { heartbeat_(job_, std::move(progress)); }

 private:
  const engine::StepJob& job_;
  Flight::Heartbeat heartbeat_;
};

}  // namespace

/// The outermost coroutine of a Task body. It stays suspended at its end, so that the flight can destroy it anywhere.
struct Flight::Driven {
  struct promise_type {
    Driven get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }

    std::suspend_never initial_suspend() const noexcept { return {}; }

    std::suspend_always final_suspend() const noexcept { return {}; }

    void return_void() const noexcept {}

    void unhandled_exception() const noexcept { std::terminate(); }
  };

  std::coroutine_handle<> handle;
};

Flight::Driven Flight::drive(Flight& flight, StepContext context) {
  engine::StepOutcome outcome;
  try {
    outcome.value = co_await flight.job_.body->start(context);
  } catch (...) {
    outcome = engine::outcome_of(std::current_exception());
  }
  flight.returned(std::move(outcome));
}

void Flight::begin(const Heartbeat& heartbeat) {
  begun_ = true;
  Outside::Step& step = outside_.step(job_.step_id);
  ++step.begun;
  step.attempts[job_.attempt].begun = true;

  StepContext context;
  context.id = job_.step_id;
  context.run_id = job_.run_id;
  context.attempt = static_cast<int>(job_.attempt);
  context.deadline = job_.deadline;
  context.stop = job_.stop.get_token();
  if (!job_.progress.empty()) context.progress = value::from_text(job_.progress);
  context.host = std::make_shared<BodyHost>(job_, heartbeat);

  if (job_.body->is_task()) {
    task_ = drive(*this, std::move(context)).handle;
    return;
  }
  engine::StepOutcome outcome;
  try {
    outcome.value = job_.body->run(context);
  } catch (...) {
    outcome = engine::outcome_of(std::current_exception());
  }
  returned(std::move(outcome));
}

void Flight::go_on() {
  const std::coroutine_handle<> waiting = outside_.take_paused(job_.step_id);
  SEMEL_ASSERT(waiting);
  waiting.resume();
}

void Flight::returned(engine::StepOutcome outcome) {
  outside_.step(job_.step_id).attempts[job_.attempt].outcome = outcome;
  outcome_ = std::move(outcome);
}

engine::StepOutcome Flight::take_outcome() {
  if (task_) std::exchange(task_, {}).destroy();
  job_.body.reset();
  return *std::exchange(outcome_, std::nullopt);
}

}  // namespace semel::sim
