// The store in a PostgreSQL database, schema `semel`.
#pragma once

#include "store/postgres/identity.hpp"
#include "store/store.hpp"
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
  /// Who opens it; kept where it is opened again. Without `OpenNode` nothing is said of it, and all runs are the writer's.
  std::shared_ptr<postgres::NodeIdentity> identity = std::make_shared<postgres::NodeIdentity>();
};

/// What the store did since it was opened.
struct PostgresCounters : RuleCounters {
  std::uint64_t batches = 0;         ///< executed, reading ones too
  std::uint64_t commits = 0;         ///< batches that wrote
  std::uint64_t rounds = 0;          ///< in which rows were read
  std::uint64_t batches_redone = 0;  ///< because somebody else's transaction was in the way
  std::uint64_t fenced = 0;          ///< batches refused because the node had lost its lease
};

/// A batch is decided in memory: what its commands can touch is locked and read in one round trip, the rules are applied
/// to it, and what they made of it is written, with COMMIT, in another. Where the rules need more than was foreseen it is
/// read in further ones.
class PostgresStore final : public Store {
 public:
  /// Connects and brings the schema up to date. `Errc::refused` where that cannot be done or a newer program wrote it.
  static base::Result<std::unique_ptr<PostgresStore>> open(const PostgresOptions& options);

  ~PostgresStore() override;

  /// `Errc::unavailable` where the connection was lost while a COMMIT was under way: it is not sent again. After that, and
  /// whenever the connection is lost, every call is refused: destroy it and open it again. `OpenNode` then waits until what
  /// was under way is over. `Errc::refused`, too, where the node has lost its lease.
  base::Result<std::vector<Answer>> execute(std::span<const Command> batch) override;

  std::optional<std::chrono::nanoseconds> flush_time() const override;

  std::chrono::nanoseconds clock_lead() const override;

  std::uint64_t leases_lost() const override;

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
