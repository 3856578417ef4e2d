// The store: where runs live between two steps, and the only part of the engine that remembers.
//
// It executes batches of commands. A command is a value that says everything it needs; each is atomic in itself, all
// of a batch are one transaction. What only the store can decide (who holds a key, whether a run exists) is in the
// answer, and where a run waits for the decision also in its journal, written by the same commit.
#pragma once

#include "base/rare.hpp"
#include "base/result.hpp"
#include "journal/entry.hpp"
#include "store/reservation.hpp"

#include <semel/error.hpp>

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
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

// ------------------------------------------------------------------------------------------------ commands

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

// ------------------------------------------------------------------------------------------------ answers

/// A run's row as it is now.
struct RunRecord {
  RunKey key = 0;
  std::string workspace;
  std::int32_t partition = 0;
  std::string id;
  std::string instance;
  std::string workflow;
  std::int32_t code_version = 1;
  Status status = Status::pending;
  std::string input;
  std::string output;
  base::Rare<journal::Failure> failure;  ///< how it failed, was cancelled, died or diverged
  std::optional<std::string> idempotency_key;
  std::string fingerprint;
  TimePoint created_at{};
  std::optional<TimePoint> ended_at;
  std::optional<TimePoint> deadline;
  std::optional<RunKey> parent;
  std::optional<Seq> version;  ///< absent: no entry yet
  std::uint32_t generation = 0;
  Seq first_seq = 0;  ///< where the journal of this generation begins
  std::map<std::string, std::string> attributes;

  bool operator==(const RunRecord&) const = default;
};

struct InboxItem {
  std::int64_t id = 0;
  enum class Kind : std::uint8_t { result = 0, cancel = 1 } kind = Kind::result;
  std::string op;                        ///< result: which wait it answers
  std::string value;                     ///< result: JSON
  base::Rare<journal::Failure> failure;  ///< result: how the other run failed
  TimePoint at{};                        ///< cancel: end of the grace

  bool operator==(const InboxItem&) const = default;
};

/// A payload that waits for its hook to be awaited.
struct PayloadItem {
  std::int64_t id = 0;   ///< ascending in the order of commits
  std::string hook;      ///< the hook's op
  std::string value;     ///< JSON
  bool checked = false;  ///< fits the hook's shape; otherwise nobody has looked yet

  bool operator==(const PayloadItem&) const = default;
};

/// A partition that is the node's from now on: runs in it are its to drive.
struct Gained {
  std::int32_t partition = 0;
  bool clean = true;  ///< its last owner left in order, or there was none
  std::int32_t crashes =
      0;  ///< owners in a row, up to the last one, that did not and never got well

  bool operator==(const Gained&) const = default;
};

struct NodeOpened {
  RunKey first_key = 0;
  std::vector<Gained> gained;
  /// `KeepNode` is expected several times in this; 0: nobody else can have the store, the partitions are for keeps.
  std::chrono::nanoseconds lease{0};
};

struct NodeKept {
  std::vector<Gained> gained;
  std::int64_t surplus = 0;  ///< so many more than its share
  std::int64_t nodes = 1;    ///< that are there, whether they work or not; this one is among them
};

struct KeysReserved {
  RunKey first_key = 0;
};

struct Done {};

/// `wake`: runs that got something into their inbox by this command and were not ended by it, each once.
/// `outcomes`: entries the store appended behind this command's own, in order.
/// `created`: children that were created by it and wait for their first segment; not those that wait for their start
/// timer.
/// `ended`: other runs that it ended (children of a cancelled run, a superseded holder); of a `Transact` all of them.
/// `opened`, `moved`: of a `Transact`, runs that were reopened or made with a journal, and runs that got an entry which
/// their owner does not know of.
/// Only runs of the node's own partitions; other owners hear of theirs in their own way. `ended` is all of them.
struct Effects {
  std::vector<RunKey> wake;
  std::vector<std::string> outcomes;
  std::vector<RunKey> created;
  std::vector<RunKey> ended;
  std::vector<RunKey> opened;
  std::vector<RunKey> moved;
};

struct RunStarted {
  Effects effects;
};

/// The holder of the key or id, handed back.
struct RunExists {
  RunRecord run;
};

struct StartRefused {
  enum class Why : std::uint8_t {
    input_differs,  ///< same key or id, other workflow or arguments
    run_active,     ///< on_running = reject
    run_finished,   ///< after_done = reject
    claims_differ,  ///< the key belongs to one run and the id to another
    hook_conflict,  ///< another run has the token
  } why = Why::input_differs;
  std::string run_id;  ///< the holder
};

struct Advanced {
  Effects effects;
};

struct Stale {};

struct Cancelled {
  RunRecord run;  ///< as it is after the command
  Effects effects;
};

struct RunMissing {};

struct NotActive {
  RunRecord run;
};

struct VersionMoved {
  std::optional<Seq> version;
};

struct Delivered {
  std::string run_id;
  std::string hook_id;
  bool started = false;  ///< the run was created by this call
  bool read = false;     ///< `Deliver::reading` happened
  Effects effects;       ///< of a repeated resume: none
};

/// Nobody has the token.
struct HookMissing {};

/// The payload does not fit the hook.
struct PayloadRefused {
  std::string path;
  std::string message;
};

/// The resume id was used with another payload, for this run.
struct ResumeIdReused {
  std::string run_id;
};

struct Transacted {
  std::string value;         ///< what the work gave, as JSON
  std::exception_ptr error;  ///< what it threw: then nothing of it stays, and its step has no entry
  std::string entry;         ///< that was written for its step
  Effects effects;
};

struct Swept {
  std::int64_t runs = 0;
  std::int64_t entries = 0;
  std::int64_t keys = 0;
  std::int64_t resume_ids = 0;
  std::int64_t reservations = 0;
  bool more = false;  ///< the limit was reached: call again
};

struct RunLoaded {
  RunRecord run;
  std::optional<TimePoint> starts_at;  ///< of a pending run, from LoadRun: when it begins
  std::vector<std::string> entries;    ///< of this generation, encoded, in order
  std::vector<InboxItem> inbox;        ///< in order
  std::vector<PayloadItem> payloads;   ///< the oldest of each active hook, in order
  std::vector<std::pair<std::string, std::string>> progress;  ///< op, JSON
};

struct InboxRead {
  std::vector<InboxItem> items;
  std::vector<PayloadItem> payloads;  ///< the oldest of each active hook, in order
};

struct TimersDue {
  std::vector<Timer> timers;
  std::optional<TimePoint> next;  ///< when the first one not in `timers` is due
};

struct RunsFound {
  std::vector<RunKey> runs;
};

using Answer =
    std::variant<Done, NodeOpened, KeysReserved, RunStarted, RunExists, StartRefused, Advanced,
                 Stale, Cancelled, RunMissing, NotActive, VersionMoved, Swept, RunLoaded, InboxRead,
                 TimersDue, RunsFound, Delivered, HookMissing, PayloadRefused, ResumeIdReused,
                 Acquired, Replay, InProgress, KeyReused, OutcomeUnknown, FenceLost,
                 ReservationFound, ReservationMissing, Transacted, NodeKept>;

// ------------------------------------------------------------------------------------------------ the store

/// Calls may block and come from one thread at a time.
class Store {
 public:
  virtual ~Store() = default;

  /// Executes `batch` as one transaction; each command in it happens whole or not at all, and its answer says which. A
  /// value means that everything answered is durable; `Errc::unavailable` that all of it may be or not (reopen and
  /// reload before deciding); any other error that none of it is.
  virtual base::Result<std::vector<Answer>> execute(std::span<const Command> batch) = 0;

  /// What the last transaction that wrote would have taken with hardly anything in it. None: as long as it was waited for.
  /// From the thread that executes.
  virtual std::optional<std::chrono::nanoseconds> flush_time() const { return std::nullopt; }

  /// How far the clock that all nodes go by is ahead of this machine's. From any thread.
  virtual std::chrono::nanoseconds clock_lead() const { return {}; }

  /// How often this process has found its lease taken by others, over all times it had the store open. From any thread.
  virtual std::uint64_t leases_lost() const { return 0; }
};

struct ListFilter {
  std::string workspace = "default";
  std::optional<std::string> workflow;
  std::optional<Status> status;
  std::optional<std::string> idempotency_key;
  std::map<std::string, std::string> attributes;
  std::optional<TimePoint> since;  ///< inclusive
  std::optional<TimePoint> until;  ///< exclusive
  std::optional<std::pair<TimePoint, std::string>>
      before;  ///< created_at and id of the last run of the page before
  std::size_t limit = 200;
};

struct StoredEntry {
  Seq seq = 0;
  TimePoint at{};
  std::string bytes;
};

/// An active hook.
struct HookRecord {
  std::string token;
  std::string id;
  std::string run_id;
  std::string op;  ///< empty: not adopted by the workflow's own hook yet
  std::string shape;
  bool webhook = false;
  TimePoint since{};
  std::uint64_t waiting = 0;  ///< payloads

  bool operator==(const HookRecord&) const = default;
};

/// Active hooks, the newest first.
struct HookFilter {
  std::string workspace = "default";
  std::optional<std::string> run_id;
  std::optional<std::int64_t> before;  ///< id of the last hook of the page before
  std::size_t limit = 200;
};

/// A hook that is reachable by its token alone, and whose it is.
struct PublicHook {
  std::string workspace;
  HookRecord hook;
};

/// A payload whose hook is gone.
struct Undelivered {
  std::int64_t id = 0;
  std::string token;
  std::string value;
  TimePoint at{};

  bool operator==(const Undelivered&) const = default;
};

/// An unfinished run that nothing would ever wake; there should be none.
struct Orphan {
  std::string workspace;
  std::string id;
  Status status = Status::waiting;
};

/// A process that has the store open.
struct NodeRecord {
  std::int64_t number = 1;  ///< never used again
  std::string name{};       ///< empty where nobody said one
  TimePoint since{};
  TimePoint kept_at{};                       ///< last heard of
  std::chrono::nanoseconds lease{0};         ///< 0: it has the store to itself
  bool works = true;                         ///< takes partitions
  bool is_this = false;                      ///< the one that looks
  std::int64_t partitions = 0;               ///< that are its own
  std::vector<WorkflowVersion> workflows{};  ///< that it can drive, by name; of one with a lease
};

struct NodeList {
  std::vector<NodeRecord> nodes;  ///< by number
  std::int64_t unowned = 0;       ///< partitions that nobody has
};

/// Who drives a run.
struct RunOwner {
  std::string node;        ///< its name; empty: nobody just now
  bool has_worker = true;  ///< a node that works can drive it, this or another
};

/// Looks without touching: sees what is committed, never waits for a writer. Any thread; calls are serialised inside.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual base::Result<std::optional<RunRecord>> find(std::string_view workspace,
                                                      std::string_view id) = 0;
  virtual base::Result<std::vector<RunRecord>> list(
      const ListFilter& filter) = 0;  ///< newest first
  virtual base::Result<std::vector<StoredEntry>> journal(RunKey run, Seq from,
                                                         std::size_t limit) = 0;
  virtual base::Result<std::vector<Timer>> timers(RunKey run) = 0;
  virtual base::Result<std::optional<HookRecord>> hook(std::string_view workspace,
                                                       std::string_view token) = 0;
  virtual base::Result<std::vector<HookRecord>> hooks(const HookFilter& filter) = 0;
  /// Of all workspaces; where several have one with this token, the oldest: a latecomer takes nothing over.
  virtual base::Result<std::optional<PublicHook>> public_hook(std::string_view token) = 0;
  /// Payloads that were accepted for a run and never read by it, in order.
  virtual base::Result<std::vector<Undelivered>> undelivered(RunKey run) = 0;
  /// The predicate behind "no run is ever stuck"; see docs/guarantees.md.
  virtual base::Result<std::vector<Orphan>> orphans(std::size_t limit) = 0;

  virtual base::Result<NodeList> nodes() { return NodeList{}; }

  /// None: the store is one process's, and so are its runs.
  virtual base::Result<std::optional<RunOwner>> owner(const RunRecord&) {
    return std::optional<RunOwner>{};
  }
};

}  // namespace semel::store
