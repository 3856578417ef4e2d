// kill -9 at random moments, and an outside ledger that counts what really happened.
//
// SEMEL_KILLS says how often (10 by default; CI takes more), SEMEL_SEED repeats the moments of an earlier test, though
// not what the scheduler made of them.
#include "store/sqlite/sqlite_store.hpp"
#include "tests/process/kill_books.hpp"
#include "tests/process/process.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace semel::process {
namespace {

using namespace std::chrono_literals;

/// Nothing that a kill leaves behind may be a run that nothing would ever wake.
std::size_t orphans_in(const std::filesystem::path& directory) {
  auto reader = store::open_reader((directory / "runs.db").string());
  if (!reader) return 0;  // killed before there was a store
  const auto orphans = (*reader)->orphans(10);
  REQUIRE(orphans.has_value());
  return orphans->size();
}

TEST_CASE(
    "whatever is killed, what was acknowledged is there, what was recorded ran once, and all of it "
    "finishes") {
  const int kills = setting("SEMEL_KILLS", 10);
  const auto seed =
      static_cast<unsigned>(setting("SEMEL_SEED", static_cast<int>(std::random_device{}() >> 1U)));
  std::mt19937 chance(seed);
  std::uniform_int_distribution<int> delay_us(1'000, 150'000);
  TemporaryDirectory directory;
  const auto log = directory.path() / "log";
  const Ledger ledger(directory.path() / "ledger");
  const std::string store = "sqlite:" + (directory.path() / "runs.db").string();
  const std::string program = SEMEL_KILL_WORKER;
  CAPTURE(seed);

  const auto begun = std::chrono::steady_clock::now();
  int early = 0;
  for (int kill = 0; kill < kills; ++kill) {
    Child worker({program, store, directory.path(), "work", "0", "4"}, log);
    // One in four dies while it opens the store or recovers, the others at work.
    const bool is_early = chance() % 4 == 0;
    if (!is_early) REQUIRE_MESSAGE(worker.is_ready_within(60s), text_of(log));
    early += is_early ? 1 : 0;
    const auto ended = worker.ends_within(std::chrono::microseconds{delay_us(chance)});
    REQUIRE_MESSAGE(!ended.has_value(), "the worker ended by itself, with ", ended.value_or(0),
                    ": ", text_of(log));
    worker.kill();
    REQUIRE(orphans_in(directory.path()) == 0);
  }
  const auto killed = std::chrono::steady_clock::now();
  Child last({program, store, directory.path(), "finish"}, log);
  const auto ended = last.ends_within(120s);
  const auto finished = std::chrono::steady_clock::now();

  REQUIRE_MESSAGE(ended == 0, "the last worker did not finish: ", text_of(log));
  const Books books = read_books(ledger);
  const Verdict verdict = judge(store, books);
  for (std::size_t i = 0; i < std::min<std::size_t>(20, verdict.problems.size()); ++i) {
    MESSAGE(verdict.problems.at(i));
  }
  CHECK(verdict.problems.size() == 0);
  CHECK(std::ssize(books.dead) <= 1 + kills / 50);
  const auto seconds = [](auto from, auto to) {
    return std::chrono::duration<double>(to - from).count();
  };
  MESSAGE(fmt::format(
      "seed {}: {} kills ({} of them while opening) in {:.1f} s, the rest in {:.1f} s; {} starts "
      "acknowledged, {} runs, {} steps, {} attempts, {} of them lost, {} outcomes unknown, {} dead "
      "and retried",
      seed, kills, early, seconds(begun, killed), seconds(killed, finished), books.acks.size(),
      verdict.runs, verdict.steps, verdict.attempts, verdict.attempts_lost,
      verdict.outcomes_unknown, books.dead.size()));
}

}  // namespace
}  // namespace semel::process
