// Where a scenario is played: an engine whose process dies at chosen store calls, a caller who
// repeats what was not answered, and a ledger of what step bodies did. The real loop, the real SQL.
#pragma once

#include "app/engine_core.hpp"
#include "engine/inline_driver.hpp"

#include <semel/semel.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace semel::crash {

/// The process died. Thrown by the store call in which it did and by all that follow, until it is started again.
struct Crash {};

enum class Moment : std::uint8_t {
  before,  ///< nothing of the call happened
  after,   ///< all of it is committed, and nobody heard of it
};

/// When a process dies: at its so-manieth store call, from 1.
struct Death {
  std::uint64_t call = 1;
  Moment moment = Moment::before;
};

/// What the store and the engine around it share.
struct Fate {
  std::uint64_t calls = 0;  ///< of this process
  std::optional<Death> death;
  bool is_dead = false;
};

class CrashingEngine final : public semel::Engine {
 public:
  explicit CrashingEngine(const std::shared_ptr<Fate>& fate);

  /// The next process, over what the last one committed. Registrations stay.
  void restart() { driver().crash(); }

  /// Goes on until this time, stopping at everything that falls due on the way.
  void advance_to(TimePoint until);

  TimePoint now() { return driver().now(); }

  std::shared_ptr<store::Reader> reader() { return driver().reader(); }

 private:
  engine::InlineDriver& driver() { return static_cast<engine::InlineDriver&>(core().driver()); }
};

/// What came of a scenario, in words that do not depend on when it crashed: ids, times and attempts are left out.
struct Observed {
  std::vector<std::string> runs;      ///< each a text of many lines, sorted
  std::map<std::string, int> bodies;  ///< how often one began, by workflow, input and operation
};

class Stage {
 public:
  /// The processes die so, one after the other; the last one lives.
  explicit Stage(std::deque<Death> deaths);

  /// A call, repeated in the next process where this one died in it.
  template <class F>
  auto act(F call) {
    for (;;) {
      try {
        return call();
      } catch (const Crash&) {
        restart();
      }
    }
  }

  /// Until so long after the beginning.
  void until(std::chrono::nanoseconds since_begin);

  /// First thing in every body.
  void begun(const StepContext& step);

  /// A body that gives `value`.
  template <class T>
  auto body(T value) {
    return [this, value](const StepContext& step) {
      begun(step);
      return value;
    };
  }

  /// The same as a Task.
  template <class T>
  auto task(T value) {
    return [this, value](const StepContext& step) -> Task<T> {
      begun(step);
      co_return value;
    };
  }

  bool exists(const std::string& run_id);

  Observed observed();

  std::uint64_t calls() const { return fate_->calls; }

  int crashes() const { return crashes_; }

  void complain(std::string what) { complaints_.push_back(std::move(what)); }

  /// What is wrong, if anything.
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  struct Known {
    store::RunRecord row;
    std::vector<store::StoredEntry> entries;
  };

  struct Bodies {
    std::string label;  ///< of the run and the operation
    int count = 0;
    int last_attempt = 0;
  };

  void restart();
  void check_kept();
  void check_reasons();
  std::vector<Known> all_runs();

  std::shared_ptr<Fate> fate_ = std::make_shared<Fate>();
  std::deque<Death> deaths_;
  int crashes_ = 0;
  std::map<store::RunKey, std::vector<std::string>> committed_;  ///< before the last crash
  std::map<std::string, Bodies> bodies_;                         ///< by step id
  std::vector<std::string> complaints_;

 public:
  CrashingEngine engine;
  const TimePoint began;
};

}  // namespace semel::crash
