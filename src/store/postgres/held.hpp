// The rows a batch has read, and what its commands make of them: the tables of the rules, in memory. What a command needs
// and was not read is noted, and the command given up by `Missing`; the batch is decided anew once it is there.
//
// Everything here was read behind the locks of the runs and reservations it belongs to, in the same transaction, so nobody
// else can change it before the commit; but for runs of which the writer knows enough (`presumed.hpp`). What is not there (a
// free key, a free token) is for the unique indexes to decide.
#pragma once

#include "store/postgres/ledger.hpp"
#include "store/postgres/wants.hpp"
#include "store/tables.hpp"

#include <memory_resource>
#include <set>
#include <unordered_map>

namespace semel::store::postgres {

/// Thrown where a command needs what was not read; what that is has been noted.
struct Missing : Internal {};

struct RunRow {
  std::int64_t workspace = 0;
  TimePoint created_at{};
  std::optional<TimePoint> ended_at;
  std::optional<TimePoint> deadline;
  std::optional<RunKey> parent;
  std::int64_t key_ttl = 0;
  std::int64_t retention = 0;
  std::optional<std::int64_t> key_until;
  std::optional<std::int64_t> keep_until;
  Seq first_seq = 0;
  std::int32_t partition = 0;
  std::int32_t code_version = 1;
  std::uint32_t generation = 0;
  Status status = Status::pending;
  bool holds_key = false;
  std::string id;
  std::string instance;
  std::string workflow;
  std::optional<std::string> idempotency_key;
  std::string fingerprint;
  std::optional<std::string> failure;  ///< encoded
};

struct EntryRow {
  TimePoint at{};
  std::string bytes;
};

struct HeldHook {
  HookRow row;
  TimePoint since{};
  bool active = true;
  bool at_end = false;
};

struct PayloadRow {
  HookKey hook = 0;
  RunKey run = 0;
  TimePoint at{};
  bool checked = false;
  std::string value;
  std::optional<std::string> start;
};

struct ResumeRow {
  HookTable::Receipt receipt;
  TimePoint until{};
};

struct HeldReservationRow {
  ReservationRow row;
  std::int64_t workspace = 0;
  std::int64_t ttl = 0;
  std::int64_t sweep_at = 0;
  ReservationId id;
};

/// Rows of a run that go before others of it come.
struct Cleared {
  bool generation = false;  ///< sleeps, retries, results, waits, progress
  bool all = false;
};

/// Of a run whose row was not read.
struct PresumedEnd {
  TimePoint at{};
  Status status = Status::completed;
  std::optional<std::string> failure;  ///< encoded
  std::string output;
};

/// What its owner is to look at a run for. Stored as these numbers: never reuse one.
enum class HintKind : std::uint8_t {
  got_something = 0,
  is_new = 1,
  is_over = 2,
  goes_on_again = 3,
  got_entry = 4,
};

struct HintRow {
  RunKey run = 0;
  std::int32_t partition = 0;
  HintKind kind = HintKind::got_something;
};

using TimerName = std::tuple<RunKey, TimerKind, std::string>;
using ItemName = std::pair<RunKey, std::int64_t>;
using Operation = std::pair<RunKey, std::string>;

struct Held {
  Held(const Wants& wanted, bool presumes, Known& known_facts, base::ShapeChecker& shape_checker,
       RuleCounters& counted);
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held();

  /// What was read of a run that may or may not be there. Throws `Missing` unless that is all of `parts`.
  void need(RunKey run, Parts parts);
  /// Its row; none: there is no such run.
  const RunRow* row(RunKey run);

  /// What is known of a run that was not read. None: it has to be.
  const OpenRun* presumed(RunKey run) const;

  [[noreturn]] void miss(RunKey run, Parts parts);

  std::int64_t draw(Number kind);
  /// True if more numbers were drawn than there were; then `more` says how many it takes.
  bool is_short_of_numbers();

  struct Mark {
    std::array<std::size_t, 17> ledgers{};
    std::array<std::size_t, number_kinds> drawn{};
  };

  Mark mark() const;
  void undo_to(const Mark& mark);

  /// A hook, a payload or a run that was read or made: found by what it is looked for by.
  void index(RunKey run, const RunRow& row);
  void index(HookKey key, const HeldHook& hook);
  void index(std::int64_t payload, const PayloadRow& row);

  const Wants& wants;   ///< what was read
  const bool presumes;  ///< as long as nobody was in the way
  Wants more;           ///< what was missing
  Known& known;

  std::pmr::monotonic_buffer_resource memory;

  Ledger<RunKey, RunRow> runs{memory};
  Ledger<RunKey, std::string> inputs{memory};
  Ledger<RunKey, std::string> outputs{memory};
  Ledger<RunKey, std::optional<Seq>> ends{memory};  ///< positions of last entries
  Ledger<std::pair<RunKey, Seq>, EntryRow> journal{memory};
  Ledger<Operation, std::string> attributes{memory};
  Ledger<TimerName, TimePoint> timers{memory};
  Ledger<ItemName, InboxItem> inbox{memory};
  Ledger<Operation, RunKey> waits{memory};
  Ledger<Operation, std::string> progress{memory};
  Ledger<RunKey, Cleared> cleared{memory};
  Ledger<HookKey, HeldHook> hooks{memory};
  Ledger<std::int64_t, PayloadRow> payloads{memory};
  Ledger<ResumeName, ResumeRow> resumes{memory};
  Ledger<std::string, HeldReservationRow> reservations{memory};
  Ledger<RunKey, bool> garbage{memory};
  Ledger<RunKey, PresumedEnd> presumed_ends{memory};

  std::vector<HintRow> hints;  ///< for owners of runs that are not the writer's

  std::set<RunKey> locked;                  ///< runs that are there and this transaction's
  std::unordered_map<RunKey, Parts> parts;  ///< what was read, also of runs that are not there
  std::map<HookKey, bool> whole;            ///< whether all payloads of a stored hook were read
  std::array<std::vector<std::int64_t>, number_kinds> numbers;
  std::array<std::size_t, number_kinds> drawn{};

  // They only grow: whoever finds something by them looks whether it is still so.
  std::map<Name, std::set<RunKey>> by_id;
  std::map<Name, std::set<RunKey>> by_key;
  std::map<RunKey, std::set<RunKey>> by_parent;
  std::map<Name, std::set<HookKey>> hooks_by_token;
  std::map<RunKey, std::set<HookKey>> hooks_by_run;
  std::map<HookKey, std::set<std::int64_t>> payloads_by_hook;
  std::map<RunKey, std::set<Operation>> waits_by_target;

  OpenRuns open_runs = OpenRuns::forgetful();
  std::unique_ptr<RunTable> run_table;
  std::unique_ptr<JournalTable> journal_table;
  std::unique_ptr<Wakeups> wakeups;
  std::unique_ptr<HookTable> hook_table;
  std::unique_ptr<ReservationTable> reservation_table;
  /// As the rules see them.
  Tables tables;
};

std::unique_ptr<RunTable> make_run_table(Held& held);
std::unique_ptr<JournalTable> make_journal_table(Held& held);
std::unique_ptr<Wakeups> make_wakeups(Held& held);
std::unique_ptr<HookTable> make_hook_table(Held& held);
std::unique_ptr<ReservationTable> make_reservation_table(Held& held);

/// Of a run or an inbox item; none is none.
base::Rare<journal::Failure> decode_failure(const std::optional<std::string>& bytes);

}  // namespace semel::store::postgres
