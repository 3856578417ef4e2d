// Several engines on one PostgreSQL store: whoever is asked, it happens once, and whoever waits hears of it.
#include "tests/support/postgres_server.hpp"

#include <semel/semel.hpp>

#include <doctest/doctest.h>

#include <array>
#include <latch>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace semel {
namespace {

using semel::testing::PostgresServer;
using namespace std::chrono_literals;

/// Nobody is to be taken for dead here, however busy the machine is. A third of it is what a newcomer waits for its share.
constexpr auto lease = 10s;

/// What happened outside, by step id and by node.
class World {
 public:
  void happen(const std::string& step_id, const std::string& node) {
    const std::lock_guard lock(mutex_);
    ++effects_[step_id];
    nodes_.insert(node);
  }

  std::map<std::string, int> effects() {
    const std::lock_guard lock(mutex_);
    return effects_;
  }

  std::set<std::string> nodes() {
    const std::lock_guard lock(mutex_);
    return nodes_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> effects_;
  std::set<std::string> nodes_;
};

std::string token(int order) { return "order:" + std::to_string(order); }

/// One process of several; here they are engines of one.
class Node {
 public:
  Node(const PostgresServer& server, World& world, std::string name)
      : world_(world),
        name_(std::move(name)),
        engine{server.url(), {.node = name_, .lease = lease}} {
    fulfil_ = engine.add("fulfil", &Node::fulfil, this);
    engine.add("parent", &Node::parent, this);
    engine.start_workers();
  }

  Workflow<int> fulfil(int order) {
    auto approval = hook<int>(token(order));
    const int amount = co_await approval;
    co_await step("charge",
                  [this](const StepContext& context) { world_.happen(context.id, name_); });
    co_return order + amount;
  }

  Workflow<int> parent(int order) {
    co_return co_await child(StartOptions{.token = token(order)}, fulfil_, order);
  }

 private:
  World& world_;
  std::string name_;
  WorkflowRef<Workflow<int> (Node::*)(int)> fulfil_;

 public:
  Engine engine;
};

PostgresServer& empty_server() {
  PostgresServer& server = PostgresServer::shared();
  server.clear();
  return server;
}

bool is_shared(Engine& engine) {
  return engine
             .transaction([](sql::Transaction& tx) {
               return tx.query<std::int64_t>(
                   "SELECT count(DISTINCT p.node) FROM semel.partition p JOIN semel.node n ON "
                   "n.node = p.node");
             })
             .front() > 1;
}

TEST_CASE("a run is started here, resumed there, and its end is heard everywhere") {
  PostgresServer& server = empty_server();
  World world;
  Node first{server, world, "first"};
  Node second{server, world, "second"};
  int orders = 0;

  // From the beginning until both have their share, and after.
  for (int after = 0; after < 60; after += is_shared(first.engine) ? 1 : 0) {
    const int order = orders++;
    Node& here = order % 2 == 0 ? first : second;
    Node& there = order % 2 == 0 ? second : first;
    const Started started = here.engine.start(
        {.key = "k" + std::to_string(order), .token = token(order)}, "fulfil", order);
    CHECK(started.created);
    CHECK_FALSE(
        there.engine
            .start({.key = "k" + std::to_string(order), .token = token(order)}, "fulfil", order)
            .created);
    there.engine.resume(token(order), 1000);
    CHECK(here.engine.run(started.run.id()).result<int>() == order + 1000);
    CHECK(there.engine.run(started.run.id()).result<int>() == order + 1000);
  }

  const auto effects = world.effects();
  CHECK(std::ssize(effects) == orders);
  for (const auto& [step, times] : effects) CHECK(times == 1);
}

TEST_CASE("runs of all partitions go on wherever they are, and both nodes work") {
  PostgresServer& server = empty_server();
  World world;
  constexpr int orders = 200;
  std::vector<std::string> ids;
  Node first{server, world, "first"};
  for (int order = 0; order < orders; ++order)
    ids.push_back(first.engine.start({.token = token(order)}, "fulfil", order).run.id());

  // They leave what rests, and it rests.
  Node second{server, world, "second"};
  while (!is_shared(first.engine)) std::this_thread::yield();
  std::size_t resumed = 0;
  while (world.nodes().size() < 2) {
    REQUIRE(resumed < ids.size());
    second.engine.resume(token(static_cast<int>(resumed)), 1);
    CHECK(second.engine.run(ids.at(resumed)).result<int>(20s) == static_cast<int>(resumed) + 1);
    ++resumed;
  }
  for (; resumed < ids.size(); ++resumed) second.engine.resume(token(static_cast<int>(resumed)), 1);
  for (int order = 0; order < orders; ++order)
    CHECK(first.engine.run(ids.at(static_cast<std::size_t>(order))).result<int>() == order + 1);
  for (const auto& [step, times] : world.effects()) CHECK(times == 1);
}

TEST_CASE("a client without workers starts, resumes, waits and cancels") {
  PostgresServer& server = empty_server();
  World world;
  Node node{server, world, "node"};
  Engine client{server.url(), {.node = "client"}};
  Node* const nobody = nullptr;
  client.add("parent", &Node::parent, nobody);

  const Run parent = client.start({}, "parent", 1).run;
  const auto is_there = [&] {
    try {
      client.resume(token(1), 5);
      return true;
    } catch (const HookNotFoundError&) {
      return false;  // the parent has not come so far
    }
  };
  while (!is_there()) std::this_thread::yield();
  CHECK(parent.result<int>() == 6);

  Run left = client.start({}, "parent", 2).run;
  left.cancel();
  CHECK(node.engine.run(left.id()).status() == RunStatus::cancelled);
  CHECK_THROWS_AS(static_cast<void>(node.engine.run(left.id()).result<int>()), RunCancelledError);
}

TEST_CASE("what a node leaves behind, another finishes") {
  PostgresServer& server = empty_server();
  World world;
  std::vector<Run> runs;
  Node second{server, world, "second"};
  {
    Node first{server, world, "first"};
    while (!is_shared(first.engine)) std::this_thread::yield();
    for (int order = 0; order < 20; ++order)
      runs.push_back(
          second.engine.run(first.engine.start({.token = token(order)}, "fulfil", order).run.id()));
  }

  for (int order = 0; order < 20; ++order) second.engine.resume(token(order), 1);

  for (int order = 0; order < 20; ++order)
    CHECK(runs.at(static_cast<std::size_t>(order)).result<int>() == order + 1);
}

Workflow<int> twice(int number) {
  co_return co_await step("twice", [number] { return 2 * number; });
}

/// Waits two times, and says which version of it did the rest.
template <int Version>
Workflow<int> patient(std::string name) {
  auto first = hook<int>(name + ":first");
  auto second = hook<int>(name + ":second");
  co_await first.open();
  co_await second.open();
  const int one = co_await first;
  const int two = co_await second;
  co_return Version * 100 + one + two;
}

EngineOptions named(const std::string& name) { return {.node = name, .lease = lease}; }

TEST_CASE("runs of a workflow that some nodes have go on there, wherever they were made") {
  PostgresServer& server = empty_server();
  Engine without{server.url(), named("without")};
  without.start_workers();
  Engine with{server.url(), named("with")};
  with.add("twice", twice);
  with.start_workers();
  Engine client{server.url(), named("client")};
  client.add("twice", twice);
  constexpr int count = 80;

  std::vector<Run> runs;
  for (int i = 0; i < count; ++i) runs.push_back(client.start({}, twice, i).run);

  for (int i = 0; i < count; ++i) {
    const std::string id = runs.at(static_cast<std::size_t>(i)).id();
    CHECK(runs.at(static_cast<std::size_t>(i)).result<int>() == 2 * i);
    CHECK(without.run(id).result<int>() == 2 * i);
  }
}

TEST_CASE("runs that nobody can drive wait until a node comes that can") {
  PostgresServer& server = empty_server();
  Engine without{server.url(), named("without")};
  without.start_workers();
  Engine client{server.url(), named("client")};
  client.add("twice", twice);
  std::vector<Run> runs;
  for (int i = 0; i < 10; ++i) runs.push_back(client.start({}, twice, i).run);
  for (const Run& run : runs) CHECK(run.status() == RunStatus::running);

  Engine with{server.url(), named("with")};
  with.start_workers();
  with.add("twice", twice);  // and says so later

  for (int i = 0; i < 10; ++i) CHECK(runs.at(static_cast<std::size_t>(i)).result<int>() == 2 * i);
}

TEST_CASE("runs of a newer version are left to those who have it") {
  PostgresServer& server = empty_server();
  Engine old{server.url(), named("old")};
  old.add("patient", patient<1>, {.version = 1});
  old.start_workers();
  Engine newer{server.url(), named("newer")};
  newer.add("patient", patient<2>, {.version = 2});
  newer.start_workers();
  Engine client{server.url(), named("client")};
  client.add("patient", patient<2>, {.version = 2});

  std::vector<Run> runs;
  for (int i = 0; i < 40; ++i)
    runs.push_back(client.start({}, "patient", Json{"n" + std::to_string(i)}).run);
  const auto resume = [&](const std::string& token) {
    for (;;) {
      try {
        client.resume(token, 1);
        return;
      } catch (const HookNotFoundError&) {
        std::this_thread::yield();  // nobody has driven it so far
      }
    }
  };
  for (int i = 0; i < 40; ++i) {
    resume("n" + std::to_string(i) + ":first");
    resume("n" + std::to_string(i) + ":second");
  }

  for (const Run& run : runs) CHECK(run.result<int>() == 202);
}

TEST_CASE("a run that a newer program has driven is left alone by an older one") {
  PostgresServer& server = empty_server();
  const auto open = [&](auto workflow, int version) {
    auto engine = std::make_unique<Engine>(server.url(), named("v" + std::to_string(version)));
    engine->add("patient", workflow, {.version = version});
    engine->start_workers();
    return engine;
  };
  auto old = open(patient<1>, 1);
  const Run run = old->start({}, "patient", Json{"n"}).run;
  const std::string id = run.id();
  while (run.status() != RunStatus::waiting) std::this_thread::yield();
  const std::size_t entries = run.journal().size();
  old.reset();
  auto newer = open(patient<2>, 2);
  newer->resume("n:first", 1);
  while (newer->run(id).journal().size() == entries) std::this_thread::yield();
  newer.reset();

  // It has the payload, and what is asked for later is done.
  old = open(patient<1>, 1);
  old->resume("n:second", 1);
  const Run other = old->start({}, "patient", Json{"m"}).run;
  old->resume("m:first", 1);
  old->resume("m:second", 1);
  CHECK(other.result<int>() == 102);
  CHECK(old->run(id).status() != RunStatus::completed);

  newer = open(patient<2>, 2);
  CHECK(newer->run(id).result<int>() == 202);
}

TEST_CASE("a process that drives nothing keeps its lease, too") {
  PostgresServer& server = empty_server();
  World world;
  Node node{server, world, "node"};
  Engine client{server.url(), named("client")};

  server.run(
      "DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM semel.node WHERE name = 'client'::bytea"
      " AND kept_at > opened_at) LOOP PERFORM pg_sleep(0.001); END LOOP; END $$");

  CHECK(client.runs({}).empty());
}

/// Asks again for as long as another one is at it.
template <class Work>
int insisting(Engine& engine, const std::string& key, const Work& work) {
  for (;;) {
    try {
      return run_idempotently(engine.idempotency(), {.key = key}, work);
    } catch (const IdempotencyInProgressError&) {
      std::this_thread::yield();
    }
  }
}

TEST_CASE("of many that ask several nodes at once for one key, one execution is the only one") {
  PostgresServer& server = empty_server();
  World world;
  std::array<std::unique_ptr<Node>, 3> nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    nodes.at(i) = std::make_unique<Node>(server, world, "node " + std::to_string(i));
  constexpr int callers = 12;
  std::atomic<int> executions = 0;
  std::latch together{callers};
  std::vector<std::jthread> threads;
  std::atomic<int> right = 0;

  for (int caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&, caller] {
      Engine& engine = nodes.at(static_cast<std::size_t>(caller) % nodes.size())->engine;
      together.arrive_and_wait();
      for (int round = 0; round < 20; ++round) {
        if (insisting(engine, std::to_string(round), [&] { return round + 100 * ++executions; }) %
                100 ==
            round)
          ++right;
      }
    });
  }
  threads.clear();

  CHECK(executions == 20);
  CHECK(right == callers * 20);
}

}  // namespace
}  // namespace semel
