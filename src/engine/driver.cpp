#include "engine/driver.hpp"

#include <semel/step.hpp>

namespace semel::engine {

namespace {

class BodyHost final : public detail::StepHost {
 public:
  BodyHost(const StepJob& job, Driver& driver, const StepClientFactory& clients)
      : driver_(driver), run_(job.run), op_(job.op), attempt_(job.attempt), client_(clients(job)) {}

  Client& client() override { return *client_; }

  void heartbeat(std::string progress) override {
    driver_.post([run = run_, op = op_, attempt = attempt_, progress = std::move(progress)](Loop& loop, TimePoint now) {
      loop.heartbeat(run, op, attempt, progress, now);
    });
  }

 private:
  Driver& driver_;
  store::RunKey run_;
  std::string op_;
  std::uint32_t attempt_;
  std::shared_ptr<Client> client_;
};

StepContext context_of(const StepJob& job, Driver& driver, const StepClientFactory& clients) {
  StepContext context;
  context.id = job.step_id;
  context.run_id = job.run_id;
  context.attempt = static_cast<int>(job.attempt);
  context.deadline = job.deadline;
  context.stop = job.stop.get_token();
  if (!job.progress.empty()) context.progress = value::from_text(job.progress);
  context.host = std::make_shared<BodyHost>(job, driver, clients);
  return context;
}

void post_outcome(const StepJob& job, Driver& driver, StepOutcome outcome) {
  driver.post([run = job.run, op = job.op, attempt = job.attempt, outcome = std::move(outcome)](
                  Loop& loop, TimePoint now) mutable {
    loop.step_finished(run, op, attempt, std::move(outcome), now);
  });
}

detail::Detached run_detached(StepJob job, Driver& driver, StepContext context) {
  StepOutcome outcome;
  try {
    outcome.value = co_await job.body->start(context);
  } catch (...) {
    outcome = outcome_of(std::current_exception());
  }
  // The body may be the last to hold what the run's frame lent it: gone before the loop hears of it.
  job.body.reset();
  post_outcome(job, driver, std::move(outcome));
}

}  // namespace

void run_blocking(StepJob job, Driver& driver, const StepClientFactory& clients) {
  const StepContext context = context_of(job, driver, clients);
  StepOutcome outcome;
  try {
    outcome.value = job.body->run(context);
  } catch (...) {
    outcome = outcome_of(std::current_exception());
  }
  job.body.reset();
  post_outcome(job, driver, std::move(outcome));
}

void run_task(StepJob job, Driver& driver, const StepClientFactory& clients) {
  StepContext context = context_of(job, driver, clients);
  run_detached(std::move(job), driver, std::move(context));
}

}  // namespace semel::engine
