// The workflows of the simulated program. Together they use every operation; each is deterministic, and what it
// returns can be judged from its argument and its journal.
#pragma once

#include "tests/simulation/outside.hpp"

#include <semel/semel.hpp>

#include <string>
#include <vector>

namespace semel::sim {

class Workflows {
 public:
  /// The step of `clerk` that is SQL.
  static constexpr std::string_view transaction_name = "write down";

  explicit Workflows(Outside& outside) : outside_(outside) {}

  // In a row.
  Workflow<int> chain(int n);     ///< steps, blocking and Task
  Workflow<int> flaky(int n);     ///< retries that succeed in the end
  Workflow<int> hopeless(int n);  ///< fails, and completes after an operator's retries
  Workflow<int> once(int n);      ///< at_most_once
  Workflow<int> timed(int n);     ///< time-outs
  Workflow<int> beating(int n);   ///< heartbeats and progress
  Workflow<int> sleeper(int n);   ///< sleeps, now, uuid, random, version, attributes, emits
  Workflow<int> graceful(int n);  ///< cleans up when it is cancelled

  Workflow<int> clerk(int n);  ///< a transactional step, which throws now and then

  // Side by side.
  Workflow<int> fan(int n);                  ///< all: tuple and vector, steps and branches
  Workflow<int> brittle(int n);              ///< all with a member that fails
  Workflow<int> verdicts(int n);             ///< all_settled: tuple and vector
  Workflow<std::vector<int>> racing(int n);  ///< race: steps, sleeps, branches, children
  Workflow<int> background(int n);           ///< begin: awaited later, or never
  Workflow<int> saga(int n);

  // Among others.
  Workflow<int> parent(int n);                   ///< child, spawn, result_of
  Workflow<int> family(int n);                   ///< keyed children, grandchildren, one that fails
  Workflow<int> patient(std::string id, int n);  ///< waits for a run somebody else started

  // Talked to.
  Workflow<int> mailbox(int n);   ///< a hook: awaited with a time, released, taken again
  Workflow<int> renewing(int n);  ///< goes on as new, keeping its token

  // Trouble by design.
  Workflow<int> poison(int n);    ///< kills its process
  Workflow<int> drifting(int n);  ///< depends on which program is deployed

 private:
  Outside& outside_;
};

/// The steps of `chain(n)`.
constexpr int chain_length(int n) { return 1 + n % 4; }

}  // namespace semel::sim
