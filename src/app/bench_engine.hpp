// An engine under load: the real driver over a store whose commits are counted, and workflows that do nothing but
// steps, so that what is measured is what the engine adds.
#pragma once

#include "app/bench_raw.hpp"
#include "engine/threaded_driver.hpp"
#include "store/postgres/postgres_store.hpp"
#include "store/sqlite/sqlite_store.hpp"

#include <semel/engine.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace semel::app::bench {

enum class StepKind { task, blocking };

/// What the committer did; written by its thread, read by any.
struct StoreMeter {
  std::atomic<std::uint64_t> commits{0};
  std::atomic<std::uint64_t> entries{0};  ///< starts and advances
  std::atomic<std::uint64_t> started{0};  ///< runs
  std::atomic<std::uint64_t> swept{0};    ///< runs
  std::atomic<std::uint64_t> swept_entries{0};
};

/// Holds a step body until it is let go.
class Gate {
 public:
  /// Suspends whoever awaits it; resumed on the thread that calls `open`.
  detail::Callback<bool> pass();
  void wait_for_visitor();
  void open();

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::function<void(bool)> visitor_;
};

/// The workflows, and what their steps note.
class Workload {
 public:
  Workload();

  Workflow<std::uint32_t> tasks(std::uint32_t steps);
  Workflow<std::uint32_t> blocking(std::uint32_t steps);
  /// Tasks; from `gated_from` on, every `gate_every`th waits at the gate. Then it parks for an hour.
  Workflow<std::uint32_t> gated(std::uint32_t steps);
  /// Parks until `wake_at`, then does a step. `order` stands for what a run has to remember.
  Workflow<std::uint32_t> park(std::string order, TimePoint wake_at);

  std::uint64_t steps_done() const { return steps_done_.load(std::memory_order_relaxed); }

  /// From here on runs end at their next step.
  void stop() { stopping_ = true; }

  void go() { stopping_ = false; }

  /// From here on bodies note when they begin: for one run at a time.
  void note_times() { times_.emplace(); }

  std::vector<double> take_times();

  Gate gate;
  std::uint32_t gated_from = 10'000;
  std::uint32_t gate_every = 20;

 private:
  Task<std::string> task_body();
  Task<std::string> gated_body(bool waits);
  std::string body();

  std::string result_;
  std::atomic<std::uint64_t> steps_done_{0};
  std::atomic<bool> stopping_{false};
  std::optional<std::vector<double>> times_;
};

/// An engine on PostgreSQL.
struct PostgresNode {
  std::string url;
  std::string name = "bench";
  std::chrono::milliseconds lease{15'000};
};

struct BenchEngineOptions {
  std::size_t frame_bytes_max = EngineOptions{}.frame_bytes_max;
  std::int64_t cache_kib = store::SqliteOptions{}.cache_kib;
  std::chrono::nanoseconds sweep_every = engine::LoopOptions{}.sweep_every;
};

/// Runs to keep under way.
struct Load {
  StepKind kind = StepKind::task;
  int runs = 1;
  int steps = 1;
  bool keyed = false;  ///< each under an idempotency key of its own, in no order
};

class BenchEngine final : public Engine {
 public:
  explicit BenchEngine(const std::filesystem::path& file, BenchEngineOptions options = {});
  explicit BenchEngine(const PostgresNode& node, BenchEngineOptions options = {});
  ~BenchEngine() override;

  Workload& workload() { return *workload_; }

  engine::LoopCounters loop_counters();

  std::uint64_t commits() const { return meter_->commits; }

  const StoreMeter& meter() const { return *meter_; }

  /// Sent to PostgreSQL.
  std::uint64_t statements() const { return identity_ ? identity_->statements.load() : 0; }

  /// So many runs at a time; as one ends the next one starts. Watches them for `duration`.
  Rate load(const Load& load, Seconds duration);
  /// Watches them until somebody says that it is over.
  Rate load_until(const Load& load, const std::function<void()>& over);

  /// When the bodies of one run of so many steps began.
  std::vector<double> step_times(StepKind kind, int steps);

  /// Starts under one key, so many at a time, per second.
  double duplicate_starts(int at_a_time, Seconds duration);

  /// Starts `count` runs that park until `wake_at`; returns when all are durable.
  void park(int count, TimePoint wake_at);

  store::RunKey key_of(const std::string& run_id);

  /// The first of so many keys that no run of the engine's gets.
  store::RunKey reserve_keys(std::int64_t count);

  /// The encoded entries of a run.
  std::vector<std::string> entries(const std::string& run_id);

 private:
  using Identity = std::shared_ptr<store::postgres::NodeIdentity>;

  BenchEngine(const std::filesystem::path& file, BenchEngineOptions options,
              std::shared_ptr<StoreMeter> meter);
  BenchEngine(const PostgresNode& node, BenchEngineOptions options,
              std::shared_ptr<StoreMeter> meter, Identity identity);
  void add_workflows();

  std::shared_ptr<StoreMeter> meter_;
  Identity identity_;  ///< none on SQLite
  std::unique_ptr<Workload> workload_;
};

/// What a run of ten steps writes.
EntryBytes entry_bytes(BenchEngine& engine);

}  // namespace semel::app::bench
