// Seeds: a few hundred by default, 5,000 in CI, 100,000 by hand. SEMEL_SEED=n replays one, SEMEL_TRACE=1 prints what
// happens in it, SEMEL_SEEDS=n sets how many there are, SEMEL_FIRST_SEED=n where they begin (so that processes share them).
#include "tests/simulation/seeds.hpp"
#include "tests/simulation/world.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>

namespace {

using namespace semel;

constexpr std::uint64_t seeds_by_default = SEMEL_DEFAULT_SEEDS;
/// From this many seeds on, every fault must have met every command.
constexpr std::uint64_t seeds_in_ci = 5000;
constexpr int failures_shown = 5;

}  // namespace

TEST_CASE("whatever goes wrong, the invariants hold and every run comes to its right end") {
  const auto only = sim::only_seed();
  const std::uint64_t first = only ? *only : sim::number_from("SEMEL_FIRST_SEED").value_or(1);
  const std::uint64_t count = only ? 1 : sim::number_from("SEMEL_SEEDS").value_or(seeds_by_default);
  sim::FaultCounts faults;
  std::uint64_t commits = 0;
  std::uint64_t crashes = 0;
  std::uint64_t bodies = 0;
  std::uint64_t late_bodies = 0;
  int failures = 0;
  const auto began = std::chrono::steady_clock::now();

  for (std::uint64_t seed = first; seed < first + count && failures < failures_shown; ++seed) {
    sim::World world{seed, nullptr, sim::is_traced()};
    const sim::Report report = world.run();
    if (report.violation) {
      ++failures;
      FAIL_CHECK(report.text() << "\nreplay: SEMEL_SEED=" << seed << " SEMEL_TRACE=1");
      continue;
    }
    CHECK_MESSAGE(report.commits >= 200,
                  "seed " << seed << " had " << report.commits << " commits");
    CHECK_MESSAGE(report.faults.total() >= 5,
                  "seed " << seed << " had " << report.faults.total() << " faults");
    faults.add(report.faults);
    commits += report.commits;
    crashes += report.crashes;
    bodies += report.bodies;
    late_bodies += report.late_bodies;
    if (const std::uint64_t done = seed - first + 1; done % seeds_in_ci == 0 && done < count)
      fmt::print(stderr, "{} of {} seeds\n", done, count);
  }

  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  fmt::print(
      "{} seeds in {:.1f} s ({:.0f} a minute): {} commits, {} faults, {} crashes, {} bodies, {} of "
      "them late\n{}\n",
      count, took.count(), 60 * static_cast<double>(count) / took.count(), commits, faults.total(),
      crashes, bodies, late_bodies, faults.table());
  if (count >= seeds_in_ci) {
    for (const std::string& name : faults.missing()) FAIL_CHECK("never happened: " << name);
  }
}

TEST_CASE("a seed happens the same way every time") {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    sim::World first{seed};
    sim::World second{seed};

    const sim::Report one = first.run();
    const sim::Report two = second.run();

    CHECK(one.digest == two.digest);
    CHECK(one.turns == two.turns);
    CHECK(one.faults.total() == two.faults.total());
  }
}
