// Runs that sleep or wait for hooks: what they cost in memory, and that they are there after a crash. Memory is compared before and after
// in a process that does nothing else, so this program starts itself: `run_child` is the other side.
#include "app/bench.hpp"
#include "app/bench_child.hpp"
#include "app/bench_engine.hpp"
#include "base/clock.hpp"

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <unistd.h>

namespace semel::app::bench {

namespace {

namespace json = boost::json;

constexpr double ms = 1e3;
/// Small, so that SQLite's own cache is no part of what runs cost.
constexpr std::int64_t cache_kib = 512;
constexpr int warm_up_runs = 2000;

/// Parks runs and waits to be killed.
void park(const json::object& job, std::ostream& out) {
  const int count = job.at("count").to_number<int>();
  const base::SystemClock clock;
  BenchEngine engine(std::string(job.at("file").as_string()),
                     {.frame_bytes_max = job.at("frame_bytes_max").to_number<std::size_t>(),
                      .cache_kib = cache_kib});
  engine.start_workers();
  const TimePoint far_off = clock.now() + std::chrono::hours{10};
  engine.park(warm_up_runs, far_off);
  const Memory before = memory_now();
  const double began = seconds_now();
  engine.park(count, far_off);
  const double took = seconds_now() - began;
  const engine::LoopCounters counters = engine.loop_counters();
  const Memory after = memory_now();
  engine.park(1, clock.now() + std::chrono::milliseconds{200});
  fmt::print(out, "{}\n",
             json::serialize(
                 json::object{{"resident", (after.resident_bytes - before.resident_bytes) / count},
                              {"heap", (after.heap_bytes - before.heap_bytes) / count},
                              {"starts", count / took},
                              {"evictions", counters.evictions}}));
  out.flush();
  ::pause();
}

/// Opens what a killed process left.
void recover(const json::object& job, std::ostream& out) {
  const std::string file(job.at("file").as_string());
  const double began = seconds_now();
  BenchEngine engine(file, {.cache_kib = cache_kib});
  const double opened = seconds_now();
  engine.start_workers();
  while (engine.workload().steps_done() == 0) pause_for(Seconds{0.0005});
  const double woken = seconds_now();

  // After the clock was read: a reader of its own, and the whole table.
  auto database = store::sqlite::Database::open(file, store::sqlite::Database::Access::read, {});
  store::sqlite::Statement count{*database, "SELECT count(*) FROM semel_run WHERE status = ?1"};
  store::sqlite::Rows rows = count.select(store::Status::waiting);
  const std::int64_t waiting = rows.next() ? rows.integer(0) : 0;
  fmt::print(out, "{}\n",
             json::serialize(json::object{
                 {"open", opened - began}, {"first_due", woken - began}, {"waiting", waiting}}));
  out.flush();
}

void park_on_hooks_here(const json::object& job, std::ostream& out) {
  const ParkedOnHooks found = park_on_hooks(std::string(job.at("file").as_string()),
                                            job.at("count").to_number<int>(), cache_kib);
  fmt::print(out, "{}\n",
             json::serialize(json::object{{"bytes", found.bytes_each},
                                          {"starts", found.starts_per_second},
                                          {"resume", found.resume_seconds}}));
  out.flush();
}

void measure_parked_on_hooks(Bench& bench) {
  const int count = bench.pace.parked_runs;
  const auto file = bench.file("parked-on-hooks");
  const json::object found =
      Child({{"do", "hooks"}, {"file", file.string()}, {"count", count}}).answer();
  bench.report.add(
      {.section = "Parked runs",
       .name = fmt::format("memory of each of {} on hooks", count),
       .unit = Unit::bytes,
       .value = figure_of({found.at("bytes").to_number<double>()}),
       .targets = {},
       .note = fmt::format("{:.0f} starts/s", found.at("starts").to_number<double>())});
  const double seconds = found.at("resume").to_number<double>();
  bench.report.add({.section = "Parked runs",
                    .name = fmt::format("resuming {} until they are over", count),
                    .unit = Unit::milliseconds,
                    .value = figure_of({seconds * ms}),
                    .targets = {},
                    .note = fmt::format("{:.0f} runs/s", count / seconds)});
  remove_store(file);
}

Row parked_row(const std::string& name, const json::object& found, double bound) {
  return {.section = "Parked runs",
          .name = name,
          .unit = Unit::bytes,
          .value = figure_of({found.at("resident").to_number<double>()}),
          .targets = {{Target::Of::value, Target::Sense::at_most, bound, false}},
          .note = fmt::format("heap {:.0f} B, {:.0f} starts/s, {} evicted",
                              found.at("heap").to_number<double>(),
                              found.at("starts").to_number<double>(),
                              found.at("evictions").to_number<std::int64_t>())};
}

}  // namespace

void measure_parked(Bench& bench) {
  const int count = bench.pace.parked_runs;
  const auto file = bench.file("parked");
  const auto job = [&](std::size_t frame_bytes_max) {
    return json::object{{"do", "park"},
                        {"file", file.string()},
                        {"count", count},
                        {"frame_bytes_max", frame_bytes_max}};
  };
  {
    Child live(job(std::size_t{4} << 30U));
    bench.report.add(
        parked_row(fmt::format("memory of each of {}, live", count), live.answer(), 2048));
  }
  remove_store(file);
  Child evicted(job(1));
  bench.report.add(
      parked_row(fmt::format("memory of each of {}, evicted", count), evicted.answer(), 300));
  evicted.kill();
  pause_for(Seconds{0.3});

  const json::object back = Child({{"do", "recover"}, {"file", file.string()}}).answer();
  const int expected = count + warm_up_runs;
  bench.report.add({.section = "Parked runs",
                    .name = "still there after kill -9",
                    .unit = Unit::count,
                    .value = figure_of({back.at("waiting").to_number<double>()}),
                    .targets = {{Target::Of::value, Target::Sense::exactly,
                                 static_cast<double>(expected), false}},
                    .note = {}});
  bench.report.add(
      {.section = "Parked runs",
       .name = "first due run, from opening the store",
       .unit = Unit::milliseconds,
       .value = figure_of({back.at("first_due").to_number<double>() * ms}),
       .targets = {{Target::Of::value, Target::Sense::at_most, 1000, false}},
       .note = fmt::format("opening {:.1f} ms", back.at("open").to_number<double>() * ms)});
  remove_store(file);
  measure_parked_on_hooks(bench);
}

void park_in_child(const json::object& job, std::ostream& out) {
  if (job.at("do").as_string() == "park") {
    park(job, out);
  } else if (job.at("do").as_string() == "hooks") {
    park_on_hooks_here(job, out);
  } else {
    recover(job, out);
  }
}

}  // namespace semel::app::bench
