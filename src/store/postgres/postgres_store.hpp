// The store in a PostgreSQL database, schema `semel`.
#pragma once

#include "store/tables.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace semel::store {

struct PostgresOptions {
  std::string url;  ///< as libpq takes it: postgres://user@host1,host2/database?sslmode=verify-full
  /// From the last sign of life of the server to giving it up.
  std::chrono::milliseconds patience{30'000};
  /// For rows that another transaction has, and for the store itself where its last owner is just going.
  std::chrono::milliseconds lock_timeout{10'000};
  /// Nobody else may have the store open. Without it several may write at once: each batch is safe, but nobody tells them
  /// which runs are whose.
  bool alone = true;
};

/// What the store did since it was opened.
struct PostgresCounters : RuleCounters {
  std::uint64_t batches = 0;         ///< executed, reading ones too
  std::uint64_t commits = 0;         ///< batches that wrote
  std::uint64_t rounds = 0;          ///< in which rows were read
  std::uint64_t batches_redone = 0;  ///< because somebody else's transaction was in the way
  std::uint64_t fenced = 0;          ///< batches refused because another process took over
};

/// A batch is decided in memory: what its commands can touch is locked and read in one round trip, the rules are applied
/// to it, and what they made of it is written, with COMMIT, in another. Where the rules need more than was foreseen it is
/// read in further ones.
class PostgresStore final : public Store {
 public:
  /// Connects and brings the schema up to date. `Errc::refused` where that cannot be done, where a newer program wrote it
  /// or where another process has it open.
  static base::Result<std::unique_ptr<PostgresStore>> open(const PostgresOptions& options);

  ~PostgresStore() override;

  /// `Errc::unavailable` where the connection was lost while a COMMIT was under way: it is not sent again. After that, and
  /// whenever the connection is lost, every call is refused: destroy it and open it again. A new opener waits until what the
  /// last one had under way is over.
  base::Result<std::vector<Answer>> execute(std::span<const Command> batch) override;

  /// A reader of its own connection. May outlive the store.
  base::Result<std::unique_ptr<Reader>> reader() const;

  /// From the thread that executes.
  const PostgresCounters& counters() const;

 private:
  struct Impl;

  explicit PostgresStore(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace semel::store
