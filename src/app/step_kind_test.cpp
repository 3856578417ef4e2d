// The kinds of steps: blocking, Task, at most once; and what a step may ask of the engine.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

Task<int> doubled(int number) { co_return number * 2; }

Workflow<int> add_one(int number) {
  co_return co_await step("add", [number] { return number + 1; });
}

}  // namespace

TEST_CASE("a step may be a function, with or without context, and with bound arguments") {
  struct Shop {
    static int plain(int a, int b) { return a + b; }

    static std::string told(const StepContext& step, const std::string& word) {
      return word + std::to_string(step.attempt);
    }

    Workflow<std::tuple<int, std::string>> run() {
      const int sum = co_await step("plain", plain, 2, 3);
      const std::string text = co_await step("told", told, std::string("attempt "));
      co_return std::tuple{sum, text};
    }
  } shop;

  testing::FreshEngine engine;

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(run.result<std::tuple<int, std::string>>() == std::tuple{5, std::string("attempt 1")});
}

TEST_CASE("literals are text wherever a value is taken") {
  struct Shop {
    static std::string join(const std::string& left, std::string right) { return left + right; }

    Workflow<std::string> run() {
      Saga saga;
      saga.add("undo", join, "un", "done");
      co_await saga.compensate();
      co_await emit("log", "begun");
      const std::string name = "ab";
      const std::string joined = co_await step("join", join, "a", std::string_view(name));
      co_return co_await step(
          "echo", {.retry = {.attempts = 1}},
          [](std::string_view text) { return std::string(text); }, joined.c_str());
    }
  } shop;

  testing::FreshEngine engine;

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(run.result<std::string>() == "aab");
  CHECK(run.stream<std::string>("log") == std::vector<std::string>{"begun"});
}

TEST_CASE("a step that returns a Task gives the Task's result") {
  struct Shop {
    Workflow<int> run() {
      const int doubly = co_await step("doubled", doubled, 21);
      co_await step("nothing", []() -> Task<void> { co_return; });
      co_return co_await step("nested", [doubly](const StepContext&) -> Task<int> {
        co_return co_await doubled(doubly) + co_await doubled(1);
      });
    }
  } shop;

  testing::FreshEngine engine;

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(run.result<int>() == 86);
}

TEST_CASE("a Task step that throws is retried like any other") {
  struct Shop {
    int attempts = 0;

    Workflow<int> run() {
      co_return co_await step("task", [this]() -> Task<int> {
        if (++attempts < 3) throw std::runtime_error("not yet");
        co_return attempts;
      });
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(run.result<int>() == 3);
}

TEST_CASE("many Task steps are in flight at a time") {
  struct Shop {
    Gate gate;

    Workflow<int> run() {
      std::vector<Op<int>> steps;
      for (int i = 0; i < 10; ++i) {
        steps.push_back(step("wait", [this, i]() -> Task<int> {
          co_await gate;
          co_return i;
        }));
      }
      const std::vector<int> numbers = co_await all(std::move(steps));
      co_return std::accumulate(numbers.begin(), numbers.end(), 0);
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();
  CHECK(shop.gate.waiting() == 10);
  shop.gate.open();

  CHECK(run.result<int>() == 45);
}

TEST_CASE("an at_most_once step is not retried") {
  struct Shop {
    int attempts = 0;

    Workflow<int> run() {
      const auto paid = co_await settled(step("pay", {.mode = StepMode::at_most_once}, [this] {
        ++attempts;
        throw std::runtime_error("no answer");
      }));
      CHECK_THROWS_AS(paid.value(), StepFailedError);
      co_return attempts;
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(run.result<int>() == 1);
}

TEST_CASE("an at_most_once step says in the journal that it begins, and only then does") {
  struct Shop {
    Run* run = nullptr;
    Strings seen;

    Workflow<> go() {
      co_await step("pay", {.mode = StepMode::at_most_once}, [this] { seen = kinds(*run); });
    }
  } shop;

  testing::FreshEngine engine;
  Run run = engine.start(engine.add("run", &Shop::go, &shop)).run;
  shop.run = &run;

  engine.run_until_idle();

  CHECK(shop.seen == Strings{"started", "begun"});
  CHECK(kinds(run) == Strings{"started", "begun", "step_completed"});
}

TEST_CASE("nobody knows what became of an at_most_once step that was under way in a crash") {
  struct Shop {
    testing::Engine* engine = nullptr;
    int bodies = 0;
    std::string caught;

    Workflow<> run() {
      try {
        co_await step("pay", {.mode = StepMode::at_most_once}, [this] {
          ++bodies;
          engine->crash();
        });
      } catch (const OutcomeUnknownError& error) {
        caught = error.code();
      }
    }
  } shop;

  testing::FreshEngine engine;
  shop.engine = &engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
  CHECK(shop.bodies == 1);
  CHECK(shop.caught == "OUTCOME_UNKNOWN");
}

TEST_CASE("an operator may have a step of unknown outcome run again") {
  struct Shop {
    testing::Engine* engine = nullptr;
    int bodies = 0;

    Workflow<int> run() {
      co_return co_await step("pay", {.mode = StepMode::at_most_once}, [this] {
        if (++bodies == 1) engine->crash();
        return bodies;
      });
    }
  } shop;

  testing::FreshEngine engine;
  shop.engine = &engine;
  Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.advance(1h);
  REQUIRE(run.status() == RunStatus::failed);
  CHECK(run.error().starts_with("OUTCOME_UNKNOWN"));

  run.retry();

  CHECK(run.result<int>() == 2);
}

TEST_CASE("an at_most_once step that had not begun when its process crashed is begun after it") {
  struct Shop {
    int bodies = 0;

    Workflow<> run() {
      co_await sleep(1h);
      co_await step("pay", {.mode = StepMode::at_most_once}, [this] { ++bodies; });
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();

  engine.crash();
  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
  CHECK(shop.bodies == 1);
}

TEST_CASE("a step starts runs through its client, once however often it is tried") {
  struct Shop {
    int attempts = 0;
    std::set<std::string> ids;

    Workflow<> run() {
      co_await step("start two", [this](const StepContext& step) {
        ++attempts;
        ids.insert(step.client().start(add_one, 1).run.id());
        ids.insert(step.client().start(add_one, 1).run.id());
        if (attempts < 3) throw std::runtime_error("broken off");
      });
    }
  } shop;

  testing::FreshEngine engine;
  engine.add("add-one", add_one);
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
  CHECK(shop.attempts == 3);
  CHECK(shop.ids.size() == 2);
  CHECK(engine.runs({.workflow = "add-one"}).size() == 2);
}

TEST_CASE("a step starts runs once although the process crashed under it") {
  struct Shop {
    testing::Engine* engine = nullptr;
    int attempts = 0;

    Workflow<> run() {
      co_await step("start", [this](const StepContext& step) {
        step.client().start(add_one, 1);
        if (++attempts < 3) engine->crash();
      });
    }
  } shop;

  testing::FreshEngine engine;
  shop.engine = &engine;
  engine.add("add-one", add_one);
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();

  CHECK(run.status() == RunStatus::completed);
  CHECK(shop.attempts == 3);
  CHECK(engine.runs({.workflow = "add-one"}).size() == 1);
}

TEST_CASE("two steps of a run start different runs") {
  struct Shop {
    static void start(const StepContext& step) { step.client().start(add_one, 1); }

    Workflow<> run() { co_await all(step("one", start), step("two", start)); }
  } shop;

  testing::FreshEngine engine;
  engine.add("add-one", add_one);
  engine.start(engine.add("run", &Shop::run, &shop));

  engine.run_until_idle();

  CHECK(engine.runs({.workflow = "add-one"}).size() == 2);
}

TEST_CASE("a key given in a step is used as it is") {
  struct Shop {
    Workflow<> run() {
      co_await step("start", [](const StepContext& step) {
        CHECK(step.client().start({.key = "mine"}, add_one, 1).created);
      });
    }
  } shop;

  testing::FreshEngine engine;
  engine.add("add-one", add_one);
  engine.start(engine.add("run", &Shop::run, &shop));

  engine.run_until_idle();

  CHECK(engine.runs({.key = "mine"}).size() == 1);
  CHECK_FALSE(engine.start({.key = "mine"}, add_one, 1).created);
}

TEST_CASE("a blocking step may wait for another run's result") {
  struct Shop {
    Workflow<int> run() {
      co_return co_await step("wait", [](const StepContext& step) {
        return step.client().start(add_one, 41).run.result<int>();
      });
    }
  } shop;

  testing::FreshEngine engine;
  engine.add("add-one", add_one);

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(run.result<int>() == 42);
}

TEST_CASE("a Task step waits for another run's result without blocking") {
  struct Shop {
    Workflow<int> run() {
      co_return co_await step("wait", [](const StepContext& step) -> Task<int> {
        const Run other = step.client().start(add_one, 41).run;
        co_return co_await other.result_async<int>();
      });
    }

    Workflow<std::string> failing() {
      const auto outcome = co_await settled(
          step("wait", {.retry = {.attempts = 1}}, [](const StepContext& step) -> Task<void> {
            const Run other = step.client().start({}, "fails", Json{}).run;
            co_await other.result_async<void>();
          }));
      co_return outcome.message();
    }

    Workflow<> fails(std::optional<int>) {
      throw std::runtime_error("no luck");
      co_return;
    }
  } shop;

  testing::FreshEngine engine;
  engine.add("add-one", add_one);
  engine.add("fails", &Shop::fails, &shop);

  CHECK(engine.start(engine.add("run", &Shop::run, &shop)).run.result<int>() == 42);
  const Run failing = engine.start(engine.add("failing", &Shop::failing, &shop)).run;
  CHECK(contains(failing.result<std::string>(), "no luck"));
}

}  // namespace semel
