// Stores that do almost what a store should: decorators around the real one.
#pragma once

#include "base/random.hpp"
#include "store/sqlite/database.hpp"
#include "store/store.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace semel::sim {

using Answers = base::Result<std::vector<store::Answer>>;
using Commands = std::vector<store::Command>;

/// A copy of a whole database, to go back to.
class Snapshot {
 public:
  Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;
  ~Snapshot();

  void take(store::sqlite::Database& database);
  /// Nothing happens if none was taken.
  void restore(store::sqlite::Database& database);

 private:
  sqlite3* copy_ = nullptr;
  bool taken_ = false;
};

/// By itself it changes nothing.
class BrokenStore : public store::Store {
 public:
  BrokenStore(std::unique_ptr<store::Store> inner,
              std::shared_ptr<store::sqlite::Database> database)
      : inner_(std::move(inner)), database_(std::move(database)) {}

  /// Unless overridden: what `change` makes of the batch, with what `repair` makes of the answers.
  Answers execute(std::span<const store::Command> batch) override;

 protected:
  /// Before the batch is executed.
  virtual void change(Commands&) {}

  /// Behind the commit.
  virtual void repair(std::span<const store::Command>, std::vector<store::Answer>&) {}

  store::Store& inner() { return *inner_; }

  store::sqlite::Database& database() { return *database_; }

  /// Executes SQL with these values, outside of any batch.
  template <class... Values>
  void sql(const char* text, const Values&... values) {
    store::sqlite::Statement{*database_, text}.run(values...);
  }

  base::SeededRandom random{1};

 private:
  std::unique_ptr<store::Store> inner_;
  std::shared_ptr<store::sqlite::Database> database_;
};

// ------------------------------------------------------------------------------------------------ time and order

/// Answers, and commits with the next batch.
class AcknowledgesEarly final : public BrokenStore {
 public:
  AcknowledgesEarly(std::unique_ptr<store::Store> inner,
                    std::shared_ptr<store::sqlite::Database> database);
  Answers execute(std::span<const store::Command> batch) override;

 private:
  Snapshot before_;
  Commands later_;
};

/// Sets timers once their entry is committed: a crash in between loses them.
class SetsTimersLater final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;
  Answers execute(std::span<const store::Command> batch) override;

 private:
  std::vector<store::Timer> later_;
};

/// The same with what waits in inboxes.
class FillsInboxesLater final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void change(Commands& batch) override;
  void repair(std::span<const store::Command> batch, std::vector<store::Answer>& answers) override;
};

class SendsEntriesTwice : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;
  Answers execute(std::span<const store::Command> batch) override;
};

class CallsTimersEarly final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void change(Commands& batch) override;
};

// ------------------------------------------------------------------------------------------------ things lost

class LosesTimers final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void change(Commands& batch) override;
};

class ForgetsWaiters final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void repair(std::span<const store::Command> batch, std::vector<store::Answer>& answers) override;
};

class OverlooksRuns final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void repair(std::span<const store::Command> batch, std::vector<store::Answer>& answers) override;
};

/// Runs are read as they were before their last result.
class ForgetsLastResult final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void repair(std::span<const store::Command> batch, std::vector<store::Answer>& answers) override;
};

/// Runs are read with the ends of their sleeps rounded down.
class RoundsSleepsDown final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void change(Commands& batch) override;
  void repair(std::span<const store::Command> batch, std::vector<store::Answer>& answers) override;
};

class RewindsAttempts final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void change(Commands& batch) override;
};

class ForgetsLostAttempts final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void change(Commands& batch) override;
};

// ------------------------------------------------------------------------------------------------ guards gone

/// Completes without a look at the fence.
class TrustsStaleOwners final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void change(Commands& commands) override;
};

/// Gives out keys that are claimed.
class IgnoresClaims final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void change(Commands& commands) override;
};

class SwallowsStale final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void repair(std::span<const store::Command> batch, std::vector<store::Answer>& answers) override;
};

/// Without it nothing but the index stands between an entry and its repetition.
class DropsJournalIndex final : public SendsEntriesTwice {
 public:
  DropsJournalIndex(std::unique_ptr<store::Store> inner,
                    std::shared_ptr<store::sqlite::Database> database);
};

/// Looks up who holds a key, and writes afterwards: whoever came in between is not seen.
class LooksKeysUp final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;
  Answers execute(std::span<const store::Command> batch) override;

 private:
  void make_key_index();
};

class DropsKeyIndex final : public BrokenStore {
 public:
  DropsKeyIndex(std::unique_ptr<store::Store> inner,
                std::shared_ptr<store::sqlite::Database> database);
};

/// Only the newest era of keys is known.
class ForgetsOlderKeys final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void repair(std::span<const store::Command> batch, std::vector<store::Answer>& answers) override;
};

class FreesKeysEarly final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void repair(std::span<const store::Command> batch, std::vector<store::Answer>& answers) override;
};

class CancelsWithoutChildren final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;
  Answers execute(std::span<const store::Command> batch) override;
};

class OverwritesEnds final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void repair(std::span<const store::Command> batch, std::vector<store::Answer>& answers) override;
};

class RewritesEntries final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void repair(std::span<const store::Command> batch, std::vector<store::Answer>& answers) override;
};

}  // namespace semel::sim
