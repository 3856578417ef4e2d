// Steps and starts, one at a time and many at once; raw and engine take turns, so that a busy minute hits both.
#include "app/bench.hpp"
#include "app/bench_database.hpp"
#include "app/bench_engine.hpp"
#include "app/bench_raw.hpp"
#include "app/bench_store.hpp"

#include <fmt/format.h>

#include <optional>

namespace semel::app::bench {

namespace {

/// What our stores are to reach of what their database can do.
struct Goals {
  std::optional<double> ratio_few;  ///< at 64 runs
  double ratio_many;                ///< at 1000
  double latency;
};

constexpr Goals sqlite_goals{.ratio_few = 0.45, .ratio_many = 0.45, .latency = 1.4};
/// Two round trips, one to lock and look, one to write.
constexpr Goals postgres_goals{.ratio_few = {}, .ratio_many = 0.4, .latency = 2};

const Goals& goals(const Bench& bench) {
  return bench.is_postgres() ? postgres_goals : sqlite_goals;
}

constexpr double us = 1e6;

/// A raw log and an engine on tables of their own.
class Pair {
 public:
  explicit Pair(const Bench& bench)
      : bench_(bench),
        raw_file_(bench.file("raw")),
        engine_file_(bench.file("engine")),
        engine_(bench.is_postgres()
                    ? std::make_unique<BenchEngine>(PostgresNode{.url = bench.postgres_url})
                    : std::make_unique<BenchEngine>(engine_file_)) {
    engine_->start_workers();
    const EntryBytes bytes = entry_bytes(*engine_);
    if (bench.is_postgres()) {
      raw_ = std::make_unique<PostgresRawLog>(bench.postgres_url, bytes);
    } else {
      raw_ = std::make_unique<SqliteRawLog>(raw_file_, bytes);
    }
  }

  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  ~Pair() {
    raw_.reset();
    engine_.reset();
    if (bench_.is_postgres()) {
      remove_tables(bench_.postgres_url);
      return;
    }
    remove_store(raw_file_);
    remove_store(engine_file_);
  }

  RawLog& raw() { return *raw_; }

  BenchEngine& engine() { return *engine_; }

 private:
  const Bench& bench_;
  std::filesystem::path raw_file_;
  std::filesystem::path engine_file_;
  std::unique_ptr<BenchEngine> engine_;
  std::unique_ptr<RawLog> raw_;
};

/// Values of engine and raw from the same rounds.
struct Rounds {
  std::vector<double> values;
  std::vector<double> raws;
  std::vector<double> ratios;

  void add(double value, double raw) {
    values.push_back(value);
    raws.push_back(raw);
    ratios.push_back(value / raw);
  }
};

/// Rounds of rates, and what they cost.
struct Rates {
  std::vector<double> steps;
  std::vector<double> batches;
  std::vector<double> cpu;

  void add(const Rate& rate) {
    steps.push_back(rate.steps_per_second);
    batches.push_back(rate.batch_mean);
    cpu.push_back(rate.cpu_per_step * us);
  }
};

Row compared(const Rates& found, const Rates& raw) {
  std::vector<double> ratios;
  ratios.reserve(found.steps.size());
  for (std::size_t i = 0; i < found.steps.size(); ++i) {
    ratios.push_back(found.steps[i] / raw.steps[i]);
  }
  return {.section = "",
          .name = "",
          .unit = Unit::per_second,
          .value = figure_of(found.steps),
          .raw = figure_of(raw.steps),
          .ratio = figure_of(ratios),
          .targets = {},
          .note = fmt::format("batch {:.0f} / {:.0f}, cpu {:.1f} / {:.1f} us",
                              figure_of(found.batches).median, figure_of(raw.batches).median,
                              figure_of(found.cpu).median, figure_of(raw.cpu).median)};
}

Row loaded(const Bench& bench, const Load& load, int rounds) {
  Pair pair(bench);
  // The first commits make the write-ahead log grow; later ones overwrite it.
  pair.raw().group_commits(load.runs, load.steps, bench.pace.window / 2);
  pair.engine().load(load, bench.pace.window / 2);
  Rates raw;
  Rates found;
  for (int i = 0; i < rounds; ++i) {
    raw.add(pair.raw().group_commits(load.runs, load.steps, bench.pace.window));
    found.add(pair.engine().load(load, bench.pace.window));
  }
  return compared(found, raw);
}

/// How much of the way from the raw limit to the engine is the store's.
Row store_alone(const Bench& bench, const Load& load, int rounds) {
  const auto file = bench.file("store");
  Row row;
  {
    Pair pair(bench);
    const EntryBytes bytes = entry_bytes(pair.engine());
    // On PostgreSQL in the same tables: a node that drives nothing.
    StoreAlone store = bench.is_postgres() ? StoreAlone::on_postgres(bench.postgres_url, bytes)
                                           : StoreAlone::on_sqlite(file, bytes);
    pair.raw().group_commits(load.runs, load.steps, bench.pace.window / 2);
    store.group_commits(load.runs, load.steps, bench.pace.window / 2);
    Rates raw;
    Rates found;
    for (int i = 0; i < rounds; ++i) {
      raw.add(pair.raw().group_commits(load.runs, load.steps, bench.pace.window));
      found.add(store.group_commits(load.runs, load.steps, bench.pace.window));
    }
    row = compared(found, raw);
  }
  remove_store(file);
  return row;
}

std::string load_name(const Load& load) {
  return fmt::format("{} step{} x {} run{}{}", load.steps, load.steps == 1 ? "" : "s", load.runs,
                     load.runs == 1 ? "" : "s",
                     load.kind == StepKind::blocking ? ", blocking" : "");
}

void count_commits(Bench& bench, BenchEngine& engine) {
  const std::uint64_t before = engine.commits();
  engine.step_times(StepKind::task, 10);
  bench.report.add({.section = "One run at a time",
                    .name = "commits of a 10-step run",
                    .unit = Unit::count,
                    .value = figure_of({static_cast<double>(engine.commits() - before)}),
                    .targets = {{Target::Of::value, Target::Sense::exactly, 11, false}},
                    .note = {}});
}

Row latency_row(std::string name, const Rounds& rounds, double p99, double target) {
  return {.section = "One run at a time",
          .name = std::move(name),
          .unit = Unit::microseconds,
          .value = figure_of(rounds.values),
          .raw = figure_of(rounds.raws),
          .ratio = figure_of(rounds.ratios),
          .targets = {{Target::Of::ratio, Target::Sense::at_most, target, false}},
          .note = fmt::format("p99 {:.0f} us", p99)};
}

}  // namespace

void measure_latency(Bench& bench) {
  Pair pair(bench);
  count_commits(bench, pair.engine());

  const int steps = std::max(100, static_cast<int>(bench.pace.window.count() * 2000));
  Rounds task;
  Rounds blocking;
  std::vector<double> raws;
  std::vector<double> hand_overs;
  std::vector<double> raw_all;
  std::vector<double> task_all;
  std::vector<double> blocking_all;
  const auto median = [](const std::vector<double>& values) {
    return percentile(values, 0.5) * us;
  };
  for (int i = 0; i < bench.pace.rounds; ++i) {
    const auto raw_before = pair.raw().single_commits(bench.pace.window / 2);
    const double hand_over = hand_over_seconds() * us;
    const auto task_gaps = gaps(pair.engine().step_times(StepKind::task, steps));
    const auto raw_between = pair.raw().single_commits(bench.pace.window / 2);
    const auto blocking_gaps = gaps(pair.engine().step_times(StepKind::blocking, steps));
    const auto raw_after = pair.raw().single_commits(bench.pace.window / 2);

    // Each between two measurements of the limit: a disk that becomes slow half-way should not decide.
    task.add(median(task_gaps), (median(raw_before) + median(raw_between)) / 2);
    blocking.add(median(blocking_gaps), (median(raw_between) + median(raw_after)) / 2 + hand_over);
    hand_overs.push_back(hand_over);
    for (const auto* part : {&raw_before, &raw_between, &raw_after}) {
      raws.push_back(median(*part));
      raw_all.insert(raw_all.end(), part->begin(), part->end());
    }
    task_all.insert(task_all.end(), task_gaps.begin(), task_gaps.end());
    blocking_all.insert(blocking_all.end(), blocking_gaps.begin(), blocking_gaps.end());
  }

  bench.report.add({.section = "One run at a time",
                    .name = "raw commit of one row",
                    .unit = Unit::microseconds,
                    .value = figure_of(raws),
                    .targets = {},
                    .note = fmt::format("p99 {:.0f} us", percentile(raw_all, 0.99) * us)});
  bench.report.add({.section = "One run at a time",
                    .name = "thread hand-over",
                    .unit = Unit::microseconds,
                    .value = figure_of(hand_overs),
                    .targets = {},
                    .note = {}});
  const double target = goals(bench).latency;
  bench.report.add(latency_row("a Task step", task, percentile(task_all, 0.99) * us, target));
  bench.report.add(
      latency_row("a blocking step", blocking, percentile(blocking_all, 0.99) * us, target));
}

void measure_throughput(Bench& bench) {
  struct Case {
    Load load;
    std::optional<double> ratio;
    double on_quiet_disk;  ///< SQLite
  };

  const auto cases =
      std::to_array<Case>({{{StepKind::task, 64, 10}, goals(bench).ratio_few, 50'000},
                           {{StepKind::task, 1000, 10}, goals(bench).ratio_many, 100'000}});
  for (const auto& [load, ratio, on_quiet_disk] : cases) {
    Row row = loaded(bench, load, bench.pace.rounds);
    row.section = "Many runs at a time";
    row.name = load_name(load);
    if (ratio) row.targets.push_back({Target::Of::ratio, Target::Sense::at_least, *ratio, false});
    if (!bench.is_postgres())
      row.targets.push_back({Target::Of::value, Target::Sense::at_least, on_quiet_disk, true});
    bench.report.add(std::move(row));
    Row below = store_alone(bench, load, bench.pace.rounds_minor);
    below.section = "Many runs at a time";
    below.name = "  its store alone";
    bench.report.add(std::move(below));
  }
}

void measure_matrix(Bench& bench) {
  const auto cases = std::to_array<Load>({{StepKind::task, 1, 1},
                                          {StepKind::task, 64, 1},
                                          {StepKind::task, 1000, 1},
                                          {StepKind::task, 1, 10},
                                          {StepKind::task, 1, 1000},
                                          {StepKind::task, 64, 1000},
                                          {StepKind::task, 1000, 1000},
                                          {StepKind::blocking, 1, 10},
                                          {StepKind::blocking, 64, 10}});
  for (const Load& load : cases) {
    Row row = loaded(bench, load, bench.pace.rounds_minor);
    row.section = "Other loads";
    row.name = load_name(load);
    bench.report.add(std::move(row));
  }
}

void measure_starts(Bench& bench) {
  for (const int at_a_time : {1, 64, 1000}) {
    Row row = loaded(bench, {StepKind::task, at_a_time, 0}, bench.pace.rounds_minor);
    row.section = "Starts";
    row.name = fmt::format("start, {} at a time", at_a_time);
    bench.report.add(std::move(row));
  }
  Pair pair(bench);
  for (const int at_a_time : {1, 64}) {
    std::vector<double> rates;
    rates.reserve(static_cast<std::size_t>(bench.pace.rounds_minor));
    for (int i = 0; i < bench.pace.rounds_minor; ++i) {
      rates.push_back(pair.engine().duplicate_starts(at_a_time, bench.pace.window));
    }
    bench.report.add({.section = "Starts",
                      .name = fmt::format("duplicate start, {} at a time", at_a_time),
                      .unit = Unit::per_second,
                      .value = figure_of(rates),
                      .targets = {},
                      .note = {}});
  }
}

}  // namespace semel::app::bench
