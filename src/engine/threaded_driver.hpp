// The production driver: one thread runs the loop and Task steps, one commits, a pool runs blocking steps. Commands about
// reservations concern no run: they go straight to the committer and share its commits. A loop that has nothing to do but
// wait for a commit makes it itself.
#pragma once

#include "base/clock.hpp"
#include "engine/driver.hpp"
#include "engine/thread_pool.hpp"

#include <atomic>
#include <deque>
#include <thread>
#include <vector>

namespace semel::engine {

struct ThreadedDriverOptions {
  LoopOptions loop{};
  unsigned step_threads = 256;
  Log log{};
};

class ThreadedDriver final : public Driver, Host {
 public:
  /// Opens the store; `Errc` of the factory where that fails.
  static base::Result<std::unique_ptr<ThreadedDriver>> open(const Registry& registry,
                                                            StoreFactory stores,
                                                            StepClientFactory clients,
                                                            ThreadedDriverOptions options);
  ~ThreadedDriver() override;

  bool post(Input input) override;
  using Driver::execute;
  bool execute(idempotency::Errand& errand) override;

  store::KeyClaims* claims() override { return claims_.get(); }

  bool wait(Waiting& waiting, const Patience& patience) override;
  bool is_loop_thread() const override;
  void start_workers() override;
  void stop() override;
  std::shared_ptr<store::Reader> reader() override;
  bool is_store_lost() override;

  /// All nodes of a store go by one clock.
  TimePoint now() const override {
    return clock_.now() + std::chrono::nanoseconds{clock_lead_.load(std::memory_order_relaxed)};
  }

  /// Counters of the loop, read on its own thread.
  LoopCounters counters();

 private:
  ThreadedDriver(const Registry& registry, StoreFactory stores, StepClientFactory clients,
                 ThreadedDriverOptions options, OpenedStore opened);

  void run();

  void run_committer();
  void execute_round(std::unique_lock<std::mutex>& lock);
  base::Result<std::vector<store::Answer>> execute_all(const std::vector<store::Command>& commands);
  std::optional<base::Fault> put_back();
  void owe_claimed(const std::vector<store::Command>& commands);
  void feed_inputs();
  void feed_all(std::vector<Input> inputs);
  bool wait_on_loop(Waiting& waiting, const Patience& patience);
  void take_executed();
  void feed_answers();
  void run_tasks();
  bool is_idle_but_for_batch() const;
  void hand_over_batch();
  void hand_over_if_due();
  void hand_over_if_large();

  bool is_committing() const { return committing_ || !answering_.empty(); }

  void rest();
  void look_out();
  bool leave();
  void reopen_if_lost();
  void watch();
  void reopen_store();
  void run_step(StepJob job) override;
  void log(const LogEvent& event) override;
  void tell(LogLevel level, std::string_view name, std::string message);

  base::SystemClock clock_;
  std::atomic<std::int64_t> clock_lead_{0};  ///< of the store's, in nanoseconds
  base::SystemRandom random_;
  StoreFactory stores_;
  StepClientFactory clients_;
  ThreadedDriverOptions options_;
  OpenedStore store_;
  const std::shared_ptr<store::KeyClaims> claims_;
  Loop loop_;

  std::mutex mutex_;
  std::condition_variable wake_loop_;
  std::condition_variable wake_committer_;
  std::condition_variable left_store_;  ///< whoever was there has
  std::condition_variable wake_watchdog_;
  std::vector<Input> inputs_;
  std::atomic<bool> has_inputs_{false};  ///< as `inputs_`, for a look without the lock
  std::vector<Input> own_inputs_;        ///< from the loop's own thread, which needs no lock
  std::optional<Batch> to_commit_;
  std::chrono::nanoseconds to_commit_since_{0};  ///< when it got its first command
  std::optional<ExecutedBatch> executed_;
  std::vector<idempotency::Errand*> errands_;  ///< commands past the loop
  bool is_executing_ = false;                  ///< somebody is at the store, and alone there
  bool is_reopening_ = false;  ///< the loop is, and the committer keeps away from it
  std::optional<base::Fault>
      lost_;  ///< why nothing is executed any more until the store is open again
  std::chrono::nanoseconds waited_for_disk_{0};  ///< by the committer, the last time
  bool stop_loop_ = false;
  bool stopped_loop_ = false;
  bool stop_committer_ = false;

  // Whoever is at the store:
  /// Reservations whose owners claimed them and whose transactions failed: they come before all else.
  std::vector<store::Command> owed_;

  // The loop's thread alone:
  bool committing_ = false;
  bool expects_input_ = false;           ///< soon, for what was done since the loop rested
  std::deque<ExecutedBatch> answering_;  ///< executed, and the loop is not through with them
  std::chrono::nanoseconds flush_{0};    ///< what a commit costs, however little is in it
  std::optional<std::chrono::nanoseconds>
      batch_since_;  ///< when the next batch got its first command

  std::mutex store_mutex_;  ///< the reader is replaced when the store is opened anew
  std::vector<StepJob> tasks_;
  std::optional<TimePoint> reopen_at_;
  std::chrono::milliseconds reopen_after_{100};
  std::once_flag stopped_;

  ThreadPool pool_;
  std::atomic<std::int64_t> busy_since_{
      0};  ///< when the loop's thread took up what it is doing; 0: nothing
  std::jthread committer_;
  std::jthread watchdog_;
  std::jthread thread_;
};

}  // namespace semel::engine
