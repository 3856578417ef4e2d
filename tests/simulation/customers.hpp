// Customers of the idempotency kernel: services that reserve keys, work, and complete, renew or release, or are never heard of
// again. They are processes of their own, so the engine's crashes leave them with fences that may be stale by then. Some work
// inside the engine's process and claim their keys; those end with it. Their commands go beside the loop's into a commit, and
// where it fails claims are kept until their keys are reserved, as the threaded driver has it.
#pragma once

#include "base/random.hpp"
#include "store/key_claims.hpp"
#include "tests/contract/model_store.hpp"
#include "tests/simulation/checks.hpp"

#include <map>
#include <set>
#include <span>
#include <vector>

namespace semel::sim {

class Customers {
 public:
  Customers(Checks& checks, base::SeededRandom& random) : checks_(checks), random_(random) {}

  /// The engine's process has begun, and nothing is claimed.
  void begin(store::KeyClaims& claims);

  /// What they ask for next: nothing, or one or two commands.
  std::vector<store::Command> ask();

  /// It was committed: S11, the answers are those of the specification. `heard`: the customers got them.
  void committed(std::span<const store::Command> commands, std::span<const store::Answer> answers,
                 bool heard);

  /// It was not: nobody knows what is stored of what was claimed.
  void failed(std::span<const store::Command> commands);

  /// The store was opened anew by the same process.
  void reopened(store::Store& store, TimePoint now);

  /// After a sweep: S11, what it took had expired by `latest`.
  void swept(store::Store& store, TimePoint latest);

 private:
  struct Claimed {
    store::Reserve ask;
    std::set<TimePoint> leases{};  ///< of reservations that were made of it
    bool is_met = false;
    bool is_revoked = false;  ///< its key was forgotten
    bool is_asked = false;    ///< the store was, for it
    bool gives_up = false;    ///< and the answer is to be released
  };

  void ask_by_claim(std::vector<store::Command>& commands, store::Reserve ask);
  void meet(Claimed& claimed, const store::Reserve& newcomer);
  bool is_of(const Claimed& claimed, const store::Model::Reservation& row) const;
  store::Answer expected(const store::Command& command);
  store::Fence draw_fence(const store::ReservationId& id);

  Checks& checks_;
  base::SeededRandom& random_;
  store::Model model_;
  store::Fence last_fence_ = 0;
  store::Fence untold_fence_ = 0;
  store::KeyClaims* claims_ = nullptr;
  std::map<store::ReservationId, Claimed> claimed_;
  std::vector<store::Command> owed_;      ///< reservations of claims whose commit failed
  std::vector<store::Command> releases_;  ///< of claims that were met and given up
  std::map<store::ReservationId, std::vector<store::Fence>> fences_;  ///< that customers were given
};

}  // namespace semel::sim
