// Customers of the idempotency kernel: services that reserve keys, work, and complete, renew or release, or are never heard of
// again. They are processes of their own, so the engine's crashes leave them with fences that may be stale by then. Their
// commands go beside the loop's into a commit, as the threaded driver has it.
#pragma once

#include "base/random.hpp"
#include "tests/contract/model_store.hpp"
#include "tests/simulation/checks.hpp"

#include <map>
#include <span>
#include <vector>

namespace semel::sim {

class Customers {
 public:
  Customers(Checks& checks, base::SeededRandom& random) : checks_(checks), random_(random) {}

  /// What they ask for next: nothing, or one or two commands.
  std::vector<store::Command> ask();

  /// It was committed: S11, the answers are those of the specification. `heard`: the customers got them.
  void committed(std::span<const store::Command> commands, std::span<const store::Answer> answers,
                 bool heard);

  /// After a sweep: S11, what it took had expired by `latest`.
  void swept(store::Store& store, TimePoint latest);

 private:
  store::Fence draw_fence(const store::ReservationId& id);

  Checks& checks_;
  base::SeededRandom& random_;
  store::Model model_;
  store::Fence last_fence_ = 0;
  std::map<store::ReservationId, std::vector<store::Fence>> fences_;  ///< that customers were given
};

}  // namespace semel::sim
