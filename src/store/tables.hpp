// What the rules of the commands read and write. Each store has its own tables; the rules (starting, changing, ending,
// hooks, reservations, looking, transacting) are one for all of them.
#pragma once

#include "base/shape.hpp"
#include "store/answer.hpp"
#include "store/command.hpp"
#include "store/failed.hpp"
#include "store/key_claims.hpp"
#include "store/open_runs.hpp"
#include "store/reservation_rows.hpp"
#include "store/start_policy.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace semel::store {

using HookKey = std::int64_t;

struct HookRow {
  HookKey key = 0;
  std::int64_t workspace = 0;
  RunKey run = 0;
  std::string token;
  std::string op;
  std::string shape;
  bool webhook = false;
  bool fed = false;  ///< its run was started with payloads waiting and has read none
};

/// What the rules did. A guard that never fires may be broken: each has a count.
struct RuleCounters {
  std::uint64_t units_undone = 0;  ///< code of somebody else's that threw
  std::uint64_t stale = 0;         ///< Stale answers
  std::uint64_t claims_held =
      0;  ///< starts that met a holder of their key or id, whatever came of it
  std::uint64_t starts_refused = 0;  ///< StartRefused answers, and outcomes of children that say so
  std::uint64_t versions_moved = 0;  ///< VersionMoved answers
  std::uint64_t not_active = 0;      ///< NotActive answers
  std::uint64_t hooks_in_conflict = 0;  ///< hooks whose token another one had
  std::uint64_t payloads_refused = 0;   ///< PayloadRefused answers
  std::uint64_t resumes_repeated = 0;   ///< payloads whose resume id had been used
  std::uint64_t successors = 0;         ///< runs started from payloads that another one left
  std::uint64_t keys_reused = 0;        ///< KeyReused answers
  std::uint64_t keys_claimed = 0;       ///< reservations that met a claim
  std::uint64_t takeovers = 0;          ///< reservations taken over
  std::uint64_t fences_lost = 0;        ///< FenceLost answers
};

/// Runs, with what belongs to them alone: their attributes and their workspace's name.
class RunTable {
 public:
  virtual ~RunTable() = default;

  /// The workspace's number; none if nothing was ever stored in it.
  virtual std::optional<std::int64_t> workspace(const std::string& name) = 0;
  virtual std::int64_t workspace_or_create(const std::string& name) = 0;

  /// False if somebody has its key or its id: decided by the unique indexes.
  virtual bool insert(const NewRun& run, std::int64_t workspace, Status status) = 0;
  virtual std::optional<Holder> holder_of_key(std::int64_t workspace, const std::string& key) = 0;
  virtual std::optional<Holder> holder_of_id(std::int64_t workspace, const std::string& id) = 0;

  virtual std::optional<RunKey> find(std::int64_t workspace, const std::string& id) = 0;
  virtual std::optional<Status> status(RunKey run) = 0;
  virtual std::optional<RunRecord> record(RunKey run) = 0;

  struct Place {
    std::int64_t workspace = 0;
    std::string workspace_name;
    std::string id;
    std::optional<RunKey> parent;
  };

  virtual std::optional<Place> place(RunKey run) = 0;

  /// What a waiter needs to know of another run's end.
  struct Outcome {
    Status status = Status::completed;
    std::string output;
    base::Rare<journal::Failure> failure;
  };

  virtual Outcome outcome(RunKey run) = 0;
  virtual std::vector<RunKey> unfinished_children(RunKey parent) = 0;

  virtual void set_status(RunKey run, Status status) = 0;
  /// Where it is higher than what is there.
  virtual void raise_code_version(RunKey run, std::int32_t version) = 0;
  virtual void mark(RunKey run, Status status, const journal::Failure& reason) = 0;
  virtual void end(RunKey run, const End& end, TimePoint now) = 0;

  /// Its next entry, at `first_seq`, is the first of a new generation.
  virtual void continue_as_new(RunKey run, const std::string& input, Seq first_seq) = 0;

  /// Takes the end back and the key again; false if another run has the key.
  virtual bool reopen(RunKey run, Status status) = 0;
  virtual void set_attribute(RunKey run, const std::string& name, const std::string& value) = 0;
  virtual void release_key(RunKey run) = 0;
  /// Row, key and attributes; the entries are left to the sweep.
  virtual void remove(RunKey run) = 0;
};

/// The position (run, seq) of an entry is unique: the optimistic lock of every command.
class JournalTable {
 public:
  virtual ~JournalTable() = default;

  /// Writes the entry if the run is pending, running or waiting and its journal ends at `seq - 1`; otherwise nothing.
  virtual bool append_if_next(RunKey run, Seq seq, TimePoint at, std::string_view entry) = 0;

  /// Behind an entry that this transaction has just written, or under another guard.
  virtual void append(RunKey run, Seq seq, TimePoint at, std::string_view entry) = 0;

  /// The position of the last entry; none: there is no entry.
  virtual std::optional<Seq> last(RunKey run) = 0;

  /// Where the next entry goes.
  Seq next(RunKey run) {
    const auto end = last(run);
    return end ? *end + 1 : 0;
  }

  /// From `first` on.
  virtual std::vector<std::string> entries(RunKey run, Seq first) = 0;

  /// The run is gone: its entries go with the next sweeps.
  virtual void discard(RunKey run) = 0;
};

/// The reasons a run has to go on: its timers, its inbox, the runs it waits for. They are written in the commit that
/// makes them true, so none can get lost. Also what its running attempts reported.
class Wakeups {
 public:
  virtual ~Wakeups() = default;

  /// Moves it if it is there.
  virtual void set_timer(RunKey run, TimerKind kind, const std::string& op, TimePoint due) = 0;
  virtual void clear_timer(RunKey run, TimerKind kind, const std::string& op) = 0;
  /// When it is due, if it is set.
  virtual std::optional<TimePoint> due(RunKey run, TimerKind kind, const std::string& op) = 0;

  /// `item.id` is given by the table.
  virtual void put(RunKey run, const InboxItem& item) = 0;
  virtual void consume(RunKey run, std::int64_t item) = 0;
  virtual std::vector<InboxItem> inbox(RunKey run) = 0;

  virtual void wait_for(RunKey target, RunKey run, const std::string& op) = 0;
  virtual void stop_waiting(RunKey run, const std::string& op) = 0;

  struct Waiter {
    RunKey run = 0;
    std::string op;
  };

  /// Who waits for `target`, in the order of runs and operations. They wait no longer.
  virtual std::vector<Waiter> take_waiters(RunKey target) = 0;

  /// Of a run that is not over; otherwise nothing is left behind.
  virtual void save_progress(RunKey run, const std::string& op, const std::string& value) = 0;
  virtual std::vector<std::pair<std::string, std::string>> progress(RunKey run) = 0;

  /// The run goes on as new: what its old generation waited for is gone; its deadline, its grace and a cancel are not.
  virtual void clear_generation(RunKey run) = 0;

  /// The run is over: nothing wakes it any more.
  virtual void clear(RunKey run) = 0;
};

/// Hooks, payloads, and the resume ids that were used. Who has a token is decided by a unique index.
class HookTable {
 public:
  virtual ~HookTable() = default;

  /// The hook's number, or none: somebody has the token.
  virtual std::optional<HookKey> insert(std::int64_t workspace, RunKey run, const HookClaim& claim,
                                        TimePoint now) = 0;
  virtual std::optional<HookRow> active(std::int64_t workspace, const std::string& token) = 0;
  virtual std::optional<HookRow> active_of(RunKey run, const std::string& op) = 0;
  /// In the order they were taken.
  virtual std::vector<HookRow> active_of(RunKey run) = 0;

  virtual void adopt(const HookRow& hook, const HookClaim& claim) = 0;
  /// All of a run: the next generation adopts them.
  virtual void abandon(RunKey run) = 0;
  virtual void set_fed(HookKey hook, bool fed) = 0;

  /// Free from here on. The row goes unless payloads are left, or `retakable` by a retry of its run.
  virtual void release(HookKey hook, bool retakable) = 0;

  /// Takes again what the run had at its end. Another run's id, if that has one of the tokens: then nothing changed.
  virtual std::optional<std::string> retake(RunKey run) = 0;
  /// Takes that back.
  virtual void give_back(RunKey run) = 0;
  /// Confirms it.
  virtual void keep(RunKey run) = 0;

  // ---------------------------------------------------------------------------------------------- payloads

  virtual void put(const HookRow& hook, const Deliver& deliver,
                   const std::optional<std::string>& start) = 0;
  virtual bool has_payload(HookKey hook) = 0;
  /// The oldest that waits.
  virtual std::optional<PayloadItem> oldest(const HookRow& hook) = 0;
  virtual std::vector<PayloadItem> oldest_of_each(RunKey run) = 0;
  virtual void consume(RunKey run, std::int64_t payload) = 0;

  /// The oldest that can start a run, and which.
  struct Starter {
    std::int64_t payload = 0;
    std::string start;
  };

  virtual std::optional<Starter> oldest_starter(HookKey hook) = 0;

  /// It has started its run: not a second time.
  virtual void spend(std::int64_t payload) = 0;

  /// Those of `resume_or_start` go to another hook, in order.
  virtual void move(HookKey from, const HookRow& to, bool checked) = 0;

  // ---------------------------------------------------------------------------------------------- resume ids

  struct Receipt {
    std::string fingerprint;
    std::string run_id;
    HookKey hook = 0;
    bool started = false;
  };

  virtual std::optional<Receipt> receipt(std::int64_t workspace, const Deliver& deliver) = 0;
  virtual void remember(std::int64_t workspace, const Deliver& deliver, const Receipt& receipt) = 0;

  /// With the run itself.
  virtual void remove(RunKey run) = 0;
};

/// Who has a key is decided by a unique index. A newcomer with an outcome has finished as soon as it is there.
class ReservationTable {
 public:
  virtual ~ReservationTable() = default;

  /// The fence, or none: there is a row under the key, whatever it is worth.
  virtual std::optional<Fence> insert(const ReservationPlace& place, const Reserve& command) = 0;
  virtual std::optional<ReservationRow> find(const ReservationPlace& place) = 0;

  /// Gives what is there to a newcomer: the new fence.
  virtual Fence replace(const ReservationPlace& place, const ReservationRow& row,
                        const Reserve& command) = 0;

  /// Each says whether it is an unfinished reservation of that id, fence and time.
  virtual bool complete(const ReservationPlace& place, const Complete& command) = 0;
  virtual bool release(const ReservationPlace& place, const Release& command) = 0;
  virtual bool renew(const ReservationPlace& place, const Renew& command) = 0;

  virtual void remove(const ReservationPlace& place, Fence fence) = 0;
};

/// Everything a command may touch.
struct Tables {
  RunTable& runs;
  JournalTable& journal;
  Wakeups& wakeups;
  HookTable& hooks;
  ReservationTable& reservations;
  OpenRuns& open_runs;
  base::ShapeChecker& shapes;
  RuleCounters& counters;
  KeyClaims* claims = nullptr;  ///< none: nobody claims keys in memory
};

/// A duration as it is stored: never negative, at most a hundred years, so that deadlines do not overflow.
std::int64_t stored_duration(std::chrono::nanoseconds duration);

}  // namespace semel::store
