// Stores that do almost what a store should about tokens and payloads.
#pragma once

#include "tests/simulation/broken_stores.hpp"

#include <string>
#include <vector>

namespace semel::sim {

/// Looks up who has a token, and registers afterwards: whoever came in between is not seen.
class LooksTokensUp final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;
  Answers execute(std::span<const store::Command> batch) override;
};

/// Says that a payload is taken, and writes it with the next batch.
class AcknowledgesPayloadsEarly final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;
  Answers execute(std::span<const store::Command> batch) override;

 private:
  bool holds_some_back_ = false;
};

/// Tokens of a run that has ended are freed with the next batch.
class FreesTokensLater final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;
  Answers execute(std::span<const store::Command> batch) override;
};

/// A payload goes to whoever has just stopped waiting for it.
class DeliversToTheDead final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void repair(std::span<const store::Command> batch, std::vector<store::Answer>& answers) override;
};

/// A payload that its run has read at once waits all the same.
class KeepsWhatWasRead final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void repair(std::span<const store::Command> batch, std::vector<store::Answer>& answers) override;
};

/// A run's own registration, made at its start or by the generation before, counts as somebody else's.
class ConflictsWithItself final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void change(Commands& batch) override;
};

}  // namespace semel::sim
