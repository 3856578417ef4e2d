// Several nodes on one PostgreSQL store, killed or stopped at random moments.
//
// SEMEL_KILLS and SEMEL_PAUSES say how often (few by default; CI takes more), SEMEL_SEED repeats the moments.
#include "tests/process/kill_books.hpp"
#include "tests/process/kill_workflows.hpp"
#include "tests/process/process.hpp"
#include "tests/support/postgres_server.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>

#include <array>
#include <memory>
#include <random>

namespace semel::process {
namespace {

using namespace std::chrono_literals;
using semel::testing::PostgresServer;

constexpr std::size_t nodes_max = 4;
constexpr std::size_t clients_each = 2;

/// The processes that share the store, and what they did.
class Cluster {
 public:
  Cluster() {
    server_.clear();
    server_.run("DROP TABLE IF EXISTS booking, placed");
  }

  void start(std::size_t node) {
    nodes_.at(node) = std::make_unique<Child>(
        std::vector<std::string>{SEMEL_KILL_WORKER, server_.url(), directory_.path(), "work",
                                 std::to_string(node * clients_each), std::to_string(clients_each)},
        log());
  }

  bool is_up(std::size_t node) const { return nodes_.at(node) != nullptr; }

  std::size_t up() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(nodes_, [](const auto& node) { return node != nullptr; }));
  }

  void ready(std::size_t node) {
    REQUIRE_MESSAGE(nodes_.at(node)->is_ready_within(60s), text_of(log()));
  }

  void kill(std::size_t node) {
    const auto ended = nodes_.at(node)->ends_within(0us);
    REQUIRE_MESSAGE(!ended.has_value(), "it ended by itself, with ", ended.value_or(0), ": ",
                    text_of(log()));
    nodes_.at(node)->kill();
    nodes_.at(node).reset();
  }

  void send(std::size_t node, int signal) const { ::kill(nodes_.at(node)->id(), signal); }

  /// The rest is done by one that is left alone.
  Verdict finish(const Allowances& allowances) {
    for (std::size_t node = 0; node < nodes_max; ++node) {
      if (is_up(node)) kill(node);
    }
    Child last({SEMEL_KILL_WORKER, server_.url(), directory_.path(), "finish"}, log());
    const auto ended = last.ends_within(180s);
    REQUIRE_MESSAGE(ended == 0, "the last node did not finish: ", text_of(log()));
    books = read_books(ledger_);
    return judge(server_.url(), books, allowances);
  }

  std::filesystem::path log() const { return directory_.path() / "log"; }

  /// Of what its nodes said, how often this was.
  std::size_t said(std::string_view what) const {
    const std::string text = text_of(log());
    std::size_t count = 0;
    for (std::size_t i = text.find(what); i != std::string::npos; i = text.find(what, i + 1))
      ++count;
    return count;
  }

  Books books;

 private:
  PostgresServer& server_ = PostgresServer::shared();
  TemporaryDirectory directory_;
  Ledger ledger_{directory_.path() / "ledger"};
  std::array<std::unique_ptr<Child>, nodes_max> nodes_;
};

void report(const Cluster& cluster, const Verdict& verdict, const std::string& what) {
  for (std::size_t i = 0; i < std::min<std::size_t>(20, verdict.problems.size()); ++i) {
    MESSAGE(verdict.problems.at(i));
  }
  CHECK(verdict.problems.size() == 0);
  MESSAGE(fmt::format(
      "{}; {} starts acknowledged, {} runs, {} steps, {} attempts, {} of them lost, {} outcomes "
      "unknown, {} dead and retried, {} times a lease was lost",
      what, cluster.books.acks.size(), verdict.runs, verdict.steps, verdict.attempts,
      verdict.attempts_lost, verdict.outcomes_unknown, cluster.books.dead.size(),
      cluster.said("lost its lease")));
}

unsigned seed_of_test() {
  return static_cast<unsigned>(
      setting("SEMEL_SEED", static_cast<int>(std::random_device{}() >> 1U)));
}

TEST_CASE("whichever nodes are killed, nothing is lost and nothing recorded runs again") {
  const int kills = setting("SEMEL_KILLS", 6);
  const unsigned seed = seed_of_test();
  CAPTURE(seed);
  std::mt19937 chance(seed);
  Cluster cluster;
  cluster.start(0);
  cluster.ready(0);

  for (int killed = 0; killed < kills;) {
    const std::size_t node = chance() % nodes_max;
    if (!cluster.is_up(node)) {
      cluster.start(node);
      // One in four may be killed before it is ready.
      if (chance() % 4 != 0) cluster.ready(node);
      continue;
    }
    // Mostly there are several; now and then there is nobody.
    if (cluster.up() == 1 && chance() % 4 != 0) {
      cluster.start((node + 1) % nodes_max);
      continue;
    }
    pause(std::chrono::microseconds{chance() % 200'000});
    cluster.kill(node);
    ++killed;
  }

  report(cluster, cluster.finish({}), fmt::format("seed {}: {} kills", seed, kills));
}

TEST_CASE("a node that stops for twice its lease and goes on is refused, and does no harm") {
  const int pauses = setting("SEMEL_PAUSES", 2);
  const unsigned seed = seed_of_test();
  CAPTURE(seed);
  std::mt19937 chance(seed);
  Cluster cluster;
  constexpr std::size_t nodes = 3;
  for (std::size_t node = 0; node < nodes; ++node) {
    cluster.start(node);
    cluster.ready(node);  // the first one makes the program's own tables
  }

  for (int paused = 0; paused < pauses; ++paused) {
    const std::size_t node = chance() % nodes;
    pause(std::chrono::microseconds{500'000 + chance() % 500'000});
    cluster.send(node, SIGSTOP);
    pause(2 * kill_test_lease);
    cluster.send(node, SIGCONT);
  }

  const Verdict verdict = cluster.finish({.late_beginnings = true});
  report(cluster, verdict, fmt::format("seed {}: {} pauses", seed, pauses));
  // Most are stopped inside a transaction, which the server ends; but not all of so many.
  if (pauses >= 30) CHECK(cluster.said("lost its lease") > 0);
}

}  // namespace
}  // namespace semel::process
