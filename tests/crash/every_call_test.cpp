// For every store call a scenario makes: the process dies before it, and dies behind it before anybody heard of it. The
// next process comes to the same end, also if it dies itself while it recovers. SEMEL_SCENARIO=name plays one of them and
// prints what it comes to; SEMEL_EVERY_SECOND=1 lets the second process die at each of its first calls, not just at one;
// SEMEL_SAMPLE=n plays one of n, where a play takes long.
#include "tests/crash/scenarios.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace {

using namespace semel;
using crash::Death;
using crash::Moment;
using crash::Observed;
using crash::Scenario;

/// At which of its first calls a second process dies.
constexpr std::uint64_t second_call_max = 6;

bool is_set(const char* variable) { return std::getenv(variable) != nullptr; }

struct Play {
  Observed observed;
  std::uint64_t calls = 0;
  int crashes = 0;
  std::vector<std::string> complaints;
};

Play play(const Scenario& scenario, std::deque<Death> deaths) {
  crash::Stage stage{std::move(deaths)};
  scenario.play(stage);
  Play play;
  play.observed = stage.observed();
  play.calls = stage.calls();
  play.crashes = stage.crashes();
  play.complaints = stage.complaints();
  return play;
}

bool is_wanted(const Scenario& scenario) {
  const char* only = std::getenv("SEMEL_SCENARIO");
  return only == nullptr || scenario.name == only;
}

/// Runs that a repeated call made once more are no difference.
std::vector<std::string> distinct(std::vector<std::string> runs, bool repeats) {
  if (repeats) runs.erase(std::unique(runs.begin(), runs.end()), runs.end());
  return runs;
}

/// What is different from the play without crashes, and must not be.
std::vector<std::string> differences(const Scenario& scenario, const Play& calm, const Play& play) {
  std::vector<std::string> found = play.complaints;
  const auto expected = distinct(calm.observed.runs, scenario.repeats);
  const auto runs = distinct(play.observed.runs, scenario.repeats);
  if (runs != expected) {
    found.push_back(fmt::format("it came to\n{}\nand not to\n{}", fmt::join(runs, "\n"),
                                fmt::join(expected, "\n")));
  }
  for (const auto& [body, count] : play.observed.bodies) {
    const auto before = calm.observed.bodies.find(body);
    const int allowed = (before == calm.observed.bodies.end() ? 0 : before->second) + play.crashes;
    if (before == calm.observed.bodies.end()) found.push_back(body + " began, which it should not");
    // A run that was made twice has bodies of its own.
    if (count > allowed && !scenario.repeats)
      found.push_back(fmt::format("{} began {} times", body, count));
  }
  return found;
}

void check(const Scenario& scenario, const Play& calm, const std::deque<Death>& deaths) {
  const Play disturbed = play(scenario, deaths);
  std::string when;
  for (const Death& death : deaths) {
    when +=
        fmt::format(" {} call {}", death.moment == Moment::before ? "before" : "after", death.call);
  }
  for (const std::string& what : differences(scenario, calm, disturbed))
    FAIL_CHECK(scenario.name << ", died" << when << ": " << what);
}

/// While it recovers from a death at `call`.
std::vector<Death> second_deaths(std::uint64_t call) {
  const auto moment = [](std::uint64_t n) { return n % 2 == 0 ? Moment::before : Moment::after; };
  if (!is_set("SEMEL_EVERY_SECOND"))
    return {{1 + call % second_call_max, moment(call / second_call_max)}};
  std::vector<Death> deaths;
  for (std::uint64_t n = 0; n < 2 * second_call_max; ++n) deaths.push_back({1 + n / 2, moment(n)});
  return deaths;
}

void check_every_call(std::span<const Scenario> scenarios) {
  const char* sample = std::getenv("SEMEL_SAMPLE");
  const std::uint64_t one_of = sample == nullptr ? 1 : std::stoull(sample);
  std::uint64_t wanted = 0;
  std::uint64_t plays = 0;
  const auto check_one = [&](const Scenario& scenario, const Play& calm,
                             const std::deque<Death>& deaths) {
    if (wanted++ % one_of != 0) return;
    check(scenario, calm, deaths);
    ++plays;
  };
  for (const Scenario& scenario : scenarios) {
    if (!is_wanted(scenario)) continue;
    const Play calm = play(scenario, {});
    CAPTURE(scenario.name);
    REQUIRE(calm.complaints == std::vector<std::string>{});
    fmt::print("{:<36}{:>4} store calls\n", scenario.name, calm.calls);
    if (is_set("SEMEL_SCENARIO")) fmt::print("{}\n", fmt::join(calm.observed.runs, "\n"));

    for (std::uint64_t call = 1; call <= calm.calls; ++call) {
      for (const Moment moment : {Moment::before, Moment::after}) {
        const Death first{call, moment};
        check_one(scenario, calm, {first});
        for (const Death& second : second_deaths(call)) check_one(scenario, calm, {first, second});
      }
    }
  }
  fmt::print("{} plays with crashes\n", plays);
}

}  // namespace

TEST_CASE(
    "what a workflow awaits comes to the same end, whichever store call its process dies at") {
  check_every_call(crash::operation_scenarios());
}

TEST_CASE(
    "what is done with runs comes to the same end, whichever store call the process dies at") {
  check_every_call(crash::run_scenarios());
}
