// Where a planted bug gets its hands on a simulated world. Nothing in the engine knows of it.
#pragma once

#include "engine/live_run.hpp"
#include "store/key_claims.hpp"
#include "store/sqlite/database.hpp"
#include "store/store.hpp"

#include <memory>
#include <vector>

namespace semel::sim {

class Sabotage {
 public:
  virtual ~Sabotage() = default;

  /// A store opens. What is given back is used in its place.
  virtual std::unique_ptr<store::Store> open(std::unique_ptr<store::Store> store,
                                             const std::shared_ptr<store::sqlite::Database>&) {
    return store;
  }

  /// The same store, which has begun to remember which keys it has.
  virtual void opened(store::KeyClaims&) {}

  /// The process has just died.
  virtual void crashed(store::sqlite::Database&) {}

  /// What the engine's clock shows.
  virtual TimePoint clock(TimePoint now) { return now; }

  /// The bodies that are run when the loop hands out this one.
  virtual std::vector<engine::StepJob> bodies(engine::StepJob job) { return {std::move(job)}; }

  /// As which attempt a body's result is delivered.
  virtual std::uint32_t attempt(std::uint32_t number) { return number; }
};

}  // namespace semel::sim
