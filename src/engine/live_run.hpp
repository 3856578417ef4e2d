// A run in memory: its folded state, its coroutines, and what is under way for it.
#pragma once

#include "base/rare.hpp"
#include "engine/frame.hpp"
#include "journal/state.hpp"
#include "store/changes.hpp"

#include <semel/engine.hpp>

#include <functional>
#include <list>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace semel::engine {

/// What it takes to begin a run's replay.
struct Replayable {
  std::string input;
  std::vector<std::string> entries;
};

struct LiveRun {
  store::RunKey key = 0;
  std::int32_t partition = 0;
  std::string id;
  std::string workspace;
  std::string instance;
  std::uint32_t generation = 0;
  journal::Seq first_seq = 0;                  ///< where the journal of this generation begins
  const detail::WorkflowType* type = nullptr;  ///< null: only counted here, and then left to others
  std::int32_t code_version = 1;               ///< the highest that drove it
  std::optional<TimePoint> deadline;
  store::Status row_status =
      store::Status::running;  ///< what the store has, or will have once the batch is committed
  journal::RunState state;
  std::unique_ptr<Frame> frame;   ///< null until replayed
  int uncommitted = 0;            ///< entries handed to the store and not answered yet
  bool blocked = false;           ///< the store decides something: whatever arrives waits
  bool dropped = false;           ///< no longer ours: late answers and results are ignored
  std::int64_t inbox_seen = 0;    ///< items up to this one have been taken
  std::uint64_t inbox_asked = 0;  ///< number of the last batch that reads its inbox
  std::vector<std::function<void()>> deferred;  ///< what arrived while blocked
  std::vector<std::pair<std::string, std::string>>
      progress;  ///< op, JSON: what the attempt before reported
  std::size_t charged_bytes = 0;
  std::list<LiveRun*>::iterator idle_position;
  bool is_idle = false;
  base::Rare<std::vector<std::uint64_t>> listens;  ///< where it is found by those who resume it
  base::Rare<Replayable> replayable;  ///< kept only where every suspension is checked by a replay
};

/// A step attempt to run. Always handed out after the commit that asked for it.
struct StepJob {
  store::RunKey run = 0;
  std::string op;
  std::uint32_t attempt = 0;
  std::shared_ptr<detail::StepBody> body;
  std::string step_id;
  std::string run_id;
  std::string workspace;
  TimePoint deadline = TimePoint::max();
  std::string progress;  ///< JSON, or empty
  std::stop_source stop;
};

/// How an attempt ended.
struct StepOutcome {
  std::string value;  ///< JSON
  base::Rare<journal::Failure> failure;
  bool retryable = true;
  std::optional<std::chrono::nanoseconds> retry_after;
};

/// Runs an attempt's outcome out of an exception.
StepOutcome outcome_of(const std::exception_ptr& error);

}  // namespace semel::engine
