#include "engine/driver.hpp"

#include "idempotency/owner.hpp"

#include <semel/step.hpp>

namespace semel::engine {

namespace {

const std::string no_step;

class BodyHost final : public detail::StepHost {
 public:
  BodyHost(const StepJob& job, Driver& driver, const StepClientFactory& clients)
      : driver_(driver),
        clients_(clients),
        run_(job.run),
        op_(job.op),
        attempt_(job.attempt),
        workspace_(job.workspace) {}

  /// Most bodies never ask for it.
  Client& client(const std::string& step_id) override {
    const std::lock_guard lock(mutex_);
    if (!client_) client_ = clients_(workspace_, step_id);
    return *client_;
  }

  void heartbeat(std::string progress) override {
    driver_.post(
        [run = run_, op = op_, attempt = attempt_, progress = std::move(progress)](
            Loop& loop, TimePoint now) { loop.heartbeat(run, op, attempt, progress, now); });
  }

 private:
  Driver& driver_;
  const StepClientFactory& clients_;
  store::RunKey run_;
  std::string op_;
  std::uint32_t attempt_;
  std::string workspace_;
  std::mutex mutex_;
  std::shared_ptr<Client> client_;
};

StepContext context_of(StepJob& job, Driver& driver, const StepClientFactory& clients) {
  StepContext context;
  context.id = std::move(job.step_id);
  context.run_id = std::move(job.run_id);
  context.attempt = static_cast<int>(job.attempt);
  context.deadline = job.deadline;
  context.stop = job.stop.get_token();
  if (!job.progress.empty()) context.progress = value::from_text(job.progress);
  context.host = std::make_shared<BodyHost>(job, driver, clients);
  return context;
}

void post_outcome(StepJob& job, Driver& driver, StepOutcome outcome) {
  driver.post(StepFinished{job.run, std::move(job.op), job.attempt, std::move(outcome)});
}

detail::Detached run_detached(StepJob job, Driver& driver, StepContext context) {
  StepOutcome outcome;
  try {
    outcome.value = co_await job.body->start(context);
  } catch (...) {
    outcome = outcome_of(std::current_exception());
  }
  // The body may be the last to hold what the run's frame lent it, and its client holds the driver: gone before the loop
  // hears of it, and before the engine can be.
  job.body.reset();
  context.host.reset();
  post_outcome(job, driver, std::move(outcome));
}

}  // namespace

bool Driver::execute(store::Command command, Reply reply) {
  /// Its own until it is done.
  struct Replying final : idempotency::Errand {
    explicit Replying(Reply to) : reply(std::move(to)) {}

    void done(base::Result<store::Answer> answer) override {
      const auto kept = std::move(self);
      reply(std::move(answer));
    }

    Reply reply;
    std::unique_ptr<Replying> self;
  };

  auto made = std::make_unique<Replying>(std::move(reply));
  Replying& errand = *made;
  errand.command = std::move(command);
  errand.self = std::move(made);
  if (execute(errand)) return true;
  const auto dropped = std::move(errand.self);
  return false;
}

void feed(Loop& loop, Input& input, TimePoint now) {
  if (auto* finished = std::get_if<StepFinished>(&input)) {
    loop.step_finished(finished->run, finished->op, finished->attempt, std::move(finished->outcome),
                       now);
  } else {
    // It may be a Task that goes on, inside a call that another step waits for.
    const idempotency::StepScope nobody{no_step};
    std::get<Call>(input)(loop, now);
  }
}

void run_blocking(StepJob job, Driver& driver, const StepClientFactory& clients) {
  StepContext context = context_of(job, driver, clients);
  StepOutcome outcome;
  try {
    const idempotency::StepScope scope{context.id};
    outcome.value = job.body->run(context);
  } catch (...) {
    outcome = outcome_of(std::current_exception());
  }
  job.body.reset();
  context.host.reset();
  post_outcome(job, driver, std::move(outcome));
}

void run_task(StepJob job, Driver& driver, const StepClientFactory& clients) {
  StepContext context = context_of(job, driver, clients);
  const std::string id = context.id;
  const idempotency::StepScope until_it_waits{id};
  run_detached(std::move(job), driver, std::move(context));
}

}  // namespace semel::engine
