// Many operations at once: all, all_settled, settled.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

/// Gives `number` once the gate opens.
Op<int> gated(Gate& gate, int number) {
  return step("gated", [&gate, number]() -> Task<int> {
    co_await gate;
    co_return number;
  });
}

StepOptions once() { return {.retry = {.attempts = 1}}; }

Op<int> failing(const std::string& message) {
  return step("failing", once(), [message]() -> int { throw std::runtime_error(message); });
}

}  // namespace

TEST_CASE("all waits for every operation and gives the results by position") {
  struct Shop {
    Workflow<std::tuple<int, std::string>> run() {
      const auto [number, nothing, text, slept] =
          co_await all(step("number", [] { return 7; }), step("nothing", [] {}),
                       step("text", [] { return std::string("seven"); }), sleep(1h));
      static_assert(std::same_as<decltype(nothing), const std::monostate>);
      static_assert(std::same_as<decltype(slept), const std::monostate>);
      co_return std::tuple{number, text};
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(59min);
  CHECK(run.status() == RunStatus::waiting);
  engine.advance(1min);

  CHECK(run.result<std::tuple<int, std::string>>() == std::tuple{7, std::string("seven")});
}

TEST_CASE("the operations of all run side by side, whatever order they finish in") {
  struct Shop {
    Gate first;
    Gate second;

    Workflow<std::tuple<int, int>> run() {
      co_return co_await all(gated(first, 1), gated(second, 2));
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();
  REQUIRE(shop.first.waiting() + shop.second.waiting() == 2);

  shop.second.open();
  engine.run_until_idle();
  CHECK(run.status() == RunStatus::running);
  shop.first.open();

  CHECK(run.result<std::tuple<int, int>>() == std::tuple{1, 2});
}

TEST_CASE("all over a vector gives a vector, in the order of the operations") {
  struct Shop {
    Workflow<std::vector<int>> run(int count) {
      std::vector<Op<int>> steps;
      for (int i = 0; i < count; ++i) steps.push_back(step("square", [i] { return i * i; }));
      co_return co_await all(std::move(steps));
    }
  } shop;

  testing::FreshEngine engine;
  const auto workflow = engine.add("run", &Shop::run, &shop);

  CHECK(engine.start(workflow, 4).run.result<std::vector<int>>() == std::vector{0, 1, 4, 9});
  CHECK(engine.start(workflow, 1).run.result<std::vector<int>>() == std::vector{0});
  CHECK(engine.start(workflow, 0).run.result<std::vector<int>>() == std::vector<int>{});
}

TEST_CASE("all over a vector of operations without a result gives nothing") {
  struct Shop {
    int done = 0;

    Workflow<int> run(int count) {
      std::vector<Op<void>> steps;
      for (int i = 0; i < count; ++i) steps.push_back(step("count", [this] { ++done; }));
      static_assert(std::is_void_v<decltype(all(std::vector<Op<void>>{}))::result_type>);
      co_await all(std::move(steps));
      co_return std::exchange(done, 0);
    }
  } shop;

  testing::FreshEngine engine;
  const auto workflow = engine.add("run", &Shop::run, &shop);

  CHECK(engine.start(workflow, 3).run.result<int>() == 3);
  CHECK(engine.start(workflow, 0).run.result<int>() == 0);
}

TEST_CASE("the first failure is thrown out of all; the others finish and are recorded") {
  struct Shop {
    Gate gate;

    Workflow<std::string> run() {
      std::string caught;
      try {
        co_await all(gated(gate, 1), failing("broken"), gated(gate, 3));
      } catch (const StepFailedError& error) {
        caught = error.message;
      }
      co_await sleep(1h);
      co_return caught;
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();
  CHECK(kinds(run) == Strings{"started", "step_failed"});
  CHECK(shop.gate.waiting() == 2);

  shop.gate.open();
  engine.run_until_idle();
  CHECK(kinds(run) == Strings{"started", "step_failed", "step_completed", "step_completed"});

  engine.advance(1h);
  CHECK(run.result<std::string>() == "broken");
}

TEST_CASE("a step that is retried beside a failure of all goes on being retried") {
  struct Shop {
    int attempts = 0;

    Workflow<> run() {
      static_cast<void>(co_await settled(all(failing("broken"), step("retried", [this] {
                                               if (++attempts < 3)
                                                 throw std::runtime_error("again");
                                             }))));
      co_await sleep(1h);
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
  CHECK(shop.attempts == 3);
}

TEST_CASE("a run that ends by a failure of all does not wait for the others") {
  struct Shop {
    Gate gate;

    Workflow<> run() { co_await all(gated(gate, 1), failing("broken")); }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();

  CHECK(run.status() == RunStatus::failed);
  CHECK(shop.gate.waiting() == 1);
  shop.gate.open();
  engine.run_until_idle();
  CHECK(kinds(run) == Strings{"started", "step_failed"});
}

TEST_CASE("results that come together with the one that ends the run are dropped") {
  struct Shop {
    Gate gate;

    Workflow<> run() {
      co_await all(step("fails", once(),
                        [this]() -> Task<void> {
                          co_await gate;
                          throw std::runtime_error("broken");
                        }),
                   gated(gate, 2), gated(gate, 3));
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();

  shop.gate.open();
  engine.run_until_idle();

  CHECK(run.status() == RunStatus::failed);
  CHECK(kinds(run) == Strings{"started", "step_failed"});
}

TEST_CASE("settled gives a failure as a value") {
  struct Shop {
    Workflow<std::string> run() {
      const Outcome<int> good = co_await settled(step("good", [] { return 7; }));
      const Outcome<int> bad = co_await settled(failing("broken"));
      const Outcome<void> slept = co_await settled(sleep(0s));
      CHECK(good.ok());
      CHECK(good.value() == 7);
      CHECK(good.message().empty());
      CHECK(good.error() == nullptr);
      CHECK(slept.ok());
      slept.value();
      CHECK_FALSE(bad.ok());
      CHECK_FALSE(bad.cancelled());
      CHECK_THROWS_AS(bad.value(), StepFailedError);
      CHECK(bad.error() != nullptr);
      co_return bad.message();
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();

  CHECK(contains(run.result<std::string>(), "broken"));
}

TEST_CASE("all_settled waits for every operation, failures included") {
  struct Shop {
    Workflow<Strings> run() {
      const auto [good, bad, nothing] =
          co_await all_settled(step("good", [] { return 7; }), failing("broken"), sleep(1min));
      CHECK(nothing.ok());
      co_return Strings{std::to_string(good.value()), bad.message()};
    }

    Workflow<std::vector<bool>> vector(int count) {
      std::vector<Op<int>> steps;
      for (int i = 0; i < count; ++i) {
        steps.push_back(i % 2 == 0 ? step("good", [i] { return i; }) : failing("odd"));
      }
      std::vector<bool> ok;
      for (const Outcome<int>& outcome : co_await all_settled(std::move(steps))) {
        ok.push_back(outcome.ok());
      }
      co_return ok;
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  const auto vector = engine.add("vector", &Shop::vector, &shop);

  engine.advance(1min);

  const Strings results = run.result<Strings>();
  CHECK(results.at(0) == "7");
  CHECK(contains(results.at(1), "broken"));
  CHECK(engine.start(vector, 3).run.result<std::vector<bool>>() == std::vector{true, false, true});
  CHECK(engine.start(vector, 0).run.result<std::vector<bool>>().empty());
}

TEST_CASE("operations are given their ids in the order listed") {
  struct Shop {
    Workflow<> run() {
      co_await step("first", [] {});
      co_await all(step("left", [] {}), all(step("inner", [] {}), step("inner", [] {})),
                   step("right", [] {}));
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();

  Strings ops;
  for (const Entry& entry : run.journal()) {
    if (!entry.value.as_object().contains("requests")) continue;
    for (const Json& request : entry.value.at("requests").as_array()) {
      if (request.at("kind") == "step") ops.emplace_back(request.at("op").as_string());
    }
  }
  CHECK(ops == Strings{"1", "2.1", "2.2.1", "2.2.2", "2.3"});
}

TEST_CASE("a crash between the results of all runs again only what is not recorded") {
  struct Shop {
    Gate gate;
    int quick = 0;
    int slow = 0;

    Workflow<int> run() {
      const auto [a, b] = co_await all(step("quick", [this] { return ++quick; }),
                                       step("slow", [this]() -> Task<int> {
                                         const int mine = ++slow;
                                         co_await gate;
                                         co_return mine;
                                       }));
      co_return a * 10 + b;
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();

  engine.crash();
  engine.run_until_idle();
  shop.gate.open();

  CHECK(run.result<int>() == 12);
  CHECK(shop.quick == 1);
  CHECK(shop.slow == 2);
}

TEST_CASE("an operation is awaited once") {
  struct Shop {
    Workflow<> run() {
      auto op = step("once", [] {});
      co_await std::move(op);
      co_await std::move(op);  // NOLINT(bugprone-use-after-move): what is tested
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();

  CHECK(run.status() == RunStatus::failed);
  CHECK(contains(run.error(), "awaited once"));
}

}  // namespace semel
