// Two served engines on one store, killed at random moments or restarted in order, while clients ask either of them until
// they are answered: what was acknowledged happened, exactly once, and its answer never changes.
#include "tests/process/serve_customers.hpp"
#include "tests/support/postgres_server.hpp"

#include <doctest/doctest.h>

#include <array>
#include <csignal>
#include <memory>
#include <random>

namespace semel::process {
namespace {

using testing::PostgresServer;

constexpr int clients = 32;

/// Two servers, those who ask them, and what became of it.
class Shop {
 public:
  Shop() {
    PostgresServer::shared().clear();
    for (std::size_t i = 0; i < ports_.size(); ++i) start(i);
    for (int i = 0; i < clients; ++i) {
      customers_.emplace_back(
          [this, i] { Customer(i, {ports_.begin(), ports_.end()}, seen, stopping_).run(); });
    }
  }

  Shop(const Shop&) = delete;
  Shop& operator=(const Shop&) = delete;

  ~Shop() { stopping_ = true; }

  void kill(std::size_t i) { servers_.at(i)->kill(); }

  void start(std::size_t i) {
    servers_.at(i) = std::make_unique<Child>(
        std::vector<std::string>{SEMEL_SERVE_WORKER, directory_.path(),
                                 std::to_string(ports_.at(i)), PostgresServer::shared().url(),
                                 i == 0 ? "one" : "two"},
        log_);
    REQUIRE_MESSAGE(servers_.at(i)->is_ready_within(60s), text_of(log_));
  }

  /// As a rolling update does it.
  void restart(std::size_t i) {
    ::kill(servers_.at(i)->id(), SIGTERM);
    const auto code = servers_.at(i)->ends_within(10s);
    REQUIRE_MESSAGE(code, "it does not leave within ten seconds");
    CHECK(*code == 0);
    start(i);
  }

  /// Meanwhile nobody ends by itself.
  void let_be(std::size_t i, std::chrono::microseconds time) {
    REQUIRE_MESSAGE(!servers_.at(i)->ends_within(time), text_of(log_));
  }

  /// Lets what was cut off be answered, and waits for the end of every run.
  std::map<std::string, std::string> results() {
    let_be(0, 3s);
    seen.await_orders(clients);
    stopping_ = true;
    customers_.clear();
    std::map<std::string, std::string> results;
    for (const auto& [order, known] : seen.orders)
      results[order] = result_of(ports_[results.size() % 2], known.run);
    return results;
  }

  std::map<std::string, std::multiset<std::string>> charges() const {
    return charges_in(Ledger(directory_.path() / "ledger"));
  }

  Seen seen;

 private:
  TemporaryDirectory directory_;
  const std::filesystem::path log_ = directory_.path() / "log";
  const std::array<std::uint16_t, 2> ports_{port_to_return_to(), port_to_return_to()};
  std::array<std::unique_ptr<Child>, 2> servers_;
  std::atomic<bool> stopping_ = false;
  std::vector<std::jthread> customers_;  ///< the last: they end before what they use
};

std::int64_t count(const std::string& sql) {
  Engine engine{PostgresServer::shared().url()};
  return engine.transaction([&](sql::Transaction& tx) { return tx.query<std::int64_t>(sql); })
      .front();
}

void check_store() {
  // One run per order, whoever asked whom how often.
  CHECK(
      count(
          "SELECT count(*) FROM (SELECT 1 FROM semel.run GROUP BY input HAVING count(*) > 1) t") ==
      0);
  CHECK(count("SELECT count(*) FROM semel.reservation WHERE state = 0") == 0);
}

TEST_CASE("two servers are killed again and again, and what either acknowledged happened once") {
  const int kills = setting("SEMEL_KILLS", 20);
  std::mt19937 chance(static_cast<unsigned>(setting("SEMEL_SEED", 1)));
  std::uniform_int_distribution<int> delay_us(1'000, 300'000);
  Shop shop;

  for (int i = 0; i < kills; ++i) {
    const std::size_t victim = chance() % 2;
    const bool both = chance() % 8 == 0;
    shop.let_be(victim, std::chrono::microseconds{delay_us(chance)});
    shop.kill(victim);
    if (both) shop.kill(1 - victim);
    shop.start(victim);
    if (both) shop.start(1 - victim);
  }
  const auto results = shop.results();

  for (const std::string& problem : shop.seen.problems) MESSAGE(problem);
  CHECK(shop.seen.problems.empty());
  CHECK(shop.seen.orders.size() > static_cast<std::size_t>(clients));
  auto charges = shop.charges();
  for (const auto& [order, known] : shop.seen.orders) {
    CAPTURE(order);
    CHECK(results.at(order) == (known.is_cancelled ? "cancelled" : "charged"));
    CHECK(std::set(charges[order].begin(), charges[order].end()).size() ==
          (known.is_cancelled ? 0 : 1));
  }
  check_store();
  MESSAGE(kills << " kills, " << shop.seen.answers.size() << " requests answered, "
                << shop.seen.orders.size() << " orders");
}

TEST_CASE("two servers are restarted in turn under load, and nothing is lost or done twice") {
  Shop shop;

  for (std::size_t i = 0; i < 6; ++i) shop.restart(i % 2);
  const auto results = shop.results();

  for (const std::string& problem : shop.seen.problems) MESSAGE(problem);
  CHECK(shop.seen.problems.empty());
  CHECK(shop.seen.orders.size() > static_cast<std::size_t>(clients));
  auto charges = shop.charges();
  for (const auto& [order, known] : shop.seen.orders) {
    CAPTURE(order);
    CHECK(results.at(order) == (known.is_cancelled ? "cancelled" : "charged"));
    // Who leaves in order lets its steps end: none is run again.
    CHECK(charges[order].size() == (known.is_cancelled ? 0 : 1));
  }
  check_store();
}

}  // namespace
}  // namespace semel::process
