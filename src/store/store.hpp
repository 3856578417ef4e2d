// The store: where runs live between two steps, and the only part of the engine that remembers.
//
// It executes batches of commands. A command is a value that says everything it needs; each is atomic in itself, all
// of a batch are one transaction. What only the store can decide (who holds a key, whether a run exists) is in the
// answer, and where a run waits for the decision also in its journal, written by the same commit.
#pragma once

#include "base/result.hpp"
#include "store/answer.hpp"
#include "store/command.hpp"
#include "store/reader.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace semel::store {

/// Calls may block and come from one thread at a time.
class Store {
 public:
  virtual ~Store() = default;

  /// Executes `batch` as one transaction; each command in it happens whole or not at all, and its answer says which. A
  /// value means that everything answered is durable; `Errc::unavailable` that all of it may be or not (reopen and
  /// reload before deciding); any other error that none of it is.
  virtual base::Result<std::vector<Answer>> execute(std::span<const Command> batch) = 0;

  /// What the last transaction that wrote would have taken with hardly anything in it. None: as long as it was waited for.
  /// From the thread that executes.
  virtual std::optional<std::chrono::nanoseconds> flush_time() const { return std::nullopt; }

  /// How far the clock that all nodes go by is ahead of this machine's. From any thread.
  virtual std::chrono::nanoseconds clock_lead() const { return {}; }

  /// How often this process has found its lease taken by others, over all times it had the store open. From any thread.
  virtual std::uint64_t leases_lost() const { return 0; }
};

}  // namespace semel::store
