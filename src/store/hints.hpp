// Who changed runs of ours, in transactions that did not pass through the engine.
#pragma once

#include "store/store.hpp"

namespace semel::store {

/// One thread at a time.
class Hints {
 public:
  virtual ~Hints() = default;

  /// What was committed since the last call: each is told once. Who forgets it finds it by the state of runs, at the latest when
  /// the store is opened.
  virtual base::Result<Effects> take() = 0;
};

}  // namespace semel::store
