// An operator's means: retry, fork, wake.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

#include <numeric>

namespace semel {

using namespace test;

namespace {

/// Charges, then ships; shipping works once somebody repaired it.
struct Shop {
  bool repaired = false;
  Strings did;
  std::vector<int> attempts;
  Strings ids;

  Workflow<std::string> fulfil() {
    co_await step("charge", [this] { did.push_back("charge"); });
    const std::string box =
        co_await step("ship", {.retry = {.attempts = 2}}, [this](const StepContext& step) {
          did.push_back("ship");
          attempts.push_back(step.attempt);
          ids.push_back(step.id);
          if (!repaired) throw std::runtime_error("truck broken");
          return std::string("box");
        });
    co_return box;
  }

  Workflow<std::string> judge() {
    const std::string answer = co_await step("ask", [this] {
      did.push_back("ask");
      return std::string("yes");
    });
    if (!repaired) throw std::runtime_error("own judgement");
    co_await step("act", [this] { did.push_back("act"); });
    co_return answer;
  }
};

}  // namespace

TEST_CASE("retrying a failed run voids the step's failure and keeps what was recorded") {
  Shop shop;
  testing::FreshEngine engine;
  Run run = engine.start(engine.add("fulfil", &Shop::fulfil, &shop)).run;
  engine.advance(1h);
  REQUIRE(run.status() == RunStatus::failed);
  const std::uint64_t version = run.version();

  shop.repaired = true;
  run.retry();
  CHECK(run.status() == RunStatus::running);
  CHECK(run.version() == version + 1);
  CHECK(kinds(run).back() == "reopened");

  CHECK(run.result<std::string>() == "box");
  CHECK(shop.did == Strings{"charge", "ship", "ship", "ship"});
  CHECK(run.error().empty());
}

TEST_CASE("a retried step keeps its id and its attempts go on counting") {
  Shop shop;
  testing::FreshEngine engine;
  Run run = engine.start(engine.add("fulfil", &Shop::fulfil, &shop)).run;
  engine.advance(1h);

  run.retry();
  engine.advance(1h);
  CHECK(run.status() == RunStatus::failed);
  run.retry();
  engine.advance(1h);

  std::vector<int> in_order(shop.attempts.size());
  std::iota(in_order.begin(), in_order.end(), 1);
  CHECK(shop.attempts == in_order);
  CHECK(shop.attempts.size() >= 4);
  CHECK(std::set(shop.ids.begin(), shop.ids.end()).size() == 1);
  CHECK(run.status() == RunStatus::failed);
}

TEST_CASE("retrying a run that failed by its own exception runs no recorded step again") {
  Shop shop;
  testing::FreshEngine engine;
  Run run = engine.start(engine.add("judge", &Shop::judge, &shop)).run;
  engine.run_until_idle();
  REQUIRE(run.status() == RunStatus::failed);

  run.retry();
  engine.run_until_idle();
  CHECK(run.status() == RunStatus::failed);
  shop.repaired = true;
  run.retry();

  CHECK(run.result<std::string>() == "yes");
  CHECK(shop.did == Strings{"ask", "act"});
}

TEST_CASE("a reopening survives a crash") {
  Shop shop;
  testing::FreshEngine engine;
  Run run = engine.start(engine.add("fulfil", &Shop::fulfil, &shop)).run;
  engine.advance(1h);
  shop.repaired = true;

  run.retry();
  engine.crash();
  engine.advance(1h);

  CHECK(run.result<std::string>() == "box");
  CHECK(std::ranges::count(shop.did, "charge") == 1);
}

TEST_CASE("only a failed, dead or diverged run can be retried") {
  Shop shop;
  testing::FreshEngine engine;
  const auto workflow = engine.add("fulfil", &Shop::fulfil, &shop);
  Run running = engine.start(workflow).run;
  Run cancelled = engine.start(workflow).run;
  cancelled.cancel();
  shop.repaired = true;
  Run completed = engine.start(workflow).run;
  completed.result<std::string>();
  shop.repaired = false;
  Run delayed = engine.start({.delay = 1h}, workflow).run;

  CHECK(code_of([&] { cancelled.retry(); }) == "RUN_FINISHED");
  CHECK(code_of([&] { completed.retry(); }) == "RUN_FINISHED");
  CHECK(code_of([&] { delayed.retry(); }) == "RUN_ACTIVE");
  Run fresh = engine.start(workflow).run;
  CHECK(code_of([&] { fresh.retry(); }) == "RUN_ACTIVE");
}

TEST_CASE("a run is retried only at the version that was expected") {
  Shop shop;
  testing::FreshEngine engine;
  Run run = engine.start(engine.add("fulfil", &Shop::fulfil, &shop)).run;
  engine.advance(1h);
  const std::uint64_t version = run.version();

  CHECK(code_of([&] { run.retry({.expected_version = version - 1}); }) == "CONCURRENCY_ERROR");
  CHECK(run.status() == RunStatus::failed);
  run.retry({.expected_version = version});

  CHECK(run.status() == RunStatus::running);
}

TEST_CASE("a retried run takes its key back, or is refused where another run has it") {
  Shop shop;
  testing::FreshEngine engine;
  const auto workflow = engine.add("fulfil", &Shop::fulfil, &shop);
  Run first = engine.start({.key = "k"}, workflow).run;
  engine.advance(1h);
  REQUIRE(first.status() == RunStatus::failed);
  Run second =
      engine.start({.key = "k", .after_done = AfterDone::start_new_if_failed}, workflow).run;

  CHECK(code_of([&] { first.retry(); }) == "RUN_ACTIVE");
  CHECK(first.status() == RunStatus::failed);
  engine.advance(1h);
  second.retry();

  CHECK(engine.start({.key = "k"}, workflow).run.id() == second.id());
}

TEST_CASE("a retried run that failed beside others begins those anew as well") {
  struct Both {
    Gate gate;
    bool repaired = false;
    int slow = 0;

    Workflow<int> run() {
      const auto [a, b] = co_await all(step("slow",
                                            [this](StepContext step) -> Task<int> {
                                              ++slow;
                                              co_await gate;
                                              co_return step.attempt;
                                            }),
                                       step("bad", {.retry = {.attempts = 1}}, [this] {
                                         if (!repaired) throw std::runtime_error("broken");
                                         return 40;
                                       }));
      co_return a + b;
    }
  } both;

  testing::FreshEngine engine;
  Run run = engine.start(engine.add("run", &Both::run, &both)).run;
  engine.run_until_idle();
  REQUIRE(run.status() == RunStatus::failed);
  REQUIRE(both.gate.waiting() == 1);

  both.repaired = true;
  run.retry();
  engine.run_until_idle();
  CHECK(both.slow == 1);  // never two attempts of one step at a time
  both.gate.open();
  engine.run_until_idle();
  CHECK(both.slow == 2);
  both.gate.open();

  CHECK(run.result<int>() == 42);
}

TEST_CASE("a run that missed its deadline can be retried, without a deadline") {
  struct Sleeper {
    Workflow<int> run() {
      co_await step("once", [] {});
      co_await sleep(2h);
      co_return 7;
    }
  } sleeper;

  testing::FreshEngine engine;
  Run run = engine.start({.deadline = 1h}, engine.add("run", &Sleeper::run, &sleeper)).run;
  engine.advance(1h);
  REQUIRE(run.status() == RunStatus::failed);

  run.retry();
  engine.advance(1h);

  CHECK(run.result<int>() == 7);
}

TEST_CASE("a parent that failed by its child goes on once the child was retried") {
  struct Family {
    Shop shop;

    Workflow<std::string> parent() { co_return co_await child({.run_id = "child"}, &Shop::fulfil); }
  } family;

  testing::FreshEngine engine;
  engine.add("fulfil", &Shop::fulfil, &family.shop);
  Run run = engine.start(engine.add("parent", &Family::parent, &family)).run;
  engine.advance(1h);
  REQUIRE(run.status() == RunStatus::failed);

  family.shop.repaired = true;
  engine.run("child").retry();
  run.retry();

  CHECK(run.result<std::string>() == "box");
  CHECK(std::ranges::count(family.shop.did, "charge") == 1);
}

TEST_CASE("a fork goes on from a copy of the journal, with step ids of its own") {
  Shop shop;
  shop.repaired = true;
  testing::FreshEngine engine;
  Run run = engine.start(engine.add("fulfil", &Shop::fulfil, &shop)).run;
  CHECK(run.result<std::string>() == "box");
  REQUIRE(run.journal().size() == 3);

  const Run fork = run.fork(1);

  CHECK(fork.id() != run.id());
  CHECK(fork.result<std::string>() == "box");
  CHECK(shop.did == Strings{"charge", "ship", "ship"});
  CHECK(shop.ids.at(0) != shop.ids.at(1));
  CHECK(fork.input() == run.input());
  CHECK(run.journal().size() == 3);
}

TEST_CASE("a fork of the first entry runs everything again") {
  Shop shop;
  shop.repaired = true;
  testing::FreshEngine engine;
  Run run = engine.start(engine.add("fulfil", &Shop::fulfil, &shop)).run;
  run.result<std::string>();

  CHECK(run.fork(0).result<std::string>() == "box");
  CHECK(shop.did == Strings{"charge", "ship", "charge", "ship"});
}

TEST_CASE("a fork keeps attributes and sleeps up to its entry") {
  struct Sleeper {
    Workflow<std::string> run() {
      co_await set_attribute("stage", "one");
      const std::string id = co_await uuid();
      co_await sleep(1h);
      co_await set_attribute("stage", "two");
      co_await sleep(1h);
      co_return id;
    }
  } sleeper;

  testing::FreshEngine engine;
  Run run = engine.start(engine.add("run", &Sleeper::run, &sleeper)).run;
  engine.advance(30min);

  const Run fork = run.fork(0);
  CHECK(fork.attributes().at("stage") == "one");
  engine.advance(29min);
  CHECK(fork.status() == RunStatus::waiting);
  CHECK(fork.attributes().at("stage") == "one");
  engine.advance(2h);

  CHECK(fork.result<std::string>() == run.result<std::string>());
}

TEST_CASE("a fork out of range, or of the entry that ended the run, is refused") {
  Shop shop;
  shop.repaired = true;
  testing::FreshEngine engine;
  const auto workflow = engine.add("fulfil", &Shop::fulfil, &shop);
  Run run = engine.start(workflow).run;
  run.result<std::string>();
  Run delayed = engine.start({.delay = 1h}, workflow).run;

  CHECK(code_of([&] { run.fork(2); }) == "VALIDATION_ERROR");
  CHECK(code_of([&] { run.fork(3); }) == "VALIDATION_ERROR");
  CHECK(code_of([&] { run.fork(~std::uint64_t{0}); }) == "VALIDATION_ERROR");
  CHECK(code_of([&] { delayed.fork(0); }) == "VALIDATION_ERROR");
  CHECK(code_of([&] { run.fork(1, {.expected_version = 1}); }) == "CONCURRENCY_ERROR");
  CHECK(engine.runs().size() == 2);
}

TEST_CASE("a fork of a failed run goes on before the failure") {
  Shop shop;
  testing::FreshEngine engine;
  Run run = engine.start(engine.add("fulfil", &Shop::fulfil, &shop)).run;
  engine.advance(1h);
  REQUIRE(run.status() == RunStatus::failed);
  shop.repaired = true;

  const Run fork = run.fork(1);

  CHECK(fork.result<std::string>() == "box");
  CHECK(run.status() == RunStatus::failed);
}

TEST_CASE("wake ends the sleeps of a run and says how many") {
  struct Sleeper {
    Workflow<> run() {
      co_await all(sleep(24h), sleep(48h), step("work", [] {}));
      co_await sleep(24h);
    }
  } sleeper;

  testing::FreshEngine engine;
  Run run = engine.start(engine.add("run", &Sleeper::run, &sleeper)).run;
  engine.run_until_idle();

  CHECK(run.wake() == 2);
  CHECK(run.status() == RunStatus::waiting);
  engine.crash();
  CHECK(run.wake() == 1);

  CHECK(run.status() == RunStatus::completed);
  CHECK(code_of([&] { run.wake(); }) == "RUN_NOT_ACTIVE");
}

TEST_CASE("a run that does not sleep is not woken") {
  Shop shop;
  testing::FreshEngine engine;
  const auto workflow = engine.add("fulfil", &Shop::fulfil, &shop);
  Run run = engine.start(workflow).run;
  Run resting = engine.start(workflow).run;
  engine.run_until_idle();
  const std::uint64_t version = resting.version();

  CHECK(resting.wake() == 0);
  CHECK(resting.version() == version);
  CHECK(code_of([&] { run.wake({.expected_version = 77}); }) == "CONCURRENCY_ERROR");
}

TEST_CASE("waking a delayed run does not begin it before its time") {
  struct Sleeper {
    Workflow<> run() { co_await sleep(1h); }
  } sleeper;

  testing::FreshEngine engine;
  Run run = engine.start({.delay = 1h}, engine.add("run", &Sleeper::run, &sleeper)).run;

  CHECK(run.wake() == 0);
  engine.advance(59min);
  CHECK(run.status() == RunStatus::pending);
  engine.advance(1min);

  CHECK(run.status() == RunStatus::waiting);
}

}  // namespace semel
