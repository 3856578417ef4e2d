// The driver for tests: single-threaded, its clock moves when told to, nothing happens between calls.
#pragma once

#include "base/clock.hpp"
#include "engine/driver.hpp"

#include <deque>

namespace semel::engine {

class InlineDriver final : public Driver, Host {
 public:
  InlineDriver(const Registry& registry, StoreFactory stores, StepClientFactory clients,
               LoopOptions options);
  ~InlineDriver() override;

  bool post(Input input) override {
    inputs_.push_back(std::move(input));
    return true;
  }

  bool execute(store::Command command, Reply reply) override {
    return post([command = std::move(command), reply = std::move(reply)](
                    Loop& loop, TimePoint now) { loop.reservation(command, reply, now); });
  }

  bool execute(idempotency::Errand& errand) override {
    return post([&errand](Loop& loop, TimePoint now) {
      loop.reservation(
          errand.command,
          [&errand](base::Result<store::Answer> answer) { tell(errand, std::move(answer)); }, now);
    });
  }

  /// Commits what was asked for; with `run_steps` also runs whatever can run at this time.
  bool wait(Waiting& waiting, const Patience& patience) override;

  void start_workers() override {}

  void stop() override {}

  std::shared_ptr<store::Reader> reader() override { return store_.reader; }

  void run_until_idle();
  /// Moves the clock to `now() + duration`, stopping at everything that falls due on the way.
  void advance(std::chrono::nanoseconds duration);
  /// Memory is lost, what was committed is not; the next call goes on from there.
  void crash();

  TimePoint now() const override { return clock_.now(); }

 private:
  void open();
  void commit_all();
  bool run_one_step();
  bool tick_if_due();

  void run_step(StepJob job) override { jobs_.push_back(std::move(job)); }

  void log(const LogEvent&) override {}

  const Registry& registry_;
  StoreFactory stores_;
  StepClientFactory clients_;
  LoopOptions options_;
  base::ManualClock clock_;
  base::SystemRandom random_;
  std::deque<Input> inputs_;
  std::deque<StepJob> jobs_;
  OpenedStore store_;
  std::unique_ptr<Loop> loop_;
};

}  // namespace semel::engine
