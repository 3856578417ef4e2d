// The world outside the engine: what step bodies did there, kept where no crash of the engine can reach it. Bodies of
// the simulated workflows talk to it, the checks compare it with what the engine wrote down.
#pragma once

#include "base/random.hpp"
#include "engine/live_run.hpp"

#include <semel/step.hpp>

#include <coroutine>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace semel::sim {

class Outside {
 public:
  struct Attempt {
    bool begun = false;
    std::optional<engine::StepOutcome> outcome;  ///< what the body returned or threw
    TimePoint deadline = TimePoint::max();       ///< moved by heartbeats
    std::optional<std::chrono::nanoseconds> timeout;
    bool was_due = false;  ///< before the clock was set back: the engine may have seen it
  };

  /// Everything that was done under one step id.
  struct Step {
    std::map<std::uint32_t, Attempt> attempts;  ///< by number, those handed out
    int begun = 0;
    int thrown = 0;
    int effects = 0;
    std::uint64_t first_effect = 0;  ///< in the order of all effects; 0: none yet
    int progress = 0;                ///< the last one it reported
  };

  explicit Outside(base::SeededRandom& random) : random_(random) {}

  Step& step(const std::string& id) { return steps_[id]; }

  /// Null if no body of it was ever handed out.
  const Step* find(const std::string& id) const;

  const std::map<std::string, Step>& steps() const { return steps_; }

  /// The clock is about to be set back from here.
  void note_due(TimePoint now);

  // ------------------------------------------------------------------------------------------ for step bodies

  /// An effect that goes well: 2 x + 1.
  int work(const StepContext& context, int x);
  /// The same, but throws now and then, `throws_max` times in all.
  int flaky_work(const StepContext& context, int x, int throws_max);
  /// Throws FatalError until its body was begun more than `until` times.
  int stubborn_work(const StepContext& context, int x, int until);
  /// Throws now and then, `throws_max` times in all: for code that is not a step's body.
  void trip(const std::string& who, int throws_max);
  /// Kills the process.
  int poison(const StepContext& context);
  /// Reports progress, one more each time; checks that it is handed from attempt to attempt.
  void beat(const StepContext& context);

  /// Suspends a Task body until the simulation lets it go on.
  struct Pause {
    Outside& outside;
    std::string step_id;

    bool await_ready() const noexcept { return false; }

    void await_suspend(std::coroutine_handle<> waiting) { outside.paused_[step_id] = waiting; }

    void await_resume() const noexcept {}
  };

  Pause pause(const StepContext& context) { return {*this, context.id}; }

  /// Which program is deployed: workflow code may depend on it, at its peril.
  int code_version = 1;
  /// Whether poison is deadly.
  bool poison_kills = true;

  // ------------------------------------------------------------------------------------------ for the simulation

  /// Where the Task body of this step stands suspended; forgotten by asking.
  std::coroutine_handle<> take_paused(const std::string& step_id);

  void forget_paused() { paused_.clear(); }

  /// A body has killed the process since the last time this was asked.
  bool take_killed() { return std::exchange(killed_, false); }

  /// What a body saw that cannot be; empty: all is well.
  std::string complaint;

 private:
  void count_effect(Step& step);

  base::SeededRandom& random_;
  std::map<std::string, Step> steps_;
  std::map<std::string, std::coroutine_handle<>> paused_;
  std::map<std::string, int> trips_;
  std::uint64_t effects_ = 0;
  bool killed_ = false;
};

}  // namespace semel::sim
