// Inputs and orders of events that look harmless and once were not.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

#include <atomic>
#include <condition_variable>
#include <latch>
#include <limits>
#include <mutex>
#include <stdexcept>

namespace semel {

using namespace test;

namespace {

Workflow<int> add_one(int number) {
  co_return co_await step("add", [number] { return number + 1; });
}

Json without_text() { return Json{std::numeric_limits<double>::quiet_NaN()}; }

}  // namespace

TEST_CASE("an error whose details have no JSON form is still just an error") {
  struct Shop {
    Workflow<std::string> in_a_step() {
      const auto done =
          co_await settled(step("fails", [] { throw FatalError("upstream", without_text()); }));
      co_return done.message();
    }

    Workflow<> in_its_own_code() {
      throw FatalError("here", Json{std::string{"\xff"}});
      co_return;
    }
  } shop;

  testing::FreshEngine engine;
  const Run step = engine.start(engine.add("step", &Shop::in_a_step, &shop)).run;
  const Run own = engine.start(engine.add("own", &Shop::in_its_own_code, &shop)).run;

  CHECK(step.result<std::string>().find("upstream") != std::string::npos);
  CHECK_THROWS_AS(own.result<void>(), RunFailedError);
}

TEST_CASE("the longest durations there are mean very long") {
  testing::FreshEngine engine{{.retention = Millis::max()}};
  engine.add("add", add_one);

  SUBCASE("a key is remembered") {
    CHECK(engine.start({.key = "k", .key_ttl = Millis::max()}, add_one, 1).created);
    engine.run_until_idle();
    engine.advance(48h);
    CHECK_FALSE(engine.start({.key = "k", .key_ttl = Millis::max()}, add_one, 1).created);
  }
  SUBCASE("a finished run is kept") {
    const Run run = engine.start(add_one, 1).run;
    engine.run_until_idle();
    engine.advance(48h);
    CHECK(run.result<int>() == 2);
  }
  SUBCASE("a deadline is not missed") {
    CHECK(engine.start({.deadline = Millis::max()}, add_one, 1).run.result<int>() == 2);
  }
  SUBCASE("a delayed run waits, and can be cancelled by the version it has") {
    Run run = engine.start({.delay = Millis::max()}, add_one, 1).run;
    engine.advance(48h);
    CHECK(run.status() == RunStatus::pending);
    run.cancel({.expected_version = run.version()});
    CHECK(run.status() == RunStatus::cancelled);
  }
  SUBCASE("a time-out does not come") {
    struct Shop {
      Workflow<int> run() {
        co_await sleep(std::chrono::hours::min());
        co_return co_await step("timed", {.timeout = Millis::max()}, [] { return 3; });
      }
    } shop;

    CHECK(engine.start(engine.add("timed", &Shop::run, &shop)).run.result<int>() == 3);
  }
}

TEST_CASE("with threads: whoever waits for ever waits") {
  Engine engine{"memory:"};
  engine.add("add", add_one);
  engine.start_workers();
  CHECK(engine.start(add_one, 1).run.result<int>(Millis::max()) == 2);
}

TEST_CASE("a Task step may start runs, and is told that it must not block for their results") {
  struct Shop {
    Workflow<int> starts() {
      co_return co_await step("start", [](const StepContext& step) -> Task<int> {
        co_return co_await step.client().start(add_one, 41).run.result_async<int>();
      });
    }

    Workflow<std::string> blocks() {
      const auto done = co_await settled(
          step("block", {.retry = {.attempts = 1}}, [](const StepContext& step) -> Task<int> {
            co_return step.client().start(add_one, 41).run.result<int>();
          }));
      co_return done.message();
    }
  } shop;

  Engine engine{"memory:"};
  engine.add("add", add_one);
  const auto starts = engine.add("starts", &Shop::starts, &shop);
  const auto blocks = engine.add("blocks", &Shop::blocks, &shop);
  engine.start_workers();

  std::vector<Run> runs;
  for (int i = 0; i < 50; ++i) runs.push_back(engine.start(starts).run);
  for (const Run& run : runs) CHECK(run.result<int>() == 42);
  CHECK(engine.start(blocks).run.result<std::string>().find("result_async") != std::string::npos);
}

TEST_CASE("a Task step may take its bound arguments by reference") {
  struct Shop {
    static Task<std::string> twice(const StepContext&, const std::string& text) {
      co_return text + text;
    }

    Workflow<std::string> run() {
      co_return co_await step("twice", &Shop::twice, std::string(100, 'x'));
    }
  } shop;

  testing::FreshEngine engine;
  CHECK(engine.start(engine.add("run", &Shop::run, &shop)).run.result<std::string>() ==
        std::string(200, 'x'));
}

TEST_CASE("a result may be awaited longer than its handle lives") {
  struct Shop {
    Workflow<int> run() {
      co_return co_await step("wait", [](const StepContext& step) -> Task<int> {
        auto result = step.client().start(add_one, 1).run.result_async<int>();
        co_return co_await std::move(result);
      });
    }
  } shop;

  testing::FreshEngine engine;
  engine.add("add", add_one);
  CHECK(engine.start(engine.add("run", &Shop::run, &shop)).run.result<int>() == 2);
}

TEST_CASE("a workflow that throws before it is one refuses the start, whatever it throws") {
  struct Shop {
    Workflow<int> checked(int number) {
      if (number < 0) throw std::invalid_argument("negative");
      return add_one(number);
    }
  } shop;

  testing::FreshEngine engine;
  const auto checked = engine.add("checked", &Shop::checked, &shop);

  CHECK(engine.start(checked, 1).run.result<int>() == 2);
  CHECK_THROWS_WITH_AS(engine.start(checked, -1), "negative", Error);
}

TEST_CASE("a body may be the last to hold the engine's client") {
  for (int i = 0; i < 20; ++i) {
    std::latch begun{1};

    struct Shop {
      std::latch& begun;

      Workflow<> run() {
        co_await step("look", [this](const StepContext& step) {
          static_cast<void>(step.client().runs());
          begun.count_down();
        });
      }
    } shop{begun};

    Engine engine{"memory:"};
    const auto workflow = engine.add("run", &Shop::run, &shop);
    engine.start_workers();
    engine.start(workflow);
    begun.wait();
  }
}

TEST_CASE("a body that waits to be asked to stop does not keep the engine from stopping") {
  struct Shop {
    std::latch begun{1};
    std::atomic<int> attempts = 0;

    Workflow<int> run() {
      co_return co_await step("wait", [this](const StepContext& step) {
        if (++attempts > 1) return 7;
        begun.count_down();
        std::mutex mutex;
        std::unique_lock lock(mutex);
        std::condition_variable_any stopped;
        stopped.wait(lock, step.stop, [] { return false; });
        throw std::runtime_error("asked to stop");
      });
    }
  } shop;

  const TemporaryDirectory directory;
  const std::string url = directory.url();
  std::string id;
  {
    Engine engine{url};
    const auto workflow = engine.add("run", &Shop::run, &shop);
    engine.start_workers();
    id = engine.start(workflow).run.id();
    shop.begun.wait();
    engine.stop();
  }
  Engine engine{url};
  engine.add("run", &Shop::run, &shop);
  engine.start_workers();
  // The attempt that was asked to stop did not count as one that failed.
  CHECK(engine.run(id).result<int>() == 7);
}

}  // namespace semel
