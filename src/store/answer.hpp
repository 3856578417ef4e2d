// What became of a command.
#pragma once

#include "store/changes.hpp"
#include "store/reservation.hpp"

#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace semel::store {

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

}  // namespace semel::store
