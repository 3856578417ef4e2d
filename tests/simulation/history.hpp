// A run's journal as the simulation saw it being committed, entry by entry, with the rules that a new entry must keep.
// The fold is the engine's own (journal::RunState); what is known of each step is kept a second time, in other words.
#pragma once

#include "journal/state.hpp"
#include "store/changes.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace semel::sim {

/// What must hold and does not; `invariant` is its name in INVARIANTS.md.
struct Violation {
  std::string invariant;
  std::string message;
};

class History {
 public:
  /// A step as the journal has it.
  struct Step {
    std::uint32_t attempt = 0;  ///< the highest that was asked for
    bool settled = false;
    bool failed = false;  ///< … by a failure, which a retry of the run takes back
    bool at_most_once = false;
    bool begun = false;  ///< at_most_once: the body may have run
    std::uint32_t retries =
        0;  ///< attempts after the first that the journal asked for, for whatever reason
  };

  /// Adds the next entry; says which rule it breaks.
  std::optional<Violation> append(journal::Seq seq, TimePoint at, const std::string& bytes);

  const std::vector<std::string>& entries() const { return entries_; }

  const journal::RunState& state() const { return state_; }

  const std::map<std::string, Step>& steps() const { return steps_; }

  const Step* step(const std::string& op) const;

  /// The last entry, decoded.
  const journal::Entry& last() const { return last_; }

  bool has_step_failed() const { return step_failed_; }

  bool has_unknown_step() const { return unknown_step_; }

  bool has_other_failed() const { return other_failed_; }

  int reopens() const { return reopens_; }

  bool is_fork() const { return forked_; }

  bool is_first_generation() const { return generation_begins_ == 0; }

  /// Where an operator ended sleeps, and how many.
  const std::map<journal::Seq, int>& woken() const { return woken_; }

  /// Something happened that its code goes on from, and nothing shows that it did: its owner has work.
  bool awaits_continuation() const { return awaits_continuation_; }

 private:
  std::optional<Violation> check_arrival(const journal::Arrival& arrival, TimePoint at);
  std::optional<Violation> check_timer(const journal::Arrival& arrival, TimePoint at) const;
  std::optional<Violation> check_attempt(const journal::Arrival& arrival);
  std::optional<Violation> begin_anew(const journal::Arrival& arrival);
  std::optional<Violation> note_requests(const journal::Entry& entry);
  void note(const journal::Entry& entry);
  void rebuild(journal::Seq void_end);

  std::vector<std::string> entries_;
  std::size_t generation_begins_ = 0;  ///< at this entry
  journal::RunState state_;
  journal::Entry last_;
  std::map<std::string, Step> steps_;
  bool step_failed_ = false;
  bool unknown_step_ = false;
  bool other_failed_ = false;
  bool awaits_continuation_ = true;
  bool forked_ = false;
  int reopens_ = 0;
  std::map<journal::Seq, int> woken_;
};

}  // namespace semel::sim
