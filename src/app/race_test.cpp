// Races: the first to settle wins, and what becomes of the others.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

StepOptions once() { return {.retry = {.attempts = 1}}; }

struct Racer {
  Gate gate;
  std::vector<StepContext> contexts;

  /// Gives `number` once the gate opens.
  Op<int> gated(int number) {
    return step("gated", [this, number](StepContext step) -> Task<int> {
      contexts.push_back(step);
      co_await gate;
      co_return number;
    });
  }
};

}  // namespace

TEST_CASE("the first to settle wins a race, by position") {
  struct Shop {
    Workflow<std::string> run() {
      const auto won =
          co_await race(sleep(1h), step("quick", [] { return std::string("step"); }), sleep(2h));
      static_assert(std::same_as<decltype(won),
                                 const std::variant<std::monostate, std::string, std::monostate>>);
      co_return std::to_string(won.index()) + std::get<1>(won);
    }
  } shop;

  testing::FreshEngine engine;

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(run.result<std::string>() == "1step");
}

TEST_CASE("a race over a vector gives the winner's index and value") {
  struct Shop : Racer {
    Workflow<std::vector<int>> run() {
      std::vector<Op<int>> runners;
      runners.push_back(gated(10));
      runners.push_back(step("quick", [] { return 20; }));
      runners.push_back(gated(30));
      const First<int> first = co_await race(std::move(runners));
      co_return std::vector{static_cast<int>(first.index), first.value};
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();
  shop.gate.open();

  CHECK(run.result<std::vector<int>>() == std::vector{1, 20});
}

TEST_CASE("a race over nothing is refused: nobody could win") {
  CHECK(code_of([] { static_cast<void>(race(std::vector<Op<int>>{})); }) == "VALIDATION_ERROR");
}

TEST_CASE("a failure that settles first wins the race and is thrown") {
  struct Shop : Racer {
    Workflow<std::string> run() {
      const auto outcome = co_await settled(
          race(sleep(1h), step("fails", once(), [] { throw std::runtime_error("broken"); })));
      co_return outcome.message();
    }
  } shop;

  testing::FreshEngine engine;

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(contains(run.result<std::string>(), "broken"));
}

TEST_CASE("a sleep that lost a race is dropped and wakes nobody") {
  struct Shop {
    Workflow<> run() {
      co_await race(sleep(1h), step("quick", [] {}));
      co_await sleep(10h);
    }
  } shop;

  testing::FreshEngine engine;
  Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();
  const Strings before = kinds(run);

  engine.advance(9h);
  CHECK(kinds(run) == before);
  CHECK(run.wake() == 1);

  CHECK(run.status() == RunStatus::completed);
}

TEST_CASE("a step that lost a race is asked to stop and its result is recorded") {
  struct Shop : Racer {
    Workflow<> run() {
      co_await race(gated(1), sleep(1min));
      co_await sleep(1h);
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();
  CHECK_FALSE(shop.contexts.at(0).stop.stop_requested());

  engine.advance(1min);
  CHECK(shop.contexts.at(0).stop.stop_requested());
  shop.gate.open();
  engine.run_until_idle();

  CHECK(kinds(run) == Strings{"started", "timer_fired", "step_completed"});
  engine.advance(1h);
  CHECK(run.status() == RunStatus::completed);
}

TEST_CASE("a step that lost a race is not tried again") {
  struct Shop {
    Gate gate;
    int attempts = 0;

    Workflow<> run() {
      co_await race(sleep(1min), step("loses", [this]() -> Task<void> {
                      ++attempts;
                      co_await gate;
                      throw std::runtime_error("broken");
                    }));
      co_await sleep(10h);
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();
  engine.advance(1min);

  shop.gate.open();
  engine.advance(10h);

  CHECK(shop.attempts == 1);
  CHECK(run.status() == RunStatus::completed);
}

TEST_CASE("a step that lost a race while it rested is not tried again") {
  struct Shop {
    int attempts = 0;

    Workflow<> run() {
      co_await race(sleep(1min),
                    step("rests", {.retry = {.initial = 1h, .max = 1h, .jitter = false}}, [this] {
                      ++attempts;
                      throw std::runtime_error("broken");
                    }));
      co_await sleep(10h);
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(11h);

  CHECK(shop.attempts == 1);
  CHECK(run.status() == RunStatus::completed);
}

TEST_CASE("a step that lost a race is not run again after a crash") {
  struct Shop : Racer {
    Workflow<> run() {
      co_await race(gated(1), sleep(1min));
      co_await sleep(1h);
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();
  engine.advance(1min);

  engine.crash();
  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
  CHECK(shop.contexts.size() == 1);
  shop.gate.open();
}

TEST_CASE("the winner of a race is the same after a crash, although the loser finished, too") {
  struct Shop : Racer {
    Workflow<int> run() {
      std::vector<Op<int>> runners;
      runners.push_back(gated(1));
      runners.push_back(step("quick", [] { return 2; }));
      const int won = (co_await race(std::move(runners))).value;
      co_await sleep(1h);
      co_return won;
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();
  shop.gate.open();
  engine.run_until_idle();

  engine.crash();
  engine.advance(1h);

  CHECK(run.result<int>() == 2);
}

TEST_CASE("whole workflows race; one that lost is not resumed") {
  struct Shop {
    Strings said;

    Workflow<int> runner(std::string name, int hours, int result) {
      said.push_back(name + " begins");
      co_await sleep(std::chrono::hours{hours});
      said.push_back(name + " arrives");
      co_return result;
    }

    Workflow<int> run() {
      const auto won = co_await race(runner("hare", 5, 1), runner("tortoise", 2, 2));
      co_await sleep(24h);
      co_return won.index() == 1 ? std::get<1>(won) : std::get<0>(won);
    }
  } shop;

  testing::FreshEngine engine{{.frame_bytes_max = std::size_t{1} << 30}};
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(48h);

  CHECK(run.result<int>() == 2);
  CHECK(std::ranges::count(shop.said, "hare arrives") == 0);
}

TEST_CASE("a race is decided by what is known when it begins") {
  struct Shop : Racer {
    Workflow<int> run() {
      const TimePoint begun = co_await now();
      const auto won = co_await race(now(), gated(2));
      CHECK(won.index() == 0);
      CHECK(std::get<0>(won) == begun);
      co_return 1;
    }
  } shop;

  testing::FreshEngine engine;

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(run.result<int>() == 1);
  CHECK(shop.contexts.empty());
}

TEST_CASE("a time limit is a race with a sleep") {
  struct Shop : Racer {
    Workflow<std::string> run() {
      const auto won = co_await race(gated(1), sleep(10s));
      co_return won.index() == 0 ? "answered" : "took too long";
    }
  };

  for (const bool answers : {true, false}) {
    CAPTURE(answers);
    Shop shop;
    testing::FreshEngine engine;
    const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
    engine.run_until_idle();

    if (answers) shop.gate.open();
    engine.advance(10s);
    shop.gate.open();

    CHECK(run.result<std::string>() == (answers ? "answered" : "took too long"));
  }
}

TEST_CASE("races nest in all and all in races") {
  struct Shop : Racer {
    Workflow<std::string> run() {
      const auto [quick, number] =
          co_await all(race(sleep(1h), all(sleep(1min), step("a", [] { return 4; }))),
                       step("b", [] { return 2; }));
      co_return std::to_string(std::get<1>(std::get<1>(quick))) + std::to_string(number);
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1min);

  CHECK(run.result<std::string>() == "42");
}

}  // namespace semel
