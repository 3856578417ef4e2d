// Children: runs that a run starts and waits for.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

Workflow<int> doubled(int number) {
  co_await sleep(1h);
  co_return co_await step("double", [number] { return number * 2; });
}

Workflow<int> failing(int) {
  co_await sleep(1h);
  throw std::runtime_error("the child broke");
}

Workflow<> waiting() { co_await sleep(24h * 365); }

Run only(testing::Engine& engine, const std::string& workflow) {
  const std::vector<Run> found = engine.runs({.workflow = workflow});
  REQUIRE(found.size() == 1);
  return found.front();
}

}  // namespace

TEST_CASE("child starts a run of its own and waits for its result") {
  struct Shop {
    Workflow<int> run() { co_return co_await child(doubled, 21); }
  } shop;

  testing::FreshEngine engine;
  engine.add("doubled", doubled);
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();
  CHECK(run.status() == RunStatus::waiting);

  engine.advance(1h);

  CHECK(run.result<int>() == 42);
  CHECK(only(engine, "doubled").result<int>() == 42);
}

TEST_CASE("a child is started once and its result taken once, whatever crashes") {
  struct Shop {
    Workflow<int> run() {
      const int first = co_await child(doubled, 1);
      co_return first + co_await child(doubled, 2);
    }
  } shop;

  testing::FreshEngine engine;
  engine.add("doubled", doubled);
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  for (int i = 0; i < 16; ++i) {
    engine.advance(10min);
    engine.crash();
  }

  CHECK(run.result<int>() == 6);
  CHECK(engine.runs({.workflow = "doubled"}).size() == 2);
}

TEST_CASE("children run side by side") {
  struct Shop {
    Workflow<int> run() {
      std::vector<Op<int>> children;
      for (int i = 1; i <= 5; ++i) children.push_back(child(doubled, i));
      const std::vector<int> numbers = co_await all(std::move(children));
      co_return std::accumulate(numbers.begin(), numbers.end(), 0);
    }
  } shop;

  testing::FreshEngine engine;
  engine.add("doubled", doubled);
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(run.result<int>() == 30);
}

TEST_CASE("a child that fails throws RunFailedError in its parent") {
  struct Shop {
    Workflow<std::string> run() {
      try {
        co_await child(failing, 1);
      } catch (const RunFailedError& error) {
        co_return error.what();
      }
      co_return "nothing thrown";
    }
  } shop;

  testing::FreshEngine engine;
  engine.add("failing", failing);
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(contains(run.result<std::string>(), "the child broke"));
}

TEST_CASE("a child that fails with a code of ours is still a run that failed") {
  struct Shop {
    Workflow<> confused(std::string code) {
      throw Error(code, "made up");
      co_return;
    }

    Workflow<std::string> run(std::string code) {
      try {
        co_await child(&Shop::confused, code);
      } catch (const RunFailedError& error) {
        co_return error.what();
      } catch (const Error& error) {
        co_return "not RunFailedError but " + error.code();
      }
      co_return "nothing thrown";
    }
  } shop;

  testing::FreshEngine engine;
  engine.add("confused", &Shop::confused, &shop);
  const auto workflow = engine.add("run", &Shop::run, &shop);

  for (const std::string code : {"RUN_NOT_FOUND", "IDEMPOTENCY_CONFLICT", "RUN_ACTIVE",
                                 "RUN_CANCELLED", "OUTCOME_UNKNOWN"}) {
    const std::string caught = engine.start(workflow, code).run.result<std::string>();
    CHECK_MESSAGE(contains(caught, code + ": made up"), caught);
  }
}

TEST_CASE("a child that is cancelled throws RunCancelledError in its parent") {
  struct Shop {
    Workflow<bool> run() {
      const auto outcome = co_await settled(child(waiting));
      CHECK_THROWS_AS(outcome.value(), RunCancelledError);
      co_return outcome.cancelled();
    }
  } shop;

  testing::FreshEngine engine;
  engine.add("waiting", waiting);
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();

  only(engine, "waiting").cancel();

  CHECK(run.result<bool>());
}

TEST_CASE("a child attaches to the run that holds its key") {
  struct Shop {
    Workflow<int> run() { co_return co_await child({.key = "shared"}, doubled, 21); }
  } shop;

  testing::FreshEngine engine;
  engine.add("doubled", doubled);
  const auto workflow = engine.add("run", &Shop::run, &shop);
  const Run owner = engine.start({.key = "shared"}, doubled, 21).run;
  const Run one = engine.start(workflow).run;
  const Run two = engine.start(workflow).run;

  engine.advance(1h);

  CHECK(one.result<int>() == 42);
  CHECK(two.result<int>() == 42);
  CHECK(only(engine, "doubled").id() == owner.id());
  CHECK(engine.start(workflow).run.result<int>() == 42);
}

TEST_CASE("a child refused its key throws what the start would have thrown") {
  struct Shop {
    Workflow<std::string> run(bool rejects, int number) {
      StartOptions options{.key = "shared"};
      if (rejects) options.on_running = OnRunning::reject;
      const auto outcome = co_await settled(child(options, doubled, number));
      try {
        outcome.value();
      } catch (const Error& error) {
        co_return error.code();
      }
      co_return "nothing thrown";
    }
  } shop;

  testing::FreshEngine engine;
  engine.add("doubled", doubled);
  const auto workflow = engine.add("run", &Shop::run, &shop);
  engine.start({.key = "shared"}, doubled, 21);

  CHECK(engine.start(workflow, false, 22).run.result<std::string>() == "IDEMPOTENCY_CONFLICT");
  CHECK(engine.start(workflow, true, 21).run.result<std::string>() == "RUN_ACTIVE");
}

TEST_CASE("options of a child are checked like those of a start") {
  struct Shop {
    Workflow<std::string> run(int what) {
      StartOptions options;
      if (what == 0) options.key = "";
      if (what == 1) options.key = std::string(256, 'k');
      if (what == 2) options.run_id = "no spaces allowed";
      if (what == 3) options.delay = -1s;
      if (what == 4) options.deadline = 0s;
      const auto outcome = co_await settled(child(options, doubled, 1));
      co_return outcome.message();
    }
  } shop;

  testing::FreshEngine engine;
  engine.add("doubled", doubled);
  const auto workflow = engine.add("run", &Shop::run, &shop);

  for (const auto& [what, path] : std::map<int, std::string>{
           {0, "/key"}, {1, "/key"}, {2, "/run_id"}, {3, "/delay"}, {4, "/deadline"}}) {
    const Run run = engine.start(workflow, what).run;
    engine.run_until_idle();
    CHECK(run.status() == RunStatus::completed);
    if (run.status() != RunStatus::completed) continue;
    CHECK_MESSAGE(contains(run.result<std::string>(), path), path);
  }
  CHECK(engine.runs({.workflow = "doubled"}).empty());
}

TEST_CASE("a child has a delay, a deadline and attributes like any start") {
  struct Shop {
    Workflow<std::string> run() {
      const auto outcome = co_await settled(
          child({.delay = 1h, .deadline = 90min, .attributes = {{"of", "parent"}}}, doubled, 1));
      co_return outcome.message();
    }
  } shop;

  testing::FreshEngine engine;
  engine.add("doubled", doubled);
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(30min);
  CHECK(only(engine, "doubled").status() == RunStatus::pending);
  CHECK(only(engine, "doubled").attributes().at("of") == "parent");
  engine.advance(1h);

  CHECK(contains(run.result<std::string>(), "DEADLINE_EXCEEDED"));
}

TEST_CASE("cancelling reaches the children, and theirs, but not spawned or attached ones") {
  struct Shop {
    Workflow<> grandparent() {
      co_await spawn({.run_id = "spawned"}, waiting);
      co_await all(child({.run_id = "parent"}, &Shop::parent), child({.key = "shared"}, waiting));
    }

    Workflow<> parent() { co_await child({.run_id = "child"}, waiting); }
  } shop;

  testing::FreshEngine engine;
  engine.add("waiting", waiting);
  engine.add("parent", &Shop::parent, &shop);
  const Run shared = engine.start({.key = "shared"}, waiting).run;
  Run run = engine.start(engine.add("grandparent", &Shop::grandparent, &shop)).run;
  engine.run_until_idle();

  run.cancel();

  CHECK(run.status() == RunStatus::cancelled);
  CHECK(engine.run("parent").status() == RunStatus::cancelled);
  CHECK(engine.run("child").status() == RunStatus::cancelled);
  CHECK(engine.run("spawned").status() == RunStatus::waiting);
  CHECK(shared.status() == RunStatus::waiting);
}

TEST_CASE("a child cannot supersede the run that waits for it") {
  struct Shop {
    Workflow<std::string> run() {
      const auto outcome =
          co_await settled(child({.key = "k", .on_running = OnRunning::supersede}, &Shop::run));
      co_return outcome.message();
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start({.key = "k"}, engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();

  CHECK(run.status() == RunStatus::completed);
  CHECK(engine.runs().size() == 1);
}

TEST_CASE("a child that lost a race goes on, and a fork waits for the same child") {
  struct Shop {
    Workflow<std::string> loses() {
      const auto won = co_await race(sleep(1min), child({.run_id = "slow"}, doubled, 4));
      co_await sleep(2h);
      co_return won.index() == 0 ? "sleep" : "child";
    }

    Workflow<int> waits() { co_return co_await child({.run_id = "shared"}, doubled, 5); }
  } shop;

  testing::FreshEngine engine;
  engine.add("doubled", doubled);
  const Run lost = engine.start(engine.add("loses", &Shop::loses, &shop)).run;
  Run waits = engine.start(engine.add("waits", &Shop::waits, &shop)).run;
  engine.run_until_idle();

  const Run fork = waits.fork(waits.version());
  engine.advance(3h);

  CHECK(lost.result<std::string>() == "sleep");
  CHECK(engine.run("slow").result<int>() == 8);
  CHECK(waits.result<int>() == 10);
  CHECK(fork.result<int>() == 10);
}

TEST_CASE("a parent that ends leaves its children running") {
  struct Shop {
    Workflow<> run() { static_cast<void>(co_await begin(child(doubled, 21))); }
  } shop;

  testing::FreshEngine engine;
  engine.add("doubled", doubled);
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
  for (const Run& left : engine.runs({.workflow = "doubled"})) CHECK(left.result<int>() == 42);
}

TEST_CASE("a child can be any registered workflow: by its function, its reference, a member") {
  struct Shop {
    int factor = 3;
    WorkflowRef<Workflow<int> (*)(int)> reference{};

    Workflow<int> times(int number) { co_return number* factor; }

    Workflow<int> run() {
      const int a = co_await child({}, reference, 1);
      const int b = co_await child(&Shop::times, 7);
      co_return a + b;
    }
  } shop;

  testing::FreshEngine engine;
  shop.reference = engine.add("doubled", doubled);
  engine.add("times", &Shop::times, &shop);
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(run.result<int>() == 23);
}

TEST_CASE("a child of a workflow nobody registered fails where it is asked for") {
  struct Shop {
    Workflow<std::string> run() {
      try {
        co_await child(doubled, 1);
      } catch (const Error& error) {
        co_return error.code();
      }
      co_return "nothing thrown";
    }
  } shop;

  testing::FreshEngine engine;

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(run.result<std::string>() == "WORKFLOW_NOT_FOUND");
}

}  // namespace semel
