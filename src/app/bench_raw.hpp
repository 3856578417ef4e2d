// The raw limit: the rows a run leaves behind, through plain SQL.
//
// The same settings, statements and bytes as our stores, but nothing around them: a journal with a unique index on
// (run, seq), and a run's row at its start alone. A run of n steps has n + 1 entries.
#pragma once

#include "app/bench_measure.hpp"
#include "store/postgres/connection.hpp"
#include "store/sqlite/database.hpp"

#include <semel/task.hpp>

#include <coroutine>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace semel::app::bench {

/// The bytes of a run's entries, as the engine writes them.
struct EntryBytes {
  std::size_t first = 0;
  std::size_t step = 0;
  std::size_t last = 0;
};

/// What a load came to while it was watched.
struct Rate {
  double steps_per_second = 0;  ///< of runs without steps: runs
  double batch_mean = 0;        ///< entries per commit
  double cpu_per_step = 0;      ///< seconds, all threads of this process
};

class RawLog {
 public:
  RawLog(const RawLog&) = delete;
  RawLog& operator=(const RawLog&) = delete;
  virtual ~RawLog() = default;

  /// One step's row per commit; the seconds each took.
  std::vector<double> single_commits(Seconds duration);

  /// So many runs at a time, as coroutines: whatever waits is committed together, and the writer resumes them.
  Rate group_commits(int runs, int steps, Seconds duration);

 protected:
  struct Row {
    std::int64_t run = 0;
    std::int64_t seq = 0;
    std::string_view entry;
    std::coroutine_handle<> waiting{};
  };

  explicit RawLog(EntryBytes bytes);

  /// In one transaction; durable when it returns.
  virtual void commit(std::span<const Row* const> rows) = 0;

 private:
  class Append;

  detail::Detached produce(int steps);

  std::string first_;
  std::string step_;
  std::string last_;
  std::vector<Row*> queue_;
  std::int64_t runs_ = 0;
  std::uint64_t done_ = 0;  ///< steps, or runs where they have none
  bool stopping_ = false;
};

/// Row by row, through prepared statements.
class SqliteRawLog final : public RawLog {
 public:
  SqliteRawLog(const std::filesystem::path& file, EntryBytes bytes);

 private:
  void commit(std::span<const Row* const> rows) override;

  std::shared_ptr<store::sqlite::Database> database_;
  store::sqlite::Statement begin_{*database_, "BEGIN IMMEDIATE"};
  store::sqlite::Statement commit_{*database_, "COMMIT"};
  store::sqlite::Statement insert_run_{
      *database_, "INSERT INTO runs (run, status, seq, updated) VALUES (?1, 0, 0, ?2)"};
  store::sqlite::Statement insert_entry_{
      *database_, "INSERT INTO journal (run, seq, at, entry) VALUES (?1, ?2, ?3, ?4)"};
  int checkpoint_pages_;
};

/// One connection, one round trip per commit: a row alone by a plain INSERT, several by `INSERT … SELECT unnest`. Its
/// tables are in the schema `semel_bench` and made anew.
class PostgresRawLog final : public RawLog {
 public:
  PostgresRawLog(const std::string& url, EntryBytes bytes);

 private:
  void commit(std::span<const Row* const> rows) override;

  store::postgres::Connection connection_;
};

}  // namespace semel::app::bench
