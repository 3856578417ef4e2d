// A served engine that is killed at random moments while clients start, resume and cancel runs with keys and ask until they
// are answered: what was acknowledged happened, exactly once, and its answer never changes.
#include "tests/process/serve_customers.hpp"
#include "tests/process/store_of_test.hpp"

#include <doctest/doctest.h>

#include <random>

namespace semel::process {
namespace {

constexpr int clients = 64;

}  // namespace

TEST_CASE("a served engine is killed again and again, and what it acknowledged happened once") {
  const int kills = setting("SEMEL_KILLS", 10);
  std::mt19937 chance(static_cast<unsigned>(setting("SEMEL_SEED", 1)));
  std::uniform_int_distribution<int> delay_us(1'000, 300'000);
  TemporaryDirectory directory;
  const auto log = directory.path() / "log";
  const std::uint16_t port = port_to_return_to();
  const std::string store = store_of_test(directory.path());
  const std::vector<std::string> command{SEMEL_SERVE_WORKER, directory.path(), std::to_string(port),
                                         store};
  Seen seen;
  std::atomic<bool> stopping = false;
  std::map<std::string, std::string> results;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < clients; ++i) {
      threads.emplace_back([&, i] { Customer(i, {port}, seen, stopping).run(); });
    }
    const StopsAtEnd stops(stopping);
    for (int i = 0; i < kills; ++i) {
      Child server(command, log);
      REQUIRE_MESSAGE(server.is_ready_within(60s), text_of(log));
      const auto ended = server.ends_within(std::chrono::microseconds{delay_us(chance)});
      REQUIRE_MESSAGE(!ended, text_of(log));
      server.kill();
    }
    // One that lives, so that whatever was cut off is answered and every run comes to its end.
    Child server(command, log);
    REQUIRE_MESSAGE(server.is_ready_within(60s), text_of(log));
    static_cast<void>(server.ends_within(3s));
    seen.await_orders(clients);
    stopping = true;
    threads.clear();
    for (const auto& [order, known] : seen.orders) results[order] = result_of(port, known.run);
  }

  for (const std::string& problem : seen.problems) MESSAGE(problem);
  CHECK(seen.problems.empty());
  CHECK(seen.orders.size() > static_cast<std::size_t>(clients));

  // A step may be run again after a kill, but under the same id: whoever dedupes sees one charge.
  auto charges = charges_in(Ledger(directory.path() / "ledger"));
  for (const auto& [order, known] : seen.orders) {
    CAPTURE(order);
    CHECK(results[order] == (known.is_cancelled ? "cancelled" : "charged"));
    CHECK(std::set(charges[order].begin(), charges[order].end()).size() ==
          (known.is_cancelled ? 0 : 1));
  }
  // One run per order, whoever asked how often.
  Engine engine{store};
  std::map<std::string, int> runs;
  for (const Run& run : engine.runs({.limit = 1'000'000})) ++runs[value::to_text(run.input())];
  for (const auto& [input, count] : runs) CHECK_MESSAGE(count == 1, input);
  const auto in_progress = engine.transaction([](sql::Transaction& tx) {
    return tx.query<std::int64_t>(is_on_postgres()
                                      ? "SELECT count(*) FROM semel.reservation WHERE state = 0"
                                      : "SELECT count(*) FROM semel_reservation WHERE state = 0");
  });
  CHECK(in_progress == std::vector<std::int64_t>{0});
  MESSAGE(kills << " kills, " << seen.answers.size() << " requests answered, " << seen.orders.size()
                << " orders");
}

}  // namespace semel::process
