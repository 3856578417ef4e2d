// Changing code under running workflows: versions, and what happens when code and journal disagree.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

/// A workflow whose code is replaced while runs of it are under way.
struct Program {
  Workflow<std::string> (Program::*code)() = nullptr;
  Strings ran;

  Workflow<std::string> run() { return (this->*code)(); }

  Op<void> work(const std::string& name) {
    return step(name, [this, name] { ran.push_back(name); });
  }

  Workflow<std::string> charge_then_ship() {
    co_await work("charge");
    co_await sleep(1h);
    co_await work("ship");
    co_return "old";
  }

  Workflow<std::string> ship_then_charge() {
    co_await work("ship");
    co_await sleep(1h);
    co_await work("charge");
    co_return "reordered";
  }

  Workflow<std::string> sleeps_first() {
    co_await sleep(1h);
    co_await work("charge");
    co_return "other kind";
  }

  Workflow<std::string> ends_early() {
    co_await work("charge");
    co_return "shorter";
  }

  Workflow<std::string> asks_more() {
    co_await work("charge");
    static_cast<void>(co_await begin(work("check")));
    co_await sleep(1h);
    co_return "longer";
  }

  Workflow<std::string> longer_at_its_end() {
    co_await work("charge");
    co_await sleep(1h);
    co_await work("ship");
    co_await work("thank");
    co_return "longer at its end";
  }

  Workflow<std::string> with_version() {
    co_await work("charge");
    const int version = co_await semel::version("fraud-check", 1, 2);
    if (version == 2) co_await work("check");
    co_await sleep(1h);
    co_await work("ship");
    co_return "version " + std::to_string(version);
  }

  Workflow<std::string> with_version_3_only() {
    co_await work("charge");
    const int version = co_await semel::version("fraud-check", 3, 3);
    co_await work("check");
    co_await sleep(1h);
    co_return "version " + std::to_string(version);
  }

  Workflow<std::string> version_moved_back() {
    co_await work("charge");
    co_await work("check");
    co_await sleep(1h);
    const int version = co_await semel::version("fraud-check", 1, 3);
    co_await work("ship");
    co_return "moved, version " + std::to_string(version);
  }

  Workflow<std::string> without_version_any_more() {
    co_await work("charge");
    co_await work("check");
    co_await sleep(1h);
    co_await work("ship");
    co_return "cleaned up";
  }
};

struct ProgramRun {
  explicit ProgramRun(Workflow<std::string> (Program::*code)()) { program.code = code; }

  /// The process ends, and the new code is started.
  void deploy(Workflow<std::string> (Program::*code)()) {
    program.code = code;
    engine.crash();
  }

  Program program;
  testing::FreshEngine engine;
  const WorkflowRef<Workflow<std::string> (Program::*)()> workflow =
      engine.add("run", &Program::run, &program);
};

}  // namespace

TEST_CASE("a run whose code asks for something else is parked as diverged, its journal untouched") {
  struct Case {
    Workflow<std::string> (Program::*code)();
    std::string recorded;
    std::string asked;
  };

  const auto cases = std::to_array<Case>({
      {&Program::ship_then_charge, "recorded: step \"charge\"", "asked: step \"ship\""},
      {&Program::sleeps_first, "recorded: step \"charge\"", "asked: sleep"},
      {&Program::ends_early, "recorded: sleep", "asked: completed"},
      {&Program::asks_more, "recorded: sleep (operation 2)", "asked: step \"check\" (operation 2)"},
  });
  for (const Case& c : cases) {
    CAPTURE(c.asked);
    ProgramRun test{&Program::charge_then_ship};
    const Run run = test.engine.start(test.workflow).run;
    test.engine.run_until_idle();
    const auto journal = run.journal();

    test.deploy(c.code);
    test.engine.advance(1h);

    CHECK(run.status() == RunStatus::diverged);
    CHECK_MESSAGE(contains(run.error(), c.recorded), run.error());
    CHECK_MESSAGE(contains(run.error(), c.asked), run.error());
    REQUIRE(run.journal().size() == journal.size());
    for (std::size_t i = 0; i < journal.size(); ++i) {
      CHECK(run.journal()[i].value == journal[i].value);
    }
    CHECK(run.version() == journal.back().seq);
    CHECK(code_of([&] { run.result<std::string>(); }) == "RUN_FAILED");
    CHECK(test.program.ran == Strings{"charge"});
  }
}

TEST_CASE("a diverged run goes on where it was once the code is right again") {
  ProgramRun test{&Program::charge_then_ship};
  Run run = test.engine.start(test.workflow).run;
  test.engine.run_until_idle();
  test.deploy(&Program::ship_then_charge);
  test.engine.advance(1h);
  REQUIRE(run.status() == RunStatus::diverged);

  test.deploy(&Program::charge_then_ship);
  test.engine.run_until_idle();
  CHECK(run.status() == RunStatus::diverged);
  run.retry();

  CHECK(run.result<std::string>() == "old");
  CHECK(test.program.ran == Strings{"charge", "ship"});
}

TEST_CASE("retrying a diverged run whose code is still wrong parks it again") {
  ProgramRun test{&Program::charge_then_ship};
  Run run = test.engine.start(test.workflow).run;
  test.engine.run_until_idle();
  test.deploy(&Program::ship_then_charge);
  test.engine.advance(1h);

  run.retry();
  test.engine.run_until_idle();

  CHECK(run.status() == RunStatus::diverged);
  CHECK(test.program.ran == Strings{"charge"});
}

TEST_CASE("a diverged run keeps its key and can be cancelled") {
  ProgramRun test{&Program::charge_then_ship};
  Run run = test.engine.start({.key = "order-7"}, test.workflow).run;
  test.engine.run_until_idle();
  test.deploy(&Program::ship_then_charge);
  test.engine.advance(1h);
  REQUIRE(run.status() == RunStatus::diverged);

  CHECK(code_of([&] {
          test.engine.start({.key = "order-7", .on_running = OnRunning::reject}, test.workflow);
        }) == "RUN_ACTIVE");
  CHECK(test.engine.start({.key = "order-7"}, test.workflow).run.id() == run.id());
  run.cancel();

  CHECK(run.status() == RunStatus::cancelled);
}

TEST_CASE("a diverged run is never swept") {
  ProgramRun test{&Program::charge_then_ship};
  const Run run = test.engine.start(test.workflow).run;
  test.engine.run_until_idle();
  test.deploy(&Program::ship_then_charge);

  test.engine.advance(24h * 60);

  CHECK(run.status() == RunStatus::diverged);
}

TEST_CASE("code that grows behind what was recorded goes on") {
  ProgramRun test{&Program::charge_then_ship};
  const Run run = test.engine.start(test.workflow).run;
  test.engine.run_until_idle();

  test.deploy(&Program::longer_at_its_end);
  test.engine.advance(1h);

  CHECK(run.result<std::string>() == "longer at its end");
  CHECK(test.program.ran == Strings{"charge", "ship", "thank"});
}

TEST_CASE("a run that reaches a version first uses the newest") {
  ProgramRun test{&Program::with_version};
  const Run run = test.engine.start(test.workflow).run;

  test.engine.advance(1h);

  CHECK(run.result<std::string>() == "version 2");
  CHECK(test.program.ran == Strings{"charge", "check", "ship"});
}

TEST_CASE("a run that was past a version before it was written uses the oldest") {
  ProgramRun test{&Program::charge_then_ship};
  const Run run = test.engine.start(test.workflow).run;
  test.engine.run_until_idle();

  test.deploy(&Program::with_version);
  test.engine.advance(1h);

  CHECK(run.result<std::string>() == "version 1");
  CHECK(test.program.ran == Strings{"charge", "ship"});
}

TEST_CASE("a run keeps the version it chose") {
  ProgramRun test{&Program::with_version};
  const Run run = test.engine.start(test.workflow).run;
  test.engine.run_until_idle();

  test.deploy(&Program::with_version);
  test.engine.advance(1h);

  CHECK(run.result<std::string>() == "version 2");
}

TEST_CASE("a recorded version that the code no longer knows is a divergence") {
  ProgramRun test{&Program::with_version};
  const Run run = test.engine.start(test.workflow).run;
  test.engine.run_until_idle();

  test.deploy(&Program::with_version_3_only);
  test.engine.advance(1h);

  CHECK(run.status() == RunStatus::diverged);
  CHECK_MESSAGE(contains(run.error(), "recorded: version \"fraud-check\" 2"), run.error());
  CHECK_MESSAGE(contains(run.error(), "asked: a version from 3 to 3"), run.error());
}

TEST_CASE("a version is found by its name, wherever the code asks for it now") {
  ProgramRun test{&Program::with_version};
  const Run run = test.engine.start(test.workflow).run;
  test.engine.run_until_idle();

  test.deploy(&Program::version_moved_back);
  test.engine.advance(1h);

  CHECK(run.result<std::string>() == "moved, version 2");
}

TEST_CASE("code that no longer asks for a version has not diverged") {
  ProgramRun test{&Program::with_version};
  const Run run = test.engine.start(test.workflow).run;
  test.engine.run_until_idle();

  test.deploy(&Program::without_version_any_more);
  test.engine.advance(1h);

  CHECK(run.result<std::string>() == "cleaned up");
}

TEST_CASE("a version asked for twice is the same both times, and takes no operation number") {
  struct Shop {
    Workflow<std::vector<int>> run() {
      std::vector<int> seen;
      seen.push_back(co_await version("a", 1, 3));
      co_await step("one", [] {});
      seen.push_back(co_await version("a", 1, 3));
      seen.push_back(co_await version("b", 5, 5));
      co_await step("two", [] {});
      co_return seen;
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(run.result<std::vector<int>>() == std::vector{3, 3, 5});
  CHECK(run.journal().at(2).value.at("op") == "2");
}

TEST_CASE("a version whose minimum is above its maximum is refused") {
  struct Shop {
    Workflow<> run() { co_await version("a", 2, 1); }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();

  CHECK(run.status() == RunStatus::failed);
  CHECK(contains(run.error(), "VALIDATION_ERROR"));
}

TEST_CASE("other arguments of a step are no divergence") {
  struct Shop {
    int price = 1;

    Workflow<int> run() {
      const int paid = co_await step("pay", [](int amount) { return amount; }, price);
      co_await sleep(1h);
      co_return paid;
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();

  shop.price = 2;
  engine.crash();
  engine.advance(1h);

  CHECK(run.result<int>() == 1);
}

}  // namespace semel
