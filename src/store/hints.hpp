// What others did to runs of ours: other nodes, and transactions that did not pass through an engine.
#pragma once

#include "store/answer.hpp"

namespace semel::store {

/// One thread at a time, but for `interrupt`.
class Hints {
 public:
  virtual ~Hints() = default;

  /// What was committed since the last call: each is told once, and may be lost where this fails. Who misses one finds it by the
  /// state of runs.
  virtual base::Result<Effects> take() = 0;

  /// Until it is worth a look: somebody says that there is something, or the time is up.
  virtual void wait(std::chrono::milliseconds limit) = 0;

  /// Ends every `wait`, also those to come.
  virtual void interrupt() = 0;
};

}  // namespace semel::store
