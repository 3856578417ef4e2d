// An engine on PostgreSQL: the same workflows, the same promises.
#include "tests/support/postgres_proxy.hpp"
#include "tests/support/postgres_server.hpp"

#include <semel/semel.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <mutex>

namespace semel {
namespace {

using semel::testing::Fate;
using semel::testing::PostgresProxy;
using semel::testing::PostgresServer;
using namespace std::chrono_literals;

/// Counts what happened outside, by step id.
struct Shop {
  std::mutex mutex;
  std::map<std::string, int> charges;

  Workflow<int> fulfil(int order) {
    auto approval = hook<bool>("order:" + std::to_string(order));
    if (!co_await approval) co_return 0;
    co_await step("charge", [this](const StepContext& context) {
      const std::lock_guard lock(mutex);
      ++charges[context.id];
    });
    const int fee = co_await step("fee", [] { return 2; });
    co_return order + fee;
  }
};

std::string token(int order) { return "order:" + std::to_string(order); }

TEST_CASE("a workflow runs on PostgreSQL, and goes on in the next engine") {
  PostgresServer& server = PostgresServer::shared();
  server.clear();
  Shop shop;
  std::string id;
  {
    Engine engine{server.url()};
    engine.add("fulfil", &Shop::fulfil, &shop);
    engine.start_workers();
    const auto started = engine.start({.key = "order 40", .token = token(40)}, "fulfil", 40);
    CHECK(started.created);
    CHECK_FALSE(engine.start({.key = "order 40", .token = token(40)}, "fulfil", 40).created);
    id = started.run.id();
  }

  Engine engine{server.url()};
  engine.add("fulfil", &Shop::fulfil, &shop);
  engine.start_workers();
  engine.resume(token(40), true);

  CHECK(engine.run(id).result<int>() == 42);
  CHECK(shop.charges.size() == 1);
  CHECK(shop.charges.begin()->second == 1);
}

TEST_CASE(
    "an engine whose connection is cut again and again loses nothing and does nothing twice") {
  PostgresServer& server = PostgresServer::shared();
  server.clear();
  PostgresProxy proxy{server.port()};
  Shop shop;
  Engine engine{proxy.url()};
  engine.add("fulfil", &Shop::fulfil, &shop);
  engine.start_workers();
  constexpr std::array fates{Fate::cut_before, Fate::cut_after};
  // Whatever is answered with STORE_UNAVAILABLE may have happened: asked again under the same key, it does once.
  const auto insisting = [](const auto& call) {
    for (;;) {
      try {
        return call();
      } catch (const Error& error) {
        if (error.code() != "STORE_UNAVAILABLE") throw;
      }
    }
  };
  constexpr int orders = 10;

  for (int order = 0; order < orders; ++order) {
    proxy.next_commit(fates.at(static_cast<std::size_t>(order) % fates.size()));
    insisting([&] {
      return engine.start({.key = token(order), .token = token(order)}, "fulfil", order);
    });
    proxy.next_commit(fates.at(static_cast<std::size_t>(order / 2) % fates.size()));
    insisting([&] { return engine.resume(token(order), true, {.resume_id = "approved"}); });
  }

  for (int order = 0; order < orders; ++order) {
    const auto again = insisting([&] {
      return engine.start({.key = token(order), .token = token(order)}, "fulfil", order);
    });
    CHECK_FALSE(again.created);
    CHECK(insisting([&] { return again.run.template result<int>(); }) == order + 2);
  }
  CHECK(shop.charges.size() == orders);
  CHECK(proxy.interfered() >= orders);
}

}  // namespace
}  // namespace semel
