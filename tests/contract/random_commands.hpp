// Command sequences from a seed: few ids, keys and runs, so that they meet each other often.
#pragma once

#include "base/random.hpp"
#include "store/command.hpp"
#include "tests/contract/model_store.hpp"

#include <set>
#include <vector>

namespace semel::store {

class RandomCommands {
 public:
  /// Looks into `model` to ask mostly for what is possible.
  RandomCommands(std::uint64_t seed, const Model& model) : random_(seed), model_(model) {}

  /// One to five commands; time goes on between batches, at times far enough for keys and retentions to pass.
  std::vector<Command> next_batch();

  /// True once in `n` on average, for decisions beside the commands.
  bool one_in(std::uint64_t n) { return random_.one_in(n); }

  TimePoint now() const { return now_; }

 private:
  Command next();
  StartRun start();
  AdvanceRun advance();
  CancelRun cancel();
  Deliver deliver();
  base::Rare<Deliver::Reading> make_reading(const Deliver& deliver);
  ResumeOrStart resume_or_start();
  Transact transact();
  Command about_reservation();
  ReservationId pick_reservation();
  Fence pick_fence(const ReservationId& id);
  HookClaim make_claim(const std::string& op);
  HookChange make_hook_change();
  std::string pick_shape();
  ReopenRun reopen();
  MarkRun mark();
  MoveRuns move();
  Command upkeep();
  NewRun make_run(const std::string& workspace);
  Changes make_changes(RunKey run, const std::string& workspace);
  End make_end();
  std::vector<std::string> make_entries(std::uint64_t count);
  std::string pick_id(const std::string& workspace);
  RunKey pick_run();
  std::string workspace_of(RunKey run) const;
  Seq next_seq(RunKey run);
  std::chrono::nanoseconds some_time();
  std::string pick(std::initializer_list<const char*> choices);

  base::SeededRandom random_;
  std::uint64_t reserves_ = 0;
  const Model& model_;
  TimePoint now_{std::chrono::seconds{1'700'000'000}};
  std::map<RunKey, std::string> made_in_;  ///< workspaces
  RunKey last_key_ = 0;
  bool has_node_ = false;
};

}  // namespace semel::store
