// Work under way that is awaited later, and workflows inside workflows.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

StepOptions once() { return {.retry = {.attempts = 1}}; }

/// The steps a run asked for, as "op name".
Strings steps_of(const Run& run) {
  Strings found;
  for (const Entry& entry : run.journal()) {
    if (!entry.value.as_object().contains("requests")) continue;
    for (const Json& request : entry.value.at("requests").as_array()) {
      if (request.at("kind") != "step") continue;
      found.push_back(std::string(request.at("op").as_string()) + " " +
                      std::string(request.at("name").as_string()));
    }
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

TEST_CASE("begin starts an operation and goes on at once") {
  struct Shop {
    Strings said;

    Workflow<int> run() {
      auto pending = co_await begin(step("background", [this] {
        said.push_back("background");
        return 40;
      }));
      said.push_back("went on");
      const int front = co_await step("front", [] { return 2; });
      co_return front + co_await std::move(pending);
    }
  } shop;

  testing::FreshEngine engine;

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(run.result<int>() == 42);
  CHECK(shop.said.front() == "went on");
  CHECK(std::ranges::count(shop.said, "background") == 1);
}

TEST_CASE("what was begun and is settled already is awaited without waiting") {
  struct Shop {
    Workflow<std::string> run() {
      auto good = co_await begin(step("good", [] { return 7; }));
      auto bad = co_await begin(step("bad", once(), [] { throw std::runtime_error("broken"); }));
      co_await sleep(1h);
      const int number = co_await std::move(good);
      const auto outcome = co_await settled(std::move(bad));
      co_return std::to_string(number) + outcome.message();
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(contains(run.result<std::string>(), "7step"));
  CHECK(contains(run.result<std::string>(), "broken"));
}

TEST_CASE("what was begun and never awaited goes on while the run does") {
  struct Shop {
    int ran = 0;

    Workflow<> run() {
      static_cast<void>(co_await begin(step("unwatched", [this] { ++ran; })));
      co_await sleep(1h);
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();
  CHECK(shop.ran == 1);
  CHECK(kinds(run) == Strings{"started", "step_completed"});
  engine.crash();
  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
  CHECK(shop.ran == 1);
}

TEST_CASE("what was begun and failed unwatched does not fail the run") {
  struct Shop {
    Workflow<> run() {
      static_cast<void>(
          co_await begin(step("unwatched", once(), [] { throw std::runtime_error("broken"); })));
      co_await sleep(1h);
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
}

TEST_CASE("a run's end waits for nothing that was begun") {
  struct Shop {
    Gate gate;

    Workflow<int> run() {
      static_cast<void>(co_await begin(step("slow", [this]() -> Task<void> { co_await gate; })));
      static_cast<void>(co_await begin(sleep(1h)));
      co_return 1;
    }
  } shop;

  testing::FreshEngine engine;

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(run.result<int>() == 1);
  engine.run_until_idle();
  shop.gate.open();
  engine.advance(1h);
  CHECK(run.version() == 0);
}

TEST_CASE("what was begun is awaited once") {
  struct Shop {
    Workflow<> run() {
      auto pending = co_await begin(step("one", [] {}));
      co_await std::move(pending);
      co_await std::move(pending);  // NOLINT(bugprone-use-after-move): what is tested
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();

  CHECK(run.status() == RunStatus::failed);
  CHECK(contains(run.error(), "awaited once"));
}

TEST_CASE("several operations can be begun as one, and raced when they are awaited") {
  struct Shop {
    Workflow<int> run() {
      auto both = co_await begin(all(step("a", [] { return 1; }), step("b", [] { return 2; })));
      auto slow = co_await begin(sleep(1h));
      const auto won = co_await race(std::move(slow), std::move(both));
      const auto [a, b] = std::get<1>(won);
      co_return a + b;
    }
  } shop;

  testing::FreshEngine engine;

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(run.result<int>() == 3);
}

TEST_CASE("a whole workflow can be begun and awaited later") {
  struct Shop {
    Workflow<int> part(int number) {
      co_await sleep(1h);
      co_return co_await step("part", [number] { return number; });
    }

    Workflow<int> run() {
      auto pending = co_await begin(part(40));
      const int mine = co_await step("mine", [] { return 2; });
      co_return mine + co_await std::move(pending);
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(run.result<int>() == 42);
}

TEST_CASE("a workflow begun and never awaited goes on while the run does") {
  struct Shop {
    int parts = 0;

    Workflow<> part() {
      for (int i = 0; i < 3; ++i) {
        co_await sleep(1min);
        co_await step("part", [this] { ++parts; });
      }
    }

    Workflow<> run() {
      {
        static_cast<void>(co_await begin(part()));
      }
      co_await sleep(1h);
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(90s);
  engine.crash();
  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
  CHECK(shop.parts == 3);
}

TEST_CASE("an awaited workflow is part of the run") {
  struct Shop {
    Workflow<int> inner(int number) {
      co_await step("inner", [] {});
      co_return number * 2;
    }

    Workflow<> nothing() { co_return; }

    Workflow<int> run() {
      co_await step("first", [] {});
      const int doubled = co_await inner(21);
      co_await nothing();
      co_await step("last", [] {});
      co_return doubled;
    }
  } shop;

  testing::FreshEngine engine;

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(run.result<int>() == 42);
  CHECK(engine.runs().size() == 1);
  CHECK(steps_of(run) == Strings{"1 first", "2.1 inner", "4 last"});
}

TEST_CASE("an exception crosses an awaited workflow") {
  struct Shop {
    Workflow<> inner() {
      co_await step("bad", once(), [] { throw std::runtime_error("broken"); });
    }

    Workflow<std::string> run() {
      try {
        co_await inner();
      } catch (const StepFailedError& error) {
        co_return error.message;
      }
      co_return "nothing thrown";
    }
  } shop;

  testing::FreshEngine engine;

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(run.result<std::string>() == "broken");
}

TEST_CASE("the ids of a branch do not depend on its neighbours") {
  struct Shop {
    Workflow<> branch(std::string name, int steps) {
      for (int i = 0; i < steps; ++i) co_await step(name, [] {});
    }

    Workflow<> run(int neighbour_steps) {
      co_await all(branch("neighbour", neighbour_steps), branch("mine", 2));
    }
  } shop;

  testing::FreshEngine engine;
  const auto workflow = engine.add("run", &Shop::run, &shop);
  const auto mine = [&](int neighbour_steps) {
    const Run run = engine.start(workflow, neighbour_steps).run;
    engine.run_until_idle();
    Strings found = steps_of(run);
    std::erase_if(found, [](const std::string& step) { return contains(step, "neighbour"); });
    return found;
  };

  CHECK(mine(0) == Strings{"1.2.1 mine", "1.2.2 mine"});
  CHECK(mine(5) == mine(0));
}

TEST_CASE("branches of all are whole workflows, and may have branches of their own") {
  struct Shop {
    Workflow<int> leaf(int number) {
      co_await sleep(std::chrono::minutes{number});
      co_return co_await step("leaf", [number] { return number; });
    }

    Workflow<int> twig(int number) {
      const auto [a, b] = co_await all(leaf(number), leaf(number + 1));
      co_return a + b;
    }

    Workflow<int> run() {
      std::vector<Workflow<int>> twigs;
      for (int i = 1; i <= 3; ++i) twigs.push_back(twig(i * 10));
      int sum = 0;
      for (const int number : co_await all(std::move(twigs))) sum += number;
      co_return sum;
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(15min);
  engine.crash();
  engine.advance(1h);

  CHECK(run.result<int>() == 123);
}

TEST_CASE("a branch that fails fails all; its neighbours go on") {
  struct Shop {
    int neighbour = 0;

    Workflow<> bad() {
      co_await step("bad", once(), [] { throw std::runtime_error("broken"); });
    }

    Workflow<> good() {
      for (int i = 0; i < 3; ++i) {
        co_await sleep(1min);
        co_await step("good", [this] { ++neighbour; });
      }
    }

    Workflow<std::string> run() {
      const auto outcome = co_await settled(all(good(), bad()));
      co_await sleep(1h);
      co_return outcome.message();
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(contains(run.result<std::string>(), "broken"));
  CHECK(shop.neighbour == 3);
}

}  // namespace semel
