// Every planted bug is found by the checks that find nothing otherwise. SEMEL_SEED=n looks at that seed only, SEMEL_SEEDS=n
// at so many.
#include "tests/simulation/planted.hpp"

#include "tests/simulation/seeds.hpp"
#include "tests/simulation/world.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace {

using namespace semel;

/// All of them are found in the first few dozen: enough to spare, and quick where one is not found.
constexpr std::uint64_t seeds_by_default = 1000;
constexpr std::uint64_t harmless_seeds = SEMEL_HARMLESS_SEEDS;

/// Among words with a space in between.
bool is_among(const std::string& word, std::string_view words) {
  return fmt::format(" {} ", words).find(fmt::format(" {} ", word)) != std::string::npos;
}

/// The first of these seeds in which it breaks what it should; without such a promise, in which it breaks any.
std::optional<sim::Report> find(const sim::Planted& planted, std::uint64_t first,
                                std::uint64_t last) {
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const auto sabotage = planted.make();
    sim::World world{seed, sabotage.get(), sim::is_traced()};
    sim::Report report = world.run();
    if (!report.violation) continue;
    if (planted.breaks.empty() || is_among(report.violation->invariant, planted.breaks))
      return report;
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("the simulator finds every planted bug") {
  const std::uint64_t last =
      sim::only_seed().value_or(sim::number_from("SEMEL_SEEDS").value_or(seeds_by_default));
  for (const sim::Planted& planted : sim::planted_bugs()) {
    CAPTURE(planted.name);
    const auto found = find(planted, sim::only_seed().value_or(planted.first_seed), last);
    CHECK_MESSAGE(found.has_value(), "not found");
    if (found) fmt::print("{:<42} {}\n", planted.name, found->text());
  }
}

TEST_CASE("what only looks wrong does no harm") {
  for (const sim::Planted& oddity : sim::harmless_oddities()) {
    CAPTURE(oddity.name);
    const auto found = find(oddity, 1, harmless_seeds);
    CHECK_MESSAGE(!found, (found ? found->text() : ""));
  }
}
