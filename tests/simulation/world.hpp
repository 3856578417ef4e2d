// A world from a seed: a virtual clock, a database in memory that survives crashes, one process at a time that owns it,
// clients that call it, step bodies that take their time, and trouble. The real loop, the real SQL. Everything that
// happens is drawn from the seed, so a seed happens the same way every time.
//
// First come turns, one event each, chosen by chance among what can happen next. Then the faults stop and everything
// has to come to its end.
#pragma once

#include "base/random.hpp"
#include "engine/loop.hpp"
#include "tests/simulation/checks.hpp"
#include "tests/simulation/clients.hpp"
#include "tests/simulation/customers.hpp"
#include "tests/simulation/faults.hpp"
#include "tests/simulation/flight.hpp"
#include "tests/simulation/sabotage.hpp"
#include "tests/simulation/workflows.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace semel::sim {

/// What came of a seed.
struct Report {
  std::uint64_t seed = 0;
  std::optional<Violation> violation;
  std::uint64_t commits = 0;  ///< batches executed that wrote
  std::uint64_t crashes = 0;
  std::uint64_t turns = 0;
  std::uint64_t runs = 0;
  std::uint64_t bodies = 0;
  std::uint64_t late_bodies =
      0;  ///< begun after their step had settled: their process was slow (S3's exception)
  std::uint64_t digest = 0;  ///< over everything that was written
  FaultCounts faults;

  /// "seed 7, commit 123: S3: run …"
  std::string text() const;

  std::uint64_t at_commit = 0;  ///< of the violation
};

class World final : engine::Host {
 public:
  /// `trace`: print what happens.
  explicit World(std::uint64_t seed, Sabotage* sabotage = nullptr, bool trace = false);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() override;

  Report run();

 private:
  struct Answering {
    engine::ExecutedBatch executed;
    std::uint64_t commit;
    std::vector<store::Command> asides;
  };

  struct Result {
    RunKey run;
    std::string op;
    std::uint32_t attempt;
    engine::StepOutcome outcome;
  };

  // world.cpp: the process
  void open();
  void open_store();
  void crash();
  void restart();
  void register_workflows();
  void run_step(engine::StepJob job) override;
  void log(const LogEvent& event) override;
  TimePoint shown();

  // world.cpp: the end
  void calm_down();
  bool operate();
  void judge();
  void judge_run(const Known& run);
  void judge_steps(const Known& run);

  // world_turns.cpp: what can happen next
  void turn();
  bool settle_one();
  void call();
  void add_missing_workflow();
  void take_batch();
  void execute_batch();
  void deliver_answers();
  void reopen_store();
  void begin_body();
  void go_on_with_body();
  void deliver_result(std::size_t index);
  void repeat_result();
  void pass_time();
  void tick();
  void tick_for_nothing();
  void jump();
  std::optional<Fault> draw_fate();
  std::vector<std::size_t> bodies(bool (*wanted)(const Flight& flight, TimePoint now)) const;

  bool can_take_batch() const;

  bool is_stalled() const { return now_ < stalled_until_ && turns_ < stalled_until_turn_; }

  void set_clock(TimePoint now);
  void note(Fault fault);
  std::vector<store::Command> outgoing() const;

  bool chance(std::uint64_t one_in) { return !calm_ && one_in != 0 && random_.one_in(one_in); }

  template <class... A>
  void trace(fmt::format_string<const A&...> format, const A&... arguments) {
    if (tracing_) print(fmt::format(format, arguments...));
  }

  void print(const std::string& line) const;

  std::uint64_t seed_;
  Sabotage* sabotage_;
  bool tracing_;
  base::SeededRandom random_;
  Profile profile_;
  TimePoint now_;
  TimePoint latest_shown_;
  std::shared_ptr<store::sqlite::Database> database_;
  Outside outside_;
  Checks checks_;
  Clients clients_;
  Customers customers_;
  FaultCounts faults_;
  std::vector<Fault> unmet_;  ///< faults that wait for a batch to be counted with

  // The process.
  std::unique_ptr<engine::Registry> registry_;
  std::unique_ptr<Workflows> workflows_;
  std::unique_ptr<base::SeededRandom> process_random_;
  std::shared_ptr<store::KeyClaims> claims_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<engine::Loop> loop_;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::optional<engine::Batch> batch_;  ///< out, and not executed yet
  std::vector<store::Command> asides_;  ///< go with it
  std::deque<Answering> answering_;     ///< executed; the loop has not taken up all answers
  std::vector<Result> delivered_;       ///< results the loop has heard
  std::string missing_workflow_;        ///< comes later; empty: none is missing
  TimePoint stalled_until_{};
  std::uint64_t stalled_until_turn_ = 0;
  std::optional<std::uint64_t> crash_in_;  ///< during the recovery, after so many batches
  std::uint64_t evictions_ = 0;

  bool calm_ = false;
  std::uint64_t turns_ = 0;
  std::uint64_t commits_ = 0;
  std::uint64_t crashes_ = 0;
  std::uint64_t bodies_ = 0;
  std::uint64_t late_bodies_ = 0;
};

}  // namespace semel::sim
