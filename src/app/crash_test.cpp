// Processes that die: what is done again and what is not, and runs that keep killing theirs.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

/// A run whose step kills its process.
struct Poison {
  testing::Engine* engine = nullptr;
  bool kills = true;
  std::vector<int> attempts{};

  Workflow<std::string> run() {
    co_await step("safe", [] {});
    co_await step("kill", [this](const StepContext& step) {
      attempts.push_back(step.attempt);
      if (kills) engine->crash();
    });
    co_return "alive";
  }
};

struct PoisonRun {
  explicit PoisonRun(EngineOptions options = {}) : engine(options) {
    poison.engine = &engine;
    run.emplace(engine.start({.key = "k"}, workflow).run);
  }

  Poison poison{};
  testing::FreshEngine engine;
  const WorkflowRef<Workflow<std::string> (Poison::*)()> workflow =
      engine.add("poison", &Poison::run, &poison);
  std::optional<Run> run;
};

}  // namespace

TEST_CASE("a recorded step is never run again, whatever crashes") {
  struct Shop {
    std::map<int, int> bodies{};

    Workflow<int> run() {
      int sum = 0;
      for (int i = 0; i < 10; ++i) {
        sum += co_await step("count", [this, i] {
          ++bodies[i];
          return i;
        });
        co_await sleep(1min);
      }
      co_return sum;
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  for (int i = 0; i < 60; ++i) {
    engine.advance(10s);
    engine.crash();
  }
  engine.advance(1h);

  CHECK(run.result<int>() == 45);
  for (const auto& [number, times] : shop.bodies) {
    CAPTURE(number);
    CHECK(times == 1);
  }
}

TEST_CASE("an attempt lost to a crash is made again under the next number and the same id") {
  struct Shop {
    testing::Engine* engine = nullptr;
    std::vector<int> attempts{};
    std::set<std::string> ids{};

    Workflow<int> run() {
      co_return co_await step("work", [this](const StepContext& step) {
        attempts.push_back(step.attempt);
        ids.insert(step.id);
        if (attempts.size() == 1) engine->crash();
        return step.attempt;
      });
    }
  } shop;

  testing::FreshEngine engine;
  shop.engine = &engine;

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();

  CHECK(run.result<int>() == 2);
  CHECK(shop.attempts == std::vector{1, 2});
  CHECK(shop.ids.size() == 1);
  CHECK(kinds(run) == Strings{"started", "recovered", "step_completed"});
}

TEST_CASE("the new number is in the journal before the attempt is made again") {
  struct Shop {
    testing::Engine* engine = nullptr;
    std::string id{};
    Strings seen{};

    Workflow<> run() {
      co_await step("work", [this](const StepContext& step) {
        if (step.attempt == 1) {
          engine->crash();
        } else {
          seen = kinds(engine->run(id));
        }
      });
    }
  } shop;

  testing::FreshEngine engine;
  shop.engine = &engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  shop.id = run.id();

  engine.run_until_idle();

  CHECK(shop.seen == Strings{"started", "recovered"});
}

TEST_CASE("attempts lost to crashes do not count towards the attempts of the retry policy") {
  struct Shop {
    testing::Engine* engine = nullptr;
    int bodies = 0;
    std::optional<StepFailedError> caught{};

    Workflow<> run() {
      try {
        co_await step("work", {.retry = {.attempts = 2, .initial = 1s}}, [this] {
          ++bodies;
          if (bodies % 2 == 1) {
            engine->crash();
          } else {
            throw std::runtime_error("failed by itself");
          }
        });
      } catch (const StepFailedError& error) {
        caught = error;
      }
    }
  } shop;

  testing::FreshEngine engine;
  shop.engine = &engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
  CHECK(shop.bodies == 4);
  REQUIRE(shop.caught);
  CHECK(shop.caught->attempts == 2);
}

TEST_CASE("a run that kills its process five times without progress is dead") {
  PoisonRun test;

  test.engine.advance(24h);

  CHECK(test.run->status() == RunStatus::dead);
  CHECK(test.poison.attempts == std::vector{1, 2, 3, 4, 5});
  CHECK(contains(test.run->error(), "RUN_DEAD"));
  CHECK(code_of([&] { test.run->result<std::string>(); }) == "RUN_FAILED");
}

TEST_CASE("how many crashes a run is allowed is an option") {
  PoisonRun test{{.crashes_max = 2}};

  test.engine.advance(24h);

  CHECK(test.run->status() == RunStatus::dead);
  CHECK(test.poison.attempts.size() == 2);
}

TEST_CASE("a dead run is not an end: its key stays and it is not swept") {
  PoisonRun test;
  test.engine.advance(24h);

  test.engine.advance(24h * 60);

  CHECK(test.run->status() == RunStatus::dead);
  CHECK_FALSE(test.engine.start({.key = "k"}, test.workflow).created);
  CHECK(code_of([&] {
          test.engine.start({.key = "k", .on_running = OnRunning::reject}, test.workflow);
        }) == "RUN_ACTIVE");
}

TEST_CASE("retrying a dead run counts crashes anew") {
  PoisonRun test;
  test.engine.advance(24h);
  REQUIRE(test.run->status() == RunStatus::dead);

  test.run->retry();
  test.engine.advance(24h);
  CHECK(test.run->status() == RunStatus::dead);
  CHECK(test.poison.attempts.size() == 10);
  test.poison.kills = false;
  test.run->retry();

  CHECK(test.run->result<std::string>() == "alive");
  CHECK(test.poison.attempts.back() == 11);
}

TEST_CASE("a dead run can be cancelled") {
  PoisonRun test;
  test.engine.advance(24h);

  test.run->cancel();

  CHECK(test.run->status() == RunStatus::cancelled);
}

TEST_CASE("progress in between forgives earlier crashes") {
  struct Shop {
    testing::Engine* engine = nullptr;
    int crashes = 0;

    Workflow<> run() {
      for (int i = 0; i < 4; ++i) {
        co_await step("work", [this, i] {
          if (crashes < (i + 1) * 4) {
            ++crashes;
            engine->crash();
          }
        });
      }
    }
  } shop;

  testing::FreshEngine engine;
  shop.engine = &engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(24h);

  CHECK(run.status() == RunStatus::completed);
  CHECK(shop.crashes == 16);
}

TEST_CASE("a run that kills its process takes no innocent runs with it") {
  struct Innocent {
    int bodies = 0;

    Workflow<int> run() {
      for (int i = 0; i < 20; ++i) co_await step("work", [this] { ++bodies; });
      co_return 1;
    }
  } innocent;

  PoisonRun test;
  const auto workflow = test.engine.add("innocent", &Innocent::run, &innocent);
  std::vector<Run> others;
  for (int i = 0; i < 10; ++i) others.push_back(test.engine.start(workflow).run);

  test.engine.advance(24h);

  CHECK(test.run->status() == RunStatus::dead);
  for (const Run& other : others) CHECK(other.status() == RunStatus::completed);
}

TEST_CASE("two runs that kill their process both die, and nothing else does") {
  PoisonRun test;
  const Run second = test.engine.start(test.workflow).run;

  struct Innocent {
    Workflow<> run() {
      co_await sleep(1h);
      co_await step("work", [] {});
    }
  } innocent;

  const Run other = test.engine.start(test.engine.add("innocent", &Innocent::run, &innocent)).run;

  test.engine.advance(24h);

  CHECK(test.run->status() == RunStatus::dead);
  CHECK(second.status() == RunStatus::dead);
  CHECK(other.status() == RunStatus::completed);
}

TEST_CASE("suspects run one at a time, until the first makes progress or has had ten seconds") {
  struct Slow {
    Gate gate;
    Strings begun;

    Workflow<> run(std::string name) {
      co_await step("slow", [this, name]() -> Task<void> {
        begun.push_back(name);
        co_await gate;
      });
    }
  };

  for (const bool makes_progress : {true, false}) {
    CAPTURE(makes_progress);
    Slow slow;
    testing::FreshEngine engine;
    const auto workflow = engine.add("slow", &Slow::run, &slow);
    const Run one = engine.start(workflow, "one").run;
    const Run two = engine.start(workflow, "two").run;
    engine.run_until_idle();
    engine.crash();
    engine.run_until_idle();
    CHECK(slow.begun == Strings{"one", "two", "one", "two"});

    engine.crash();
    slow.gate.open();  // bodies of processes that are gone
    engine.run_until_idle();
    CHECK(slow.begun == Strings{"one", "two", "one", "two", "one"});
    if (makes_progress) slow.gate.open();
    engine.advance(makes_progress ? 0s : 10s);
    CHECK(slow.begun.size() == 6);
    slow.gate.open();
    engine.run_until_idle();

    CHECK(one.status() == RunStatus::completed);
    CHECK(two.status() == RunStatus::completed);
  }
}

TEST_CASE("a process that ends while its runs sleep counts against none of them") {
  struct Shop {
    Workflow<> run() { co_await sleep(24h); }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();

  for (int i = 0; i < 20; ++i) {
    engine.crash();
    engine.advance(1min);
  }
  engine.advance(24h);

  CHECK(run.status() == RunStatus::completed);
}

TEST_CASE("a crash at any moment leaves a run that goes on") {
  struct Shop {
    int bodies = 0;

    Workflow<int> leaf(int number) {
      co_await sleep(1s);
      co_return co_await step("leaf", [this, number] {
        ++bodies;
        return number;
      });
    }

    Workflow<int> run() {
      const auto [a, b] = co_await all(leaf(1), leaf(2));
      const int c = co_await child(&Shop::leaf, 4);
      const auto won = co_await race(sleep(1h), leaf(8));
      co_return a + b + c + std::get<1>(won);
    }
  };

  // A crash after the n-th second, twice in a row.
  for (int n = 0; n < 8; ++n) {
    CAPTURE(n);
    Shop shop;
    testing::FreshEngine engine;
    engine.add("leaf", &Shop::leaf, &shop);
    const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

    engine.advance(std::chrono::seconds{n});
    engine.crash();
    engine.crash();
    engine.advance(1h);

    CHECK(run.result<int>() == 15);
    CHECK(shop.bodies == 4);
  }
}

}  // namespace semel
