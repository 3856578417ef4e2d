// One owner per token, also if the process is killed at any moment of the claim.
#include "tests/process/claim_workflows.hpp"
#include "tests/process/process.hpp"
#include "tests/process/store_of_test.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

namespace semel::process {
namespace {

using namespace std::chrono_literals;

int kills_wanted() {
  const char* text = std::getenv("SEMEL_KILLS");
  return text == nullptr ? 10 : std::atoi(text);
}

TEST_CASE(
    "killed in the middle of claims, each token still has one owner and every loser names it") {
  const int kills = kills_wanted();
  const int rounds = 10 * kills;
  TemporaryDirectory directory;
  const auto log = directory.path() / "log";
  const std::string store = store_of_test(directory.path());
  const std::vector<std::string> command{SEMEL_CLAIM_WORKER, store, std::to_string(rounds)};
  std::mt19937 chance{1};
  int killed = 0;
  for (; killed < kills; ++killed) {
    Child worker{command, log};
    REQUIRE_MESSAGE(worker.is_ready_within(60s), text_of(log));
    // The first kill comes early: it must not find the work done.
    const auto patience = std::chrono::microseconds{chance() % (killed == 0 ? 10'000 : 150'000)};
    const auto ended = worker.ends_within(patience);
    if (ended) break;
    worker.kill();
  }
  CHECK(killed > 0);
  {
    Child worker{command, log};
    const auto ended = worker.ends_within(200s);
    REQUIRE_MESSAGE(ended == 0, text_of(log));
  }

  Engine engine{store};
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    std::string owner;
    std::vector<std::string> named;
    for (int claimant = 0; claimant < claimants; ++claimant) {
      const Run run = engine.run(claim_id(round, claimant));
      const auto said = run.result<std::string>();
      if (said == "owner") {
        CHECK(owner == "");
        owner = run.id();
      } else {
        named.push_back(said);
      }
    }
    CHECK(owner != "");
    CHECK(named == std::vector<std::string>(claimants - 1, owner));
    CHECK_THROWS_AS(engine.hook(claim_token(round)), HookNotFoundError);
  }
  MESSAGE(killed, " kills, ", rounds, " rounds");
}

}  // namespace
}  // namespace semel::process
