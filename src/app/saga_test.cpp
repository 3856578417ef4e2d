// Sagas: undoing what was done.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

StepOptions once() { return {.retry = {.attempts = 1}}; }

}  // namespace

TEST_CASE("a saga undoes what was done, newest first") {
  struct Shop {
    Strings done;

    Workflow<> run() {
      Saga saga;
      co_await step("flight", [this] { done.push_back("flight"); });
      saga.add(
          "cancel flight", [this](std::string seat) { done.push_back("no flight " + seat); },
          std::string("12A"));
      co_await step("hotel", [this] { done.push_back("hotel"); });
      saga.add("cancel hotel", [this](const StepContext& step) -> Task<void> {
        done.push_back("no hotel " + std::to_string(step.attempt));
        co_return;
      });
      const auto car =
          co_await settled(step("car", once(), [] { throw std::runtime_error("no cars"); }));
      if (!car.ok()) {
        co_await saga.compensate();
        co_await saga.compensate();
        car.value();
      }
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();

  CHECK(shop.done == Strings{"flight", "hotel", "no hotel 1", "no flight 12A"});
  CHECK(run.status() == RunStatus::failed);
  CHECK(contains(run.error(), "no cars"));
}

TEST_CASE("a saga goes on behind an undo that failed and then throws the first failure") {
  struct Shop {
    Strings undone;

    Workflow<std::string> run() {
      Saga saga;
      for (const int number : {1, 2, 3}) {
        saga.add("undo", [this, number] {
          undone.push_back(std::to_string(number));
          if (number > 1) throw FatalError("cannot undo " + std::to_string(number));
        });
      }
      const auto outcome = co_await settled(saga.compensate());
      co_return outcome.message();
    }
  } shop;

  testing::FreshEngine engine;

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(contains(run.result<std::string>(), "cannot undo 3"));
  CHECK(shop.undone == Strings{"3", "2", "1"});
}

TEST_CASE("a saga interrupted by a crash undoes the rest, each once") {
  struct Shop {
    testing::Engine* engine = nullptr;
    Strings undone;

    Workflow<> run() {
      Saga saga;
      for (const std::string name : {"a", "b", "c"}) {
        saga.add(name, [this, name] { undone.push_back(name); });
      }
      co_await saga.compensate();
      co_await sleep(1h);
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();
  engine.crash();
  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
  CHECK(shop.undone == Strings{"c", "b", "a"});
}

}  // namespace semel
