// `semel bench`: what the engine does, beside what plain SQLite or PostgreSQL and the disk do in the same minutes.
#pragma once

#include "app/bench_report.hpp"

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

namespace semel::app::bench {

struct Options {
  bool brief = false;             ///< for CI: rounds too short to judge by
  std::vector<std::string> only;  ///< names of measurements; empty: all
  std::string json_file;
  std::string directory;     ///< empty: a new one on a disk
  std::string postgres_url;  ///< of an empty database; none: SQLite
  std::int64_t large_runs = 100'000;
};

/// How long and how often to measure.
struct Pace {
  int rounds = 5;
  int rounds_minor = 3;  ///< where no target hangs on it
  Seconds window{0.6};
  std::uint32_t long_run_steps = 10'000;
  int long_run_blocks = 25;  ///< of 20 steps behind them
  int parked_runs = 100'000;
  std::int64_t large_runs = 100'000;  ///< finished, in the tables
  Seconds idle{60};
  std::chrono::milliseconds lease{15'000};
};

struct Bench {
  Report& report;
  std::filesystem::path directory;
  Pace pace;
  std::string postgres_url{};  ///< none: SQLite

  bool is_postgres() const { return !postgres_url.empty(); }

  std::filesystem::path file(const std::string& name) const { return directory / (name + ".db"); }
};

// Each adds its rows. Files it made are gone when it returns.
void measure_disk(Bench& bench);
void measure_latency(Bench& bench);
void measure_throughput(Bench& bench);
void measure_starts(Bench& bench);
void measure_matrix(Bench& bench);
void measure_position_and_replay(Bench& bench);
void measure_parked(Bench& bench);
void measure_hooks(Bench& bench);
void measure_serve(Bench& bench);
void measure_large(Bench& bench);
// On PostgreSQL:
void measure_nodes(Bench& bench);
void measure_idle(Bench& bench);

/// The names `only` may have, in order.
std::vector<std::string> measurement_names();

/// 0; 1 where something is not sane (figures below their targets are only printed). Throws Error for bad options.
int run(const Options& options, std::ostream& out);

/// The parts of `measure_parked` and `measure_nodes` that run in processes of their own; `job` says which.
int run_child(const std::string& job, std::ostream& out);

/// So many runs, each waiting for its own hook, in this process; then all are resumed and end.
struct ParkedOnHooks {
  double bytes_each = 0;
  double starts_per_second = 0;
  double resume_seconds = 0;
};

ParkedOnHooks park_on_hooks(const std::filesystem::path& file, int count, std::int64_t cache_kib);

/// Removes a store's files.
void remove_store(const std::filesystem::path& file);

}  // namespace semel::app::bench
