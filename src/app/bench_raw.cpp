#include "app/bench_raw.hpp"

#include "store/sqlite/sqlite_store.hpp"

namespace semel::app::bench {

namespace {

constexpr const char* sqlite_tables = R"sql(
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

constexpr const char* postgres_tables = R"sql(
DROP TABLE IF EXISTS semel_bench.runs, semel_bench.journal;
CREATE TABLE semel_bench.runs (run bigint PRIMARY KEY, status bigint, seq bigint, updated bigint);
CREATE TABLE semel_bench.journal (
  run bigint NOT NULL,
  seq bigint NOT NULL,
  at bigint NOT NULL,
  entry bytea NOT NULL
);
CREATE UNIQUE INDEX journal_position ON semel_bench.journal (run, seq);
)sql";

constexpr const char* insert_runs =
    "INSERT INTO semel_bench.runs (run, status, seq, updated)"
    " SELECT run, 0, 0, updated FROM unnest($1::bigint[], $2::bigint[]) AS x(run, updated)";
constexpr const char* insert_entry =
    "INSERT INTO semel_bench.journal (run, seq, at, entry)"
    " VALUES ($1::bigint, $2::bigint, $3::bigint, $4::bytea)";
constexpr const char* insert_entries =
    "INSERT INTO semel_bench.journal (run, seq, at, entry)"
    " SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[])";

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

RawLog::RawLog(EntryBytes bytes)
    : first_(bytes.first, 'f'), step_(bytes.step, 's'), last_(bytes.last, 'l') {}

std::vector<double> RawLog::single_commits(Seconds duration) {
  std::vector<double> times{seconds_now()};
  const std::int64_t run = ++runs_;
  for (std::int64_t seq = 1; times.back() - times.front() < duration.count(); ++seq) {
    const Row row{.run = run, .seq = seq, .entry = step_};
    const Row* one = &row;
    commit({&one, 1});
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
    commit(batch);
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

// ------------------------------------------------------------------------------------------------ SQLite

SqliteRawLog::SqliteRawLog(const std::filesystem::path& file, EntryBytes bytes)
    : RawLog(bytes),
      database_(
          store::sqlite::Database::open(file.string(), store::sqlite::Database::Access::write, {})),
      checkpoint_pages_(store::SqliteOptions{}.checkpoint_pages) {
  database_->run(sqlite_tables);
}

void SqliteRawLog::commit(std::span<const Row* const> rows) {
  begin_.run();
  for (const Row* row : rows) {
    if (row->seq == 0) insert_run_.run(row->run, some_time);
    insert_entry_.run(row->run, row->seq, some_time, store::sqlite::Blob{row->entry});
  }
  commit_.run();
  if (database_->wal_pages() >= checkpoint_pages_) database_->checkpoint();
}

// ------------------------------------------------------------------------------------------------ PostgreSQL

PostgresRawLog::PostgresRawLog(const std::string& url, EntryBytes bytes)
    : RawLog(bytes), connection_({.url = url}) {
  connection_.run(postgres_tables);
}

void PostgresRawLog::commit(std::span<const Row* const> rows) {
  // Up to its end a pipeline is one transaction, if nobody says otherwise.
  store::postgres::Pipeline pipeline{connection_};
  if (rows.size() == 1 && rows.front()->seq != 0) {
    const Row& row = *rows.front();
    pipeline.add(insert_entry,
                 store::postgres::Parameters::of(row.run, row.seq, some_time, row.entry));
    pipeline.run();
    return;
  }
  store::postgres::Columns runs{"ii"};
  store::postgres::Columns entries{"iiib"};
  for (const Row* row : rows) {
    if (row->seq == 0) runs.add(row->run, some_time);
    entries.add(row->run, row->seq, some_time, row->entry);
  }
  if (!runs.empty()) pipeline.add(insert_runs, runs.parameters());
  pipeline.add(insert_entries, entries.parameters());
  pipeline.run();
}

}  // namespace semel::app::bench
