// The raw limit: the rows a run leaves behind, through plain SQLite.
//
// The same file settings, statements, checkpoints and bytes as our store, but nothing around them: a journal by rowid
// with a unique index on (run, seq), and a run's row at its start alone. A run of n steps has n + 1 entries.
#pragma once

#include "app/bench_measure.hpp"
#include "store/sqlite/database.hpp"

#include <semel/task.hpp>

#include <coroutine>
#include <filesystem>
#include <memory>
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
  double cpu_per_step = 0;      ///< seconds, all threads
};

class RawLog {
 public:
  RawLog(const std::filesystem::path& file, EntryBytes bytes);
  RawLog(const RawLog&) = delete;
  RawLog& operator=(const RawLog&) = delete;

  /// One step's row per commit; the seconds each took.
  std::vector<double> single_commits(Seconds duration);

  /// So many runs at a time, as coroutines: whatever waits is committed together, and the writer resumes them.
  Rate group_commits(int runs, int steps, Seconds duration);

 private:
  struct Row {
    std::int64_t run = 0;
    std::int64_t seq = 0;
    std::string_view entry;
    std::coroutine_handle<> waiting{};
  };

  class Append;

  detail::Detached produce(int steps);
  void begin();
  void write(const Row& row);
  void commit();

  std::shared_ptr<store::sqlite::Database> database_;
  store::sqlite::Statement begin_{*database_, "BEGIN IMMEDIATE"};
  store::sqlite::Statement commit_{*database_, "COMMIT"};
  store::sqlite::Statement insert_run_{
      *database_, "INSERT INTO runs (run, status, seq, updated) VALUES (?1, 0, 0, ?2)"};
  store::sqlite::Statement insert_entry_{
      *database_, "INSERT INTO journal (run, seq, at, entry) VALUES (?1, ?2, ?3, ?4)"};
  int checkpoint_pages_;
  std::string first_;
  std::string step_;
  std::string last_;
  std::vector<Row*> queue_;
  std::int64_t runs_ = 0;
  std::uint64_t done_ = 0;  ///< steps, or runs where they have none
  bool stopping_ = false;
};

}  // namespace semel::app::bench
