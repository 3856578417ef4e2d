// One long run: what a step costs at its end, and how fast the run is back after a restart.
#include "app/bench.hpp"
#include "app/bench_engine.hpp"
#include "base/assert.hpp"
#include "base/clock.hpp"
#include "engine/replay.hpp"
#include "journal/state.hpp"

#include <fmt/format.h>

namespace semel::app::bench {

namespace {

constexpr double us = 1e6;
constexpr double ms = 1e3;

/// Steps 5 to 20 of a new run, and the next 19 of the long one, in turns.
struct Position {
  std::vector<double> near_gaps;
  std::vector<double> far_gaps;
};

Position compare_positions(BenchEngine& engine, int blocks) {
  Workload& load = engine.workload();
  Position found;
  load.gate.wait_for_visitor();
  for (int i = 0; i < blocks; ++i) {
    const auto near = gaps(engine.step_times(StepKind::task, 21));
    found.near_gaps.insert(found.near_gaps.end(), near.begin() + 4, near.end());
    load.note_times();
    load.gate.open();
    load.gate.wait_for_visitor();
    // The first body noted its time after the gate had opened.
    const auto after = gaps(load.take_times());
    found.far_gaps.insert(found.far_gaps.end(), after.begin() + 1, after.end());
  }
  return found;
}

void measure_replay(Bench& bench, const std::vector<std::string>& entries,
                    const std::string& input) {
  Workload load;
  engine::Registry registry;
  registry.add(detail::workflow_type("gated", &Workload::gated, 1,
                                     [&](std::uint32_t steps) { return load.gated(steps); }));
  base::SystemRandom random;
  const base::SystemClock clock;
  std::vector<double> rates;
  std::vector<double> decode_rates;
  const auto count = static_cast<double>(entries.size());
  for (int i = 0; i < 3 * bench.pace.rounds; ++i) {
    // Nothing here waits, so a busy machine need not count.
    const double began = thread_seconds();
    const auto records = journal::read_journal(entries);
    const double decoded = thread_seconds();
    SEMEL_ASSERT(records.has_value());
    auto frame = std::make_unique<engine::Frame>(registry, random, engine::FrameLimits{});
    const auto replayed =
        engine::replay(std::move(frame), *registry.find("gated"), input, *records, clock.now());
    const double ended = thread_seconds();
    SEMEL_ASSERT(std::holds_alternative<engine::Replayed>(replayed));
    rates.push_back(count / (ended - began));
    decode_rates.push_back(count / (decoded - began));
  }
  bench.report.add(
      {.section = "A long run",
       .name = "replay, entries in memory",
       .unit = Unit::per_second,
       .value = figure_of(rates),
       .targets = {{Target::Of::value, Target::Sense::at_least, 1e6, false}},
       .note = fmt::format("{:.0f} entries in {:.1f} ms; decoding alone {:.0f}/s; processor time",
                           count, count / figure_of(rates).median * ms,
                           figure_of(decode_rates).median)});
}

}  // namespace

void measure_position_and_replay(Bench& bench) {
  const auto file = bench.file("long");
  std::string id;
  std::vector<std::string> entries;
  std::string input;
  {
    BenchEngine engine(file);
    engine.start_workers();
    Workload& load = engine.workload();
    const std::uint32_t far = bench.pace.long_run_steps;
    load.gated_from = far;
    const auto steps =
        far + static_cast<std::uint32_t>(bench.pace.long_run_blocks) * load.gate_every + 1;
    input = fmt::format("[{}]", steps);
    const Run run = engine.start(StartOptions{}, "gated", Json(steps)).run;
    id = run.id();
    const Position found = compare_positions(engine, bench.pace.long_run_blocks);
    load.gate.open();
    while (run.version() < steps) pause_for(Seconds{0.001});
    entries = engine.entries(id);

    const double near = percentile(found.near_gaps, 0.5) * us;
    const double distant = percentile(found.far_gaps, 0.5) * us;
    bench.report.add({.section = "A long run",
                      .name = fmt::format("a step at position {}", far),
                      .unit = Unit::microseconds,
                      .value = figure_of({distant}),
                      .raw = figure_of({near}),
                      .ratio = figure_of({distant / near}),
                      .targets = {{Target::Of::ratio, Target::Sense::at_most, 1.3, false}},
                      .note = "limit: at position 10"});
  }
  measure_replay(bench, entries, input);

  const double began = seconds_now();
  BenchEngine engine(file);
  engine.start_workers();
  const double opened = seconds_now();
  Run run = engine.run(id);
  run.wake();
  run.result<std::uint32_t>();
  const double back = seconds_now();
  bench.report.add(
      {.section = "A long run",
       .name = "back after a restart, from the file",
       .unit = Unit::milliseconds,
       .value = figure_of({(back - opened) * ms}),
       .targets = {},
       .note = fmt::format("{:.0f} entries/s, with its two last commits; opening {:.1f} ms",
                           static_cast<double>(entries.size()) / (back - opened),
                           (opened - began) * ms)});
  engine.stop();
  remove_store(file);
}

}  // namespace semel::app::bench
