#include "app/bench_raw.hpp"

#include "store/sqlite/sqlite_store.hpp"

namespace semel::app::bench {

namespace {

constexpr const char* tables = R"sql(
CREATE TABLE runs (run INTEGER PRIMARY KEY, status INTEGER, seq INTEGER, updated INTEGER);
CREATE TABLE journal (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  entry BLOB NOT NULL
);
CREATE UNIQUE INDEX journal_position ON journal (run, seq);
)sql";

constexpr std::int64_t some_time = 1'700'000'000'000'000'000;

}  // namespace

class RawLog::Append {
 public:
  Append(RawLog& log, Row row) : log_(log), row_(row) {}

  bool await_ready() const noexcept { return false; }

  void await_suspend(std::coroutine_handle<> waiting) {
    row_.waiting = waiting;
    log_.queue_.push_back(&row_);
  }

  void await_resume() const noexcept {}

 private:
  RawLog& log_;
  Row row_;
};

RawLog::RawLog(const std::filesystem::path& file, EntryBytes bytes)
    : database_(
          store::sqlite::Database::open(file.string(), store::sqlite::Database::Access::write, {})),
      checkpoint_pages_(store::SqliteOptions{}.checkpoint_pages),
      first_(bytes.first, 'f'),
      step_(bytes.step, 's'),
      last_(bytes.last, 'l') {
  database_->run(tables);
}

void RawLog::begin() { begin_.run(); }

void RawLog::write(const Row& row) {
  if (row.seq == 0) insert_run_.run(row.run, some_time);
  insert_entry_.run(row.run, row.seq, some_time, store::sqlite::Blob{row.entry});
}

void RawLog::commit() {
  commit_.run();
  if (database_->wal_pages() >= checkpoint_pages_) database_->checkpoint();
}

std::vector<double> RawLog::single_commits(Seconds duration) {
  std::vector<double> times{seconds_now()};
  const std::int64_t run = ++runs_;
  for (std::int64_t seq = 1; times.back() - times.front() < duration.count(); ++seq) {
    begin();
    write({.run = run, .seq = seq, .entry = step_});
    commit();
    times.push_back(seconds_now());
  }
  return gaps(times);
}

detail::Detached RawLog::produce(int steps) {
  while (!stopping_) {
    const std::int64_t run = ++runs_;
    co_await Append{*this, {.run = run, .seq = 0, .entry = first_}};
    if (steps == 0) ++done_;
    for (std::int64_t seq = 1; seq <= steps && !stopping_; ++seq) {
      co_await Append{*this, {.run = run, .seq = seq, .entry = seq == steps ? last_ : step_}};
      ++done_;
    }
  }
}

Rate RawLog::group_commits(int runs, int steps, Seconds duration) {
  done_ = 0;
  stopping_ = false;
  std::uint64_t commits = 0;
  std::uint64_t entries = 0;
  const double began = seconds_now();
  const double cpu_began = cpu_seconds();
  for (int i = 0; i < runs; ++i) produce(steps);
  std::vector<Row*> batch;
  while (!queue_.empty()) {
    batch.swap(queue_);
    begin();
    for (const Row* row : batch) write(*row);
    commit();
    ++commits;
    entries += batch.size();
    // However slow the disk: where nothing was done there is nothing to divide.
    if (done_ > 0 && seconds_now() - began >= duration.count()) stopping_ = true;
    // Resuming destroys the row.
    for (const Row* row : batch) row->waiting.resume();
    batch.clear();
  }
  const auto done = static_cast<double>(done_);
  return {.steps_per_second = done / (seconds_now() - began),
          .batch_mean = static_cast<double>(entries) / static_cast<double>(commits),
          .cpu_per_step = (cpu_seconds() - cpu_began) / done};
}

}  // namespace semel::app::bench
