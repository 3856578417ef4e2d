// Commands: values that say all they need. Each is atomic in itself and is answered with one of store/answer.hpp.
#pragma once

#include "store/changes.hpp"
#include "store/reservation.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace semel::store {

/// The process becomes a node of the store, in place of the one it was before: answers `NodeOpened`. One that `works` takes
/// what partitions it finds free, at most its share. Run keys from `first_key` up to `first_key + keys_count - 1` are
/// this process's to use.
struct OpenNode {
  TimePoint now{};
  std::int64_t keys_count = std::int64_t{1} << 20;
  bool works = true;
};

/// A workflow that a node can drive, and the highest version of its runs that it can.
struct WorkflowVersion {
  std::string name;
  std::int32_t version = 1;

  bool operator==(const WorkflowVersion&) const = default;
};

/// The node is there and wants its share of the partitions; where it does not work, none. Nodes that were not heard of for the
/// length of a lease lose theirs here, and with them the right to write anything. Answers `NodeKept`. A node that lost its
/// own lease is refused this as it is everything else.
struct KeepNode {
  TimePoint now{};
  bool works = true;
  std::optional<std::vector<WorkflowVersion>>
      workflows{};  ///< what it can drive; absent: as it said before
};

/// Runs of the node's that it cannot drive: each goes to a partition of a node that works and can, whose owner is told, in
/// this commit. Answers `RunsFound`: those that are the node's still, because there is none. What is over or marked, or
/// not the node's any more, is left as it is and not among them.
struct MoveRuns {
  std::vector<RunKey> runs;
  TimePoint now{};
};

/// The node leaves these to others, in order: nothing of theirs is under way. Answers `Done`.
struct GiveUp {
  std::vector<std::int32_t> partitions;
};

/// More run keys: answers `KeysReserved`.
struct ReserveKeys {
  std::int64_t keys_count = std::int64_t{1} << 20;
};

/// The process is well: it has lived long enough to be no part of a crash loop (`crashes` back to 0), or, with
/// `closed`, it leaves in order with nothing under way. Answers `Done`.
struct NodeWell {
  bool closed = false;
};

/// Creates the run with its first entry (none for a delayed run), or answers with the run that holds its key or id.
/// Answers `RunStarted` or `RunExists` or `StartRefused`.
struct StartRun {
  NewRun run;
  std::string first_entry;  ///< encoded; empty: no entry yet (delayed)
  Changes changes;
};

/// Appends `entries` at `seq`, `seq + 1`, … (or none) and applies `changes`. Answers `Advanced`, or `Stale` if the journal
/// does not end at `seq - 1` or the run is over or marked: then nothing happened.
struct AdvanceRun {
  RunKey run = 0;
  Seq seq = 0;
  std::vector<std::string> entries;
  Changes changes;
  TimePoint now{};
};

/// Ends a run from outside, together with the unfinished children it made (and theirs). With `grace_until` it is not
/// ended but told, through its inbox (so are its children); a run nobody drives yet or any more (pending, dead,
/// diverged) is ended at once all the same. Cancelling a cancelled run changes nothing and answers `Cancelled`. Answers
/// `Cancelled`, `RunMissing`, `NotActive` (it ended otherwise) or `VersionMoved`.
struct CancelRun {
  std::string workspace = "default";
  std::string id;
  std::optional<TimePoint> grace_until;
  std::optional<Seq> expected_version;  ///< 0 is also that of a run without an entry
  TimePoint now{};
  std::string reason = "cancelled";
};

/// A failed, dead or diverged run is opened again by `entries` (the first is a `reopened`) at `seq`: its end and its
/// failure are taken back, its key and the tokens it had at its end are retaken. Answers `Advanced`, `Stale` (also if it
/// is none of the three), or `StartRefused` with run_active if another run holds the key, hook_conflict if one has a token.
struct ReopenRun {
  RunKey run = 0;
  Seq seq = 0;
  std::vector<std::string> entries;
  Changes changes;
  TimePoint now{};
};

/// Marks a run dead or diverged, with the reason, in its row alone; `seq` is the version it was judged by. Its timers
/// stay but are not due while it is marked. Answers `Advanced` or `Stale`.
struct MarkRun {
  RunKey run = 0;
  std::optional<Seq> seq;  ///< absent: it had no entry yet
  Status status = Status::diverged;
  journal::Failure reason;
};

/// Remembers what a running attempt reported; replaces what an earlier one did. Answers `Done`.
struct SaveProgress {
  RunKey run = 0;
  std::string op;
  std::string value;  ///< JSON
};

/// How long a resume id is remembered for its token, whatever becomes of the hook.
inline constexpr std::chrono::hours resume_id_kept{24};

/// A payload for the run that has the token. With a resume id it is done once: repeated with the same payload it is
/// answered as the first time, with another one refused. Answers `Delivered`, `HookMissing`, `PayloadRefused`,
/// `ResumeIdReused` or `VersionMoved`.
struct Deliver {
  /// How a run goes on that awaits the payload: `step` has it in its entry.
  struct Reading {
    std::string hook;  ///< its op
    AdvanceRun step;
  };

  std::string workspace = "default";
  std::string token;
  std::string payload;  ///< JSON
  std::optional<std::string> resume_id;
  std::string fingerprint;              ///< of the payload, where there is a resume id
  std::optional<Seq> expected_version;  ///< 0 is also that of a run without an entry
  TimePoint now{};
  /// Taking the payload in and reading it are one then. Where that run does not have the token in that hook, has not read
  /// what came before, or has moved on, the payload waits as others do, and `Delivered::read` says so.
  base::Rare<Reading> reading;
};

/// A payload for whoever has the token; if nobody has, for a new run that takes it, created with the payload waiting. The
/// run's hooks are the token alone. Answers as `Deliver` (but never `HookMissing`), or `StartRefused`: also where the
/// run's key or id would be handed back, because that run would never see the payload.
struct ResumeOrStart {
  Deliver deliver;
  NewRun run;
};

class Work;

/// Runs code of somebody else's inside the transaction; it happens whole or not at all, as commands do. As a run's step:
/// only if the journal ends at `seq - 1` and the run goes on, and then its result is written there, in the same commit.
/// Answers `Transacted`, or `Stale` for a step: then it was not run.
struct Transact {
  struct Step {
    RunKey run = 0;
    Seq seq = 0;
    std::string op;
    std::string name;
    std::uint32_t attempt = 0;
  };

  std::shared_ptr<Work> work;
  base::Rare<Step> step;
  TimePoint now{};
};

/// Removes finished runs past their retention (row, key, timers, attributes in this commit), forgets keys of others whose
/// time is over, resume ids and reservations, and then removes entries of runs that are gone, at most `limit` rows in all.
/// Answers `Swept`.
struct Sweep {
  TimePoint now{};
  std::int64_t limit = 1000;
};

/// Reads a run whole: answers `RunLoaded` or `RunMissing`.
struct LoadRun {
  RunKey run = 0;
};

/// Reads the inboxes of a live run: answers `InboxRead`.
struct ReadInbox {
  RunKey run = 0;
};

/// Which of these runs are over, dead, diverged or not there any more: answers `RunsFound`.
struct FindEnded {
  std::vector<RunKey> runs;
};

/// Which timers are due (not of dead or diverged runs) in the node's partitions, oldest first: answers `TimersDue`.
struct FindDue {
  TimePoint now{};
  std::int64_t limit = 1000;
};

/// Runs after `after` in the node's partitions that need their owner: status running, or with something in the inbox. Not
/// dead or diverged ones. In key order. Answers `RunsFound`.
struct FindWork {
  RunKey after = 0;
  std::int64_t limit = 1000;
};

/// Answers `RunLoaded` (without entries) or `RunMissing`.
struct FindRun {
  std::string workspace = "default";
  std::string id;
};

using Command =
    std::variant<OpenNode, ReserveKeys, NodeWell, StartRun, AdvanceRun, CancelRun, ReopenRun,
                 MarkRun, SaveProgress, Sweep, LoadRun, ReadInbox, FindDue, FindWork, FindRun,
                 Deliver, ResumeOrStart, Reserve, Complete, Release, Renew, Forget, FindReservation,
                 Transact, KeepNode, GiveUp, FindEnded, MoveRuns>;

/// The command's name in messages and metrics, by its position in `Command`.
std::string_view command_name(std::size_t index);

}  // namespace semel::store
