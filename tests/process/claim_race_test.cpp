// Twelve processes claim one token, and start one key, at the same moment: one owner each time, and the others know who.
#include "tests/process/process.hpp"
#include "tests/support/postgres_server.hpp"

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <set>

namespace semel::process {
namespace {

using namespace std::chrono_literals;

constexpr int racers = 12;

/// What all were told of one token or key.
struct Told {
  std::vector<std::string> owners;
  std::multiset<std::string> named;  ///< by those who lost
};

TEST_CASE("of twelve processes that claim a token or a key at once one gets it") {
  const int rounds = setting("SEMEL_ROUNDS", 20);
  semel::testing::PostgresServer& server = semel::testing::PostgresServer::shared();
  server.clear();
  TemporaryDirectory directory;
  const auto log = directory.path() / "log";
  const Ledger ledger(directory.path() / "ledger");

  std::vector<std::unique_ptr<Child>> children;
  for (int number = 0; number < racers; ++number) {
    children.push_back(std::make_unique<Child>(
        std::vector<std::string>{SEMEL_CLAIM_RACER, server.url(), directory.path(),
                                 std::to_string(number), std::to_string(racers),
                                 std::to_string(rounds)},
        log));
  }
  for (const auto& child : children) {
    const auto ended = child->ends_within(240s);
    REQUIRE_MESSAGE(ended == 0, text_of(log));
  }

  std::map<std::string, Told> claims;
  for (const std::string& line : ledger.lines()) {
    const auto word = words(line);
    Told& told = claims[word.at(0) + " " + word.at(1)];
    if (word.at(2) == "owner") {
      told.owners.push_back(word.at(3));
    } else {
      told.named.insert(word.at(3));
    }
  }
  CHECK(claims.size() == static_cast<std::size_t>(2 * rounds));
  for (const auto& [what, told] : claims) {
    CAPTURE(what);
    REQUIRE(told.owners.size() == 1);
    CHECK(told.named.count(told.owners.front()) == racers - 1);
  }
}

}  // namespace
}  // namespace semel::process
