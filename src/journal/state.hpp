// The fold: what a run is, given its journal. Pure; the same function serves the live run and replay.
#pragma once

#include "journal/entry.hpp"

#include <span>
#include <vector>

namespace semel::journal {

/// An operation that was asked for and has not settled.
struct Operation {
  enum class Phase : std::uint8_t {
    under_way,  ///< a step: its attempt may run; anything else: it waits
    begun,      ///< an at_most_once step: its body may have run
    backoff,    ///< a step: waits for `at`, when its next attempt is due
  };

  RequestKind kind = RequestKind::step;
  Phase phase = Phase::under_way;
  bool abandoned = false;
  bool at_most_once = false;
  std::uint32_t attempt = 0;   ///< number of the attempt under way, or of the last one
  std::uint32_t failures = 0;  ///< attempts that failed by themselves: what the retry policy counts
  std::string op;
  std::string name;    ///< of an await of a hook: the hook's op
  TimePoint at{};      ///< a sleep: when it ends; a step in backoff: when it is tried again
  std::string run_id;  ///< a child or result_of: the run it waits for, once known
};

/// A hook whose token this run has, or has asked for.
struct OpenHook {
  std::string op;
  std::string token;
  std::string shape;    ///< of its payloads; empty: anything
  bool is_open = true;  ///< false: the store has not said yet who gets the token
  bool is_random = false;
  bool is_webhook = false;
  Seq taken = 0;  ///< number of the last payload that was taken: earlier ones have been, too
};

struct RunState {
  Seq next = 0;  ///< where the next entry goes; a run's version is one less
  std::vector<Operation> pending;
  std::vector<OpenHook> hooks;
  std::uint32_t crashes = 0;  ///< since it last got anywhere
  std::optional<TimePoint> grace_until;
  bool ended = false;      ///< nothing follows
  bool continued = false;  ///< what follows is another generation's

  Operation* find(std::string_view op);
  const Operation* find(std::string_view op) const;

  /// Nothing more is written for it as it is.
  bool is_over() const { return ended || continued; }

  OpenHook* find_hook(std::string_view op);
  const OpenHook* find_hook(std::string_view op) const;

  /// The await that gets the hook's next payload: the oldest one. Null: nobody waits.
  const Operation* awaiter(std::string_view hook) const;

  /// True if something of it is for its owner to do now: not just timers and other runs to wait for.
  bool has_work() const;

  void apply(const Entry& entry);

 private:
  void apply_arrival(const Arrival& arrival);
  void apply_request(const Request& request);
  void remove(std::string_view op);
  void remove_hook(std::string_view op);
  void apply_outcome(const Arrival& arrival);
};

/// A journal with what later entries voided marked: a `reopened` entry voids the requests of the entry that ended the
/// run, and the arrivals that were the failures it takes back.
struct Record {
  Entry entry;
  bool arrival_void = false;
  bool requests_void = false;
};

/// Decodes a whole journal. `Errc::corrupt` where an entry cannot be read.
base::Result<std::vector<Record>> read_journal(std::span<const std::string> entries);

/// `first`: where in the run's journal the generation begins.
RunState fold(std::span<const Record> records, Seq first = 0);

/// The attempts that were under way and are lost if nobody runs them: what the next owner has to begin anew. Steps in
/// backoff and everything that waits is not among them. An at_most_once step that had begun, and a step nobody waits
/// for, get attempt 0: not run again.
std::vector<Lost> lost_attempts(const RunState& state);

/// The failure of an at_most_once step whose process ended under it.
Failure outcome_unknown(const Operation& operation);

}  // namespace semel::journal
