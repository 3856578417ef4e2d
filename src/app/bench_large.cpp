// Millions of finished runs in the tables: what new ones cost then, and whether the sweep of the old ones keeps up.
#include "app/bench_large.hpp"

#include "app/bench.hpp"
#include "app/bench_database.hpp"
#include "base/clock.hpp"

#include <semel/semel.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

namespace semel::app::bench {

namespace {

constexpr double throughput_target = 0.8;
constexpr double sweep_target = 1;
constexpr int steps = 10;
/// Of the runs that only lie there: fewer, so that millions of them fit a disk.
constexpr int filling_steps = 3;
/// With all ten steps, past their time.
constexpr std::int64_t expired_max = 50'000;
constexpr std::chrono::hours kept{24 * 30};  // a key is, and its run with it
constexpr Seconds sweep_patience{120};
constexpr const char* empty_database = "semel_bench_empty";

/// Where the engines of this measurement keep their runs: two stores, one that is filled and one that is not.
class Stores {
 public:
  explicit Stores(const Bench& bench)
      : large_file_(bench.file("large")), empty_file_(bench.file("empty")) {
    if (!bench.is_postgres()) return;
    large_url_ = bench.postgres_url;
    store::postgres::Connection connection{{.url = large_url_}};
    connection.run(fmt::format("DROP DATABASE IF EXISTS {}", empty_database));
    connection.run(fmt::format("CREATE DATABASE {}", empty_database));
    empty_url_ = beside(large_url_);
  }

  Stores(const Stores&) = delete;
  Stores& operator=(const Stores&) = delete;

  ~Stores() {
    remove_store(large_file_);
    remove_store(empty_file_);
    if (large_url_.empty()) return;
    try {
      remove_tables(large_url_);
      store::postgres::Connection connection{{.url = large_url_}};
      connection.run(fmt::format("DROP DATABASE IF EXISTS {}", empty_database));
    } catch (const store::Failed&) {
      return;  // the next benchmark does
    }
  }

  std::unique_ptr<BenchEngine> large(std::chrono::nanoseconds sweep_every) const {
    return open(large_file_, large_url_, sweep_every);
  }

  std::unique_ptr<BenchEngine> empty() const {
    return open(empty_file_, empty_url_, std::chrono::hours{1});
  }

  void fill(const Copies& copies, Progress& progress) const {
    if (large_url_.empty()) {
      fill_sqlite(large_file_, copies, progress);
    } else {
      fill_postgres(large_url_, copies, progress);
    }
  }

  void settle() const {
    if (!large_url_.empty()) settle_postgres(large_url_);
  }

  double bytes() const {
    if (large_url_.empty()) return static_cast<double>(std::filesystem::file_size(large_file_));
    store::postgres::Connection connection{{.url = large_url_}};
    return ask(connection, "SELECT pg_database_size(current_database())");
  }

 private:
  static std::unique_ptr<BenchEngine> open(const std::filesystem::path& file,
                                           const std::string& url,
                                           std::chrono::nanoseconds sweep_every) {
    const BenchEngineOptions options{.sweep_every = sweep_every};
    auto engine = url.empty() ? std::make_unique<BenchEngine>(file, options)
                              : std::make_unique<BenchEngine>(PostgresNode{.url = url}, options);
    engine->start_workers();
    return engine;
  }

  /// The same server, another database.
  static std::string beside(const std::string& url) {
    const std::size_t query = url.find('?');
    const std::size_t host = url.find("://") + 3;
    const std::size_t path = url.find('/', host);
    std::string server = url.substr(0, std::min(path, query));
    return server + "/" + empty_database + (query == std::string::npos ? "" : url.substr(query));
  }

  std::filesystem::path large_file_;
  std::filesystem::path empty_file_;
  std::string large_url_;
  std::string empty_url_;
};

/// A finished run to copy; its key among runs.
store::RunKey make_model(BenchEngine& engine, int model_steps) {
  engine.workload().go();
  StartOptions options;
  options.key = fmt::format("model of {}", model_steps);
  options.key_ttl = kept;
  const Run run = engine.start(options, "tasks", Json(model_steps)).run;
  run.result<std::uint32_t>();
  return engine.key_of(run.id());
}

struct Filled {
  std::int64_t runs = 0;
  std::int64_t expired = 0;
};

Filled fill(const Bench& bench, const Stores& stores) {
  const std::int64_t count = bench.pace.large_runs;
  const std::int64_t expired = std::min(expired_max, count / 4);
  Copies old;
  Copies others;
  {
    const auto engine = stores.large(std::chrono::hours{1});
    old.model = make_model(*engine, steps);
    old.count = expired;
    old.first = engine->reserve_keys(expired);
    others.model = make_model(*engine, filling_steps);
    others.count = count - expired;
    others.first = engine->reserve_keys(others.count);
  }
  const TimePoint now = base::SystemClock{}.now();
  old.ended_first = now - kept - std::chrono::hours{1};
  old.ended_last = now - kept - std::chrono::minutes{1};
  others.ended_first = now - kept + std::chrono::hours{2};
  others.ended_last = now;
  const double began = seconds_now();
  {
    Progress progress(std::cerr, fmt::format("of {} finished runs", count));
    stores.fill(old, progress);
    stores.fill(others, progress);
  }
  const double filled = seconds_now();
  stores.settle();
  bench.report.say(fmt::format(
      "\n{} finished runs with keys, {} of them past their time, {:.1f} GB, in {:.0f} s ({:.0f} s "
      "for "
      "statistics)",
      count, expired, stores.bytes() / 1e9, seconds_now() - began, seconds_now() - filled));
  return {.runs = count, .expired = expired};
}

Row throughput(const Bench& bench, const Load& load, BenchEngine& large, BenchEngine& empty) {
  // Long enough for several checkpoints: with keys in no order each writes many pages.
  const Seconds window = bench.pace.window * 4;
  large.load(load, window / 2);
  empty.load(load, window / 2);
  std::vector<double> values;
  std::vector<double> empties;
  std::vector<double> ratios;
  for (int i = 0; i < bench.pace.rounds; ++i) {
    empties.push_back(empty.load(load, window).steps_per_second);
    values.push_back(large.load(load, window).steps_per_second);
    ratios.push_back(values.back() / empties.back());
  }
  return {.section = "Large tables",
          .name = fmt::format("{} steps x {} runs, keyed", load.steps, load.runs),
          .unit = Unit::per_second,
          .value = figure_of(values),
          .raw = figure_of(empties),
          .ratio = figure_of(ratios),
          .targets = {{Target::Of::ratio, Target::Sense::at_least, throughput_target, false}},
          .note = "raw: the engine, empty tables"};
}

/// From the first sweep until everything that was past its time is gone, entries too.
Row sweeping(const Stores& stores, const Filled& filled) {
  const auto engine = stores.large(std::chrono::milliseconds{10});
  const StoreMeter& meter = engine->meter();
  const auto entries = static_cast<std::uint64_t>(filled.expired * (steps + 1));
  double began = 0;
  double ended = 0;
  std::uint64_t started = 0;
  const Rate rate = engine->load_until({.runs = 1000, .steps = steps, .keyed = true}, [&] {
    began = seconds_now();
    const std::uint64_t started_before = meter.started;
    while (meter.swept_entries < entries && seconds_now() - began < sweep_patience.count())
      pause_for(Seconds{0.005});
    ended = seconds_now();
    started = meter.started - started_before;
  });
  const double swept = static_cast<double>(meter.swept_entries) / (steps + 1) / (ended - began);
  const double made = static_cast<double>(started) / (ended - began);
  return {.section = "Large tables",
          .name = "runs swept while others are made",
          .unit = Unit::per_second,
          .value = figure_of({swept}),
          .raw = figure_of({made}),
          .ratio = figure_of({swept / made}),
          .targets = {{Target::Of::ratio, Target::Sense::at_least, sweep_target, false}},
          .note = fmt::format("raw: runs made meanwhile; {:.0f} steps/s", rate.steps_per_second)};
}

}  // namespace

void measure_large(Bench& bench) {
  const Stores stores(bench);
  const Filled filled = fill(bench, stores);
  {
    const auto large = stores.large(std::chrono::hours{1});
    const auto empty = stores.empty();
    for (const int runs : {64, 1000}) {
      bench.report.add(
          throughput(bench, {.runs = runs, .steps = steps, .keyed = true}, *large, *empty));
    }
  }
  bench.report.add(sweeping(stores, filled));
}

}  // namespace semel::app::bench
