// The engine over HTTP beside itself: what `semel serve` adds to a read, a start and a run.
#include "app/bench.hpp"
#include "app/bench_engine.hpp"
#include "app/bench_load.hpp"
#include "app/bench_raw.hpp"

#include <semel/serve.hpp>

#include <fmt/format.h>

#include <array>

namespace semel::app::bench {

namespace {

constexpr int connections = 64;
constexpr double us = 1e6;
constexpr const char* section = "Over HTTP";

/// A server of the engine's, in this process, and clients in this thread.
class Served {
 public:
  explicit Served(const std::filesystem::path& file)
      : file_(file), engine_(std::make_unique<BenchEngine>(file)) {
    engine_->start_workers();
    server_ = http::serve(*engine_);
  }

  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  ~Served() {
    server_.reset();
    engine_.reset();
    remove_store(file_);
  }

  BenchEngine& engine() { return *engine_; }

  std::uint16_t port() const { return server_->port(); }

 private:
  std::filesystem::path file_;
  std::unique_ptr<BenchEngine> engine_;
  std::unique_ptr<http::Server> server_;
};

/// The same from everybody.
HttpLoad::Next always(const std::string& request) {
  return [&request](std::size_t, std::string_view) -> std::string_view { return request; };
}

const std::string look = http_request("/healthz");
const std::string start_one = http_request("/api/v1/runs", R"({"workflow":"tasks","input":[1]})");
const std::string start_again =
    http_request("/api/v1/runs", R"({"workflow":"tasks","input":[1],"idempotencyKey":"again"})");

std::string_view id_in(std::string_view answer) {
  constexpr std::string_view before = R"("id":")";
  const std::size_t at = answer.find(before) + before.size();
  return answer.substr(at, answer.find('"', at) - at);
}

/// Seconds from the start of each of a row of 1-step runs to its result, one at a time: two requests each.
std::vector<double> start_to_result(HttpLoad& load, Seconds duration) {
  std::vector<double> times;
  std::string ask;
  bool is_started = false;
  load.run(duration, [&](std::size_t, std::string_view last) -> std::string_view {
    if (!is_started) times.push_back(seconds_now());
    ask = is_started ? http_request(fmt::format("/api/v1/runs/{}/result?wait=30s", id_in(last)))
                     : start_one;
    is_started = !is_started;
    return ask;
  });
  return gaps(times);
}

Row row_of(std::string name, Unit unit, const std::vector<double>& values,
           const std::vector<double>& limits, Target target, std::string note) {
  std::vector<double> ratios;
  ratios.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) ratios.push_back(values[i] / limits[i]);
  return {.section = section,
          .name = std::move(name),
          .unit = unit,
          .value = figure_of(values),
          .raw = figure_of(limits),
          .ratio = figure_of(ratios),
          .targets = {target},
          .note = std::move(note)};
}

void compare_duplicates(Bench& bench, Served& served) {
  HttpLoad load(served.port(), connections);
  load.run(bench.pace.window / 2, always(start_again));
  std::vector<double> looks;
  std::vector<double> repeats;
  for (int i = 0; i < bench.pace.rounds; ++i) {
    looks.push_back(load.run(bench.pace.window, always(look)));
    repeats.push_back(load.run(bench.pace.window, always(start_again)));
  }
  bench.report.add(row_of("duplicate start, 64 connections", Unit::per_second, repeats, looks,
                          {Target::Of::ratio, Target::Sense::at_least, 0.6, false},
                          "raw: GET /healthz"));
}

/// Microseconds of processor time per run, and who used them.
class TimePerRun {
 public:
  /// `work` says how many runs it made.
  template <class F>
  void measure(const F& work) {
    const ThreadSeconds before = seconds_by_thread();
    runs_ += work();
    for (const auto& [who, seconds] : seconds_by_thread()) {
      const auto had = before.find(who);
      used_[who] += seconds - (had == before.end() ? 0 : had->second);
    }
  }

  double of(const std::string& who) const {
    const auto used = used_.find(who);
    return used == used_.end() || runs_ <= 0 ? 0 : used->second / runs_ * us;
  }

 private:
  ThreadSeconds used_;
  double runs_ = 0;
};

void compare_runs(Bench& bench, Served& served) {
  HttpLoad load(served.port(), connections);
  served.engine().workload().go();
  load.run(bench.pace.window / 2, always(start_one));
  std::vector<double> embedded;
  std::vector<double> over_http;
  TimePerRun alone;
  TimePerRun served_time;
  for (int i = 0; i < bench.pace.rounds; ++i) {
    alone.measure([&] {
      const double began = seconds_now();
      embedded.push_back(
          served.engine()
              .load({.kind = StepKind::task, .runs = connections, .steps = 1}, bench.pace.window)
              .steps_per_second);
      return embedded.back() * (seconds_now() - began);
    });
    served.engine().workload().go();
    served_time.measure([&] {
      // What counts is runs that did their step, not starts that were answered.
      const std::uint64_t before = served.engine().workload().steps_done();
      const double began = seconds_now();
      load.run(bench.pace.window, always(start_one));
      const auto runs = static_cast<double>(served.engine().workload().steps_done() - before);
      over_http.push_back(runs / (seconds_now() - began));
      return runs;
    });
  }
  bench.report.add(row_of(
      "runs of 1 step, 64 connections", Unit::per_second, over_http, embedded,
      {Target::Of::ratio, Target::Sense::at_least, 1.0 / 3, false},
      fmt::format("raw: the engine alone, 64 runs; processor time per run: "
                  "loop {:.0f}, committer {:.0f}, connections {:.0f}, "
                  "clients {:.0f} us; alone: loop {:.0f}, committer {:.0f} us",
                  served_time.of("loop"), served_time.of("committer"), served_time.of("others"),
                  served_time.of("this"), alone.of("loop"), alone.of("committer"))));
}

void compare_latency(Bench& bench, Served& served) {
  const auto file = bench.file("raw");
  {
    SqliteRawLog raw(file, entry_bytes(served.engine()));
    HttpLoad load(served.port(), 1);
    served.engine().workload().go();
    raw.single_commits(bench.pace.window / 2);
    std::vector<double> times;
    std::vector<double> limits;
    std::vector<double> commits;
    for (int i = 0; i < bench.pace.rounds; ++i) {
      const double before = percentile(raw.single_commits(bench.pace.window / 2), 0.5);
      times.push_back(percentile(start_to_result(load, bench.pace.window), 0.5) * us);
      const double behind = percentile(raw.single_commits(bench.pace.window / 2), 0.5);
      commits.push_back((before + behind) / 2 * us);
      limits.push_back(3 * commits.back() + 1000);
    }
    bench.report.add(
        row_of("start to result of 1 step, one at a time", Unit::microseconds, times, limits,
               {Target::Of::ratio, Target::Sense::at_most, 1, false},
               fmt::format("raw: 3 commits of {:.0f} us + 1 ms", figure_of(commits).median)));
  }
  remove_store(file);
}

}  // namespace

void measure_serve(Bench& bench) {
  Served served(bench.file("served"));
  compare_latency(bench, served);
  compare_duplicates(bench, served);
  compare_runs(bench, served);
}

}  // namespace semel::app::bench
