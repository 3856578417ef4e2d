// What commands write of runs, as values: runs to be made, timers, hooks, waits for others, ends.
#pragma once

#include "base/rare.hpp"
#include "journal/entry.hpp"

#include <semel/error.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace semel::store {

using journal::Seq;

/// A run's surrogate key: never used again, not even after the run was swept.
using RunKey = std::int64_t;

/// For the store to choose: one of the node's that makes the run, where it has any.
inline constexpr std::int32_t any_partition = -1;

/// Stored as these numbers: never reuse one.
enum class Status : std::uint8_t {
  pending = 0,  ///< delayed: waits for its start timer, nothing has happened yet
  running = 1,  ///< its owner has work for it: a step under way or something to deliver
  waiting = 2,  ///< parked: on timers or on other runs
  completed = 3,
  failed = 4,
  cancelled = 5,
  dead = 6,      ///< kept killing its process; not an end
  diverged = 7,  ///< code and journal disagree; not an end
};

constexpr bool is_end(Status status) {
  return status == Status::completed || status == Status::failed || status == Status::cancelled;
}

/// Stored as these numbers: never reuse one.
enum class TimerKind : std::uint8_t {
  sleep = 0,     ///< of the operation `op`
  retry = 1,     ///< the next attempt of the step `op`
  start = 2,     ///< a delayed run begins
  deadline = 3,  ///< the run fails
  grace = 4,     ///< a graceful cancel becomes an immediate one
};

/// (run, kind, op) is unique: setting it again moves it, clearing it needs no more than that. `due` is given on removal
/// too, because timers are stored in the order they fall due.
struct Timer {
  RunKey run = 0;
  TimerKind kind = TimerKind::sleep;
  std::string op;
  TimePoint due{};

  bool operator==(const Timer&) const = default;
};

/// What a newcomer does about an unfinished holder of its key or id (dead, diverged and pending ones are unfinished).
/// `attach` hands it back; `supersede` cancels it, with its children, and takes over.
enum class OnRunning : std::uint8_t { attach, reject, supersede };

/// What a newcomer does about a finished one. `start_new` takes over: the old run keeps its row and loses the key, or, if
/// it has the newcomer's id, is removed at once. `start_new_if_failed` does so unless it completed.
enum class AfterDone : std::uint8_t { return_result, start_new, start_new_if_failed, reject };

/// A token to be taken for the run `op` belongs to. Until the run's own hook with this token adopts it, it has no op: so
/// registered by a start, or carried into a new generation.
struct HookClaim {
  std::string op;
  std::string token;  ///< unique among the active hooks of the workspace
  std::string shape;  ///< of its payloads (semel/shape.hpp); empty: anything is accepted
  bool webhook = false;

  bool operator==(const HookClaim&) const = default;
};

/// A run to be created, if nobody holds its key or id. A key is held until `key_ttl` after its run's end, a chosen id as
/// long as its run is kept; what is past its time counts for nothing, swept or not. A run is handed back only to a start
/// with the same workflow and, if `check_fingerprint`, the same fingerprint. Made with its start timer and its deadline
/// timer, if it has such.
struct NewRun {
  RunKey key = 0;
  std::string workspace = "default";
  std::int32_t partition = any_partition;
  std::string id;  ///< public; unique in the workspace
  bool chosen_id =
      false;  ///< the caller chose it: then it is treated like a key; a made one cannot be taken
  std::string instance;  ///< part of every step id; fresh even where an id is used again
  std::string workflow;
  std::int32_t code_version = 1;
  std::string input;  ///< JSON array of the arguments
  TimePoint created_at{};
  std::optional<std::string> idempotency_key;
  std::chrono::nanoseconds key_ttl{std::chrono::hours{24 * 30}};
  std::string fingerprint;  ///< 32 bytes over workflow and arguments
  bool check_fingerprint = true;
  OnRunning on_running = OnRunning::attach;
  AfterDone after_done = AfterDone::return_result;
  std::optional<TimePoint> start_at;  ///< delayed until then
  std::optional<TimePoint> deadline;
  std::map<std::string, std::string> attributes;
  std::chrono::nanoseconds retention{std::chrono::hours{24 * 7}};
  std::optional<RunKey>
      parent;  ///< set for runs made by `child`: cancelling the parent reaches them
  /// Taken in the same commit, all or none: where another run has one, the newcomer is refused, or supersedes it.
  std::vector<HookClaim> hooks;
};

struct End {
  Status status = Status::completed;
  std::string output;  ///< JSON of a completed run
  base::Rare<journal::Failure> failure;
};

/// Another run to be created in the same commit, with status running and no entry yet (or pending with a start timer).
/// An outcome entry goes behind the entries of the command that asked: name = the run's id, value = "true" if it was
/// created and "false" if it was attached to, or a failure with the code the same start would have been refused with.
/// The holder of a key is attached to as `start` does. No run supersedes itself or one above it, nor waits for itself:
/// RUN_ACTIVE. A command that ends its run leaves no outcome behind the end, but the child is made.
struct ChildRequest {
  std::string op;
  NewRun run;
  bool wait =
      true;  ///< `child`: as if followed by a WaitRequest for it, and it gets its parent; false: `spawn`
};

/// Wait for the end of another run of the workspace: when it ends, the commit that ends it puts a result into this
/// run's inbox. Over already: this commit does. Not there: an outcome entry with failure RUN_NOT_FOUND.
struct WaitRequest {
  std::string op;
  std::string run_id;
};

/// What becomes of a hook, in the order the workflow asked. What only the store can decide is an outcome entry for `op`.
struct HookChange {
  enum class Kind : std::uint8_t {
    /// Takes the token: the unique index decides. A hook of this run that nobody adopted is adopted, with its payloads; the
    /// same hook again is no conflict. Outcome: empty, or failure HOOK_CONFLICT whose details are the owner's id; a
    /// success that nobody waits for (`awaited` false) has none.
    open,
    next,      ///< outcome: the oldest payload that waits, which is consumed; none: no outcome
    try_next,  ///< the same; none: an outcome without a value
    close,    ///< outcome: "true" if no payload waited and the token is free now, "false" otherwise
    release,  ///< frees the token; no outcome
  };

  Kind kind = Kind::open;
  std::string op;    ///< release: unused
  std::string hook;  ///< op of the hook; open: unused
  HookClaim claim;   ///< open: its op is `op`
  bool awaited = true;
};

/// What a new entry of a run changes besides the journal, in the same commit, in this order: the inbox, payloads, timers
/// cleared, timers set, attributes, waits dropped, children, waits, hooks, the next generation or the end.
///
/// Wherever a token is freed, payloads left behind are kept and can be looked at. Those of `ResumeOrStart` go on: to the
/// hook that has the token after this command, or else to one new run, started as the oldest of them says, with all
/// of them waiting. Not where the run was cancelled, nor where it was itself started with payloads and read none.
struct Changes {
  /// Of the run's row; absent: unchanged, nothing is written. It is `running` all the same where an outcome entry follows
  /// that the workflow goes on from (all but that of a `child` that is there): its owner has work.
  std::optional<Status> status;
  /// Of the workflow as it is where the run is driven: kept where it is higher than what the run has. 0: unchanged.
  std::int32_t code_version = 0;
  std::vector<Timer> timers_set;
  std::vector<Timer> timers_cleared;
  std::vector<std::int64_t> inbox_consumed;
  std::vector<std::int64_t> payloads_consumed;
  std::vector<std::pair<std::string, std::string>> attributes;  ///< set, in order
  std::vector<ChildRequest> children;
  std::vector<WaitRequest> waits;
  std::vector<std::string> waits_dropped;  ///< ops that no longer wait for another run
  std::vector<HookChange> hooks;           ///< not looked at in a command that ends its run
  /// The arguments the run goes on with as new: the next entry is its generation's first. Timers, waits and results of the
  /// old one are gone, but not its deadline, its grace, its payloads and its hooks, which the new one adopts by token.
  std::optional<std::string> continue_as_new;
  base::Rare<End> end;
};

}  // namespace semel::store
