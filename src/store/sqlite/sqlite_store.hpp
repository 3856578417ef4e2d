// The store in one SQLite file, or in memory. One process owns a file (a lock on `<file>.lock`); exactly one
// connection, the store's, writes and checkpoints; readers have their own connection and can do neither.
#pragma once

#include "store/store.hpp"
#include "store/tables.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace semel::store {

namespace sqlite {
class Database;
}  // namespace sqlite

/// So many keys of runs are near each other in their index: some 8 MiB. See sqlite/key_eras.hpp.
constexpr std::int64_t keys_per_era_default = std::int64_t{1} << 17U;

struct SqliteOptions {
  std::string path;  ///< of the file; empty: in memory
  std::chrono::milliseconds busy_timeout{
      5000};  ///< for a foreign program that holds SQLite's write lock
  std::int64_t cache_kib = std::int64_t{32} * 1024;
  /// Pages in the write-ahead log from which a commit is followed by a checkpoint: 64 MiB. Fewer means more syncs of the
  /// database file, more means longer pauses and a longer recovery.
  int checkpoint_pages = 16000;
  std::int64_t keys_per_era = keys_per_era_default;
  const char* vfs = nullptr;  ///< for tests that put faults between SQLite and the disk
  /// Who does the work of keys before this store has heard of it; outlives it. None: nobody.
  std::shared_ptr<KeyClaims> claims{};
};

/// What the store did since it was opened.
struct SqliteCounters : RuleCounters {
  std::uint64_t batches = 0;         ///< executed, reading ones too
  std::uint64_t commits = 0;         ///< batches that wrote
  std::uint64_t batches_redone = 0;  ///< because code of somebody else's ended their transaction
  std::uint64_t checkpoints = 0;
};

class SqliteStore final : public Store {
 public:
  /// Opens the file, or makes it, and brings its schema up to date. `Errc::refused` where another process owns it or a
  /// newer program wrote it.
  static base::Result<std::unique_ptr<SqliteStore>> open(const SqliteOptions& options);

  /// A store over a database in memory that outlives it: what was committed is there for the next one, as after a crash.
  /// One store at a time.
  static base::Result<std::unique_ptr<SqliteStore>> open(
      const std::shared_ptr<sqlite::Database>& memory, std::shared_ptr<KeyClaims> claims = nullptr,
      std::int64_t keys_per_era = keys_per_era_default);

  ~SqliteStore() override;

  /// After `Errc::unavailable` every call is refused: destroy it and open the file again.
  base::Result<std::vector<Answer>> execute(std::span<const Command> batch) override;

  /// A reader of its own connection; in memory it shares the one there is. May outlive the store.
  base::Result<std::unique_ptr<Reader>> reader() const;

  /// From the thread that executes.
  const SqliteCounters& counters() const;

  std::uint64_t commits() const { return counters().commits; }

 private:
  struct Impl;

  explicit SqliteStore(std::unique_ptr<Impl> impl);

  base::Result<std::vector<Answer>> guarded(const std::function<std::vector<Answer>()>& executed);

  std::unique_ptr<Impl> impl_;
};

/// An empty database in memory, for `SqliteStore::open`.
std::shared_ptr<sqlite::Database> make_memory_database();

/// Looks into a file, also beside the process that owns it; takes no lock. `Errc::refused` where there is no store or one
/// of another schema.
base::Result<std::unique_ptr<Reader>> open_reader(const std::string& path);

}  // namespace semel::store
