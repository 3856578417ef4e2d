// The invariants, checked after every commit against the database itself and against what step bodies did outside.
// Only the first violation is kept: what follows it means little.
#pragma once

#include "engine/live_run.hpp"
#include "tests/simulation/history.hpp"
#include "tests/simulation/hook_checks.hpp"
#include "tests/simulation/mirror.hpp"
#include "tests/simulation/outside.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace semel::sim {

/// A run as the checks know it.
struct Known {
  RunKey key = 0;
  Row row;
  History history;
  bool cancel_asked = false;          ///< by a client, of it or of a run above it
  std::uint64_t made_in = 0;          ///< the commit that made it
  std::uint64_t ended_in = 0;         ///< the commit that ended it
  std::uint64_t reopened_in = 0;      ///< the commit that last reopened it
  std::optional<RunKey> key_before;   ///< who held its key when it was made
  std::optional<RunKey> id_before;    ///< who had its id
  std::optional<TimePoint> start_at;  ///< of a delayed run, as its timer has it
  bool missed_deadline = false;       ///< and was reopened since: it has none to keep

  const std::string& id() const { return row.id; }
};

class Checks {
 public:
  Checks(std::shared_ptr<store::sqlite::Database> database, const Outside& outside,
         int crashes_max);

  /// After every batch that was executed. `shown` is the latest time any clock has shown; `swept`: the batch had a
  /// sweep in it.
  void after_commit(TimePoint shown, bool swept);

  /// The loop has taken up all answers up to those of that commit: what it ended, it knows of.
  void heard(std::uint64_t commit) { heard_ = commit; }

  /// The loop may not have heard of that commit yet.
  bool is_news(std::uint64_t commit) const { return commit > heard_; }

  /// After a crash and at the end: everything that was committed is there, and as it was.
  void everything();
  /// Before a step body is handed to whoever runs it; `in_flight`: another attempt of the step is.
  void body_handed_out(const engine::StepJob& job, bool in_flight);

  void fail(std::string invariant, std::string message);

  const std::optional<Violation>& violation() const { return violation_; }

  /// How many batches have been looked at.
  std::uint64_t commit() const { return commit_; }

  const std::map<RunKey, Known>& runs() const { return runs_; }

  /// Runs that are not over.
  std::size_t open_runs() const { return open_.size(); }

  Known* find(const std::string& workspace, const std::string& id);

  /// As it was before it was swept or made room for another run of its id, too.
  const Known* find(RunKey key) const;

  /// Another run with its key or id was made and replaced by the same batch.
  bool has_rival(const Known& run) const;

  bool is_swept(const std::string& workspace, const std::string& id);

  /// A cancel for this run was executed; it reaches the runs it made.
  void cancel_asked(const std::string& workspace, const std::string& id);

  bool has_cancel_in_inbox(RunKey run);

  /// How often a line is in the program's own table.
  std::int64_t lines(const std::string& line) { return mirror_.ledger()[line]; }

  /// A client was told that its payload was accepted.
  void payload_accepted(std::int64_t payload) { hooks_.accepted(payload); }

 private:
  using Claim = std::pair<std::int64_t, std::string>;  ///< workspace, key or id

  void take_in(const Mirror::Changes& changes, TimePoint shown);
  void created(RunKey key, const Row& row);
  std::map<RunKey, Known>::iterator made_and_removed(RunKey key, const Mirror::Changes& changes);
  void removed(Known& run, const Mirror::Changes& changes, TimePoint shown);
  void append(const std::vector<NewEntry>& entries, TimePoint shown);
  void check_copy(const Known& run, std::size_t forked_at, const std::string& source);
  void check_result(const Known& run, const NewEntry& entry);
  void check_row(const Known& run, const Row* before);
  void check_end(const Known& run);
  void check_key(const Known& run, const Row* before, TimePoint shown, bool swept);
  void check_timers();
  void check_waits();
  void check_cancelled(const Known& run);
  void check_ledger();
  void note_claims(const Known& run);
  std::vector<store::Timer> expected_timers(const std::vector<store::Timer>& actual) const;

  HookChecks hooks_;
  Mirror mirror_;
  const Outside& outside_;
  int crashes_max_;
  std::uint64_t commit_ = 0;
  std::map<RunKey, Known> runs_;
  std::map<RunKey, Known> gone_;
  std::set<RunKey> open_;  ///< not over
  /// Made and gone again by one batch, that commit.
  std::map<RunKey, std::uint64_t> fleeting_;
  std::uint64_t heard_ = 0;
  std::map<Claim, RunKey> by_id_;
  std::map<Claim, std::set<RunKey>> holders_;
  std::optional<Violation> violation_;
};

/// The id a step has outside: the same for all its attempts.
inline std::string step_id(const Known& run, const std::string& op) {
  return run.row.instance + "-0-" + op;
}

}  // namespace semel::sim
