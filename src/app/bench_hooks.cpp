// Talking to runs: what a resume costs until its run is over, and how many a store takes in.
#include "app/bench.hpp"
#include "app/bench_engine.hpp"

#include <semel/semel.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace semel::app::bench {

namespace {

constexpr double us = 1e6;
constexpr int callers = 64;
constexpr double commits_target = 2.5;

Workflow<bool> approval(std::string token) {
  auto answer = hook<bool>(token);
  co_return co_await answer;
}

/// Never ends; a few payloads per generation.
Workflow<void> listener(std::string token) {
  auto messages = hook<std::uint64_t>(token);
  for (int i = 0; i < 1000; ++i) co_await messages;
  co_await continue_as_new(token);
}

/// Seconds from the call to the run's end, one run after the other.
std::vector<double> resume_times(BenchEngine& engine, int count, int& number) {
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const std::string token = "approval-" + std::to_string(++number);
    const Run run = engine.start({.token = token}, approval, token).run;
    const double began = seconds_now();
    engine.resume(token, true);
    static_cast<void>(run.result<bool>());
    times.push_back(seconds_now() - began);
  }
  return times;
}

void measure_one(Bench& bench, BenchEngine& engine, RawLog& raw) {
  const int count = std::max(50, static_cast<int>(bench.pace.window.count() * 500));
  int number = 0;
  std::vector<double> values;
  std::vector<double> raws;
  std::vector<double> ratios;
  std::uint64_t commits = 0;
  for (int i = 0; i < bench.pace.rounds; ++i) {
    const double before = percentile(raw.single_commits(bench.pace.window / 2), 0.5);
    const std::uint64_t commits_before = engine.commits();
    const double took = percentile(resume_times(engine, count, number), 0.5);
    commits += engine.commits() - commits_before;
    const double after = percentile(raw.single_commits(bench.pace.window / 2), 0.5);
    values.push_back(took * us);
    raws.push_back((before + after) / 2 * us);
    ratios.push_back(values.back() / raws.back());
  }
  bench.report.add(
      {.section = "Hooks",
       .name = "resume to the run's end",
       .unit = Unit::microseconds,
       .value = figure_of(values),
       .raw = figure_of(raws),
       .ratio = figure_of(ratios),
       .targets = {{Target::Of::ratio, Target::Sense::at_most, commits_target, false}},
       .note = fmt::format("{:.2f} commits, its start included",
                           static_cast<double>(commits) / (count * bench.pace.rounds))});
}

void measure_many(Bench& bench, BenchEngine& engine) {
  for (int caller = 0; caller < callers; ++caller) {
    const std::string token = "listener-" + std::to_string(caller);
    engine.start({.token = token}, listener, token);
  }
  std::vector<double> rates;
  for (int i = 0; i < bench.pace.rounds; ++i) {
    std::atomic<std::uint64_t> resumed = 0;
    std::atomic<bool> stopping = false;
    const double began = seconds_now();
    {
      std::vector<std::jthread> threads;
      threads.reserve(callers);
      for (int caller = 0; caller < callers; ++caller) {
        threads.emplace_back([&, token = "listener-" + std::to_string(caller)] {
          while (!stopping) {
            engine.resume(token, resumed.load());
            ++resumed;
          }
        });
      }
      pause_for(bench.pace.window);
      stopping = true;
    }
    rates.push_back(static_cast<double>(resumed) / (seconds_now() - began));
  }
  bench.report.add({.section = "Hooks",
                    .name = fmt::format("resumes, {} callers", callers),
                    .unit = Unit::per_second,
                    .value = figure_of(rates),
                    .targets = {},
                    .note = "each read by its run"});
}

/// Does `work(number)` for all numbers on as many threads as there are callers.
template <class F>
void for_all(int count, const F& work) {
  std::vector<std::jthread> threads;
  threads.reserve(callers);
  for (int caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&, caller] {
      for (int number = caller; number < count; number += callers) work(number);
    });
  }
}

}  // namespace

void measure_hooks(Bench& bench) {
  const auto file = bench.file("hooks");
  const auto raw_file = bench.file("hooks-raw");
  {
    BenchEngine engine(file);
    engine.add("approval", approval);
    engine.add("listener", listener);
    engine.start_workers();
    SqliteRawLog raw(raw_file, entry_bytes(engine));
    measure_one(bench, engine, raw);
    measure_many(bench, engine);
  }
  remove_store(file);
  remove_store(raw_file);
}

ParkedOnHooks park_on_hooks(const std::filesystem::path& file, int count, std::int64_t cache_kib) {
  BenchEngine engine(file, {.frame_bytes_max = std::size_t{4} << 30U, .cache_kib = cache_kib});
  engine.add("approval", approval);
  engine.start_workers();
  const auto token = [](int number) { return "parked-" + std::to_string(number); };
  const Memory before = memory_now();
  const double began = seconds_now();
  for_all(count,
          [&](int number) { engine.start({.token = token(number)}, approval, token(number)); });
  const double parked = seconds_now();
  const Memory after = memory_now();
  for_all(count, [&](int number) { engine.resume(token(number), true); });
  // The last to be resumed is about the last to end; the others are looked at after it.
  for (int number = count - 1; number >= 0; --number) {
    try {
      static_cast<void>(engine.run(engine.hook(token(number)).run_id).result<bool>());
    } catch (const HookNotFoundError&) {
      continue;  // it is over
    }
  }
  return {.bytes_each = (after.resident_bytes - before.resident_bytes) / count,
          .starts_per_second = count / (parked - began),
          .resume_seconds = seconds_now() - parked};
}

}  // namespace semel::app::bench
