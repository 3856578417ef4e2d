// An engine and its file: opening, stopping, going on.
#include "tests/support/api.hpp"

#include <atomic>
#include <future>
#include <latch>
#include <thread>

namespace semel {

using namespace test;

namespace {

struct Shop {
  std::atomic<int> charges = 0;
  std::latch begun{1};
  std::latch may_end{1};

  Workflow<int> fulfil(int order) {
    co_await step("charge", [this] { ++charges; });
    co_await sleep(24h);
    co_return order;
  }

  Workflow<int> block() {
    const int number = co_await step("block", [this] {
      ++charges;
      begun.count_down();
      may_end.wait();
      return 41;
    });
    co_return number + co_await step("after", [] { return 1; });
  }
};

void wait_until_waiting(const Run& run) {
  while (run.status() != RunStatus::waiting) std::this_thread::yield();
}

}  // namespace

TEST_CASE("what is not the URL of a store is refused") {
  for (const std::string url : {"", "memory", "sqlite:", "file.db", "redis://host"}) {
    CAPTURE(url);
    CHECK(code_of([&] { const Engine engine{url}; }) == "VALIDATION_ERROR");
  }
  CHECK(code_of([&] { const Engine engine{"sqlite:/nowhere/at/all/semel.db"}; }) ==
        "STORE_UNAVAILABLE");
}

TEST_CASE("two memory engines share nothing") {
  Shop shop;
  Engine one{"memory:"};
  Engine two{"memory:"};
  const auto workflow = one.add("fulfil", &Shop::fulfil, &shop);
  two.add("fulfil", &Shop::fulfil, &shop);

  one.start({.run_id = "id"}, workflow, 1);

  CHECK(two.runs().empty());
}

TEST_CASE("one engine owns a file; a second is refused until the first is gone") {
  TemporaryDirectory directory;
  {
    Engine first{directory.url()};
    CHECK(code_of([&] { const Engine second{directory.url()}; }) == "STORE_UNAVAILABLE");
    Engine other{directory.url("other.db")};
  }

  CHECK(code_of([&] { const Engine second{directory.url()}; }) == "nothing");
}

TEST_CASE("a file is free for another engine once its owner has stopped") {
  TemporaryDirectory directory;
  Engine first{directory.url()};
  first.start_workers();

  first.stop();

  CHECK(code_of([&] { const Engine second{directory.url()}; }) == "nothing");
}

TEST_CASE("an engine goes on with what the one before it left") {
  TemporaryDirectory directory;
  Shop shop;
  Strings ids;
  {
    Engine engine{directory.url()};
    const auto workflow = engine.add("fulfil", &Shop::fulfil, &shop);
    engine.start_workers();
    for (int i = 0; i < 5; ++i) {
      const Run run = engine.start({.key = std::to_string(i)}, workflow, i).run;
      wait_until_waiting(run);
      ids.push_back(run.id());
    }
  }

  Engine engine{directory.url()};
  const auto workflow = engine.add("fulfil", &Shop::fulfil, &shop);
  engine.start_workers();
  for (int i = 0; i < 5; ++i) {
    Run run = engine.run(ids[static_cast<std::size_t>(i)]);
    CHECK_FALSE(engine.start({.key = std::to_string(i)}, workflow, i).created);
    CHECK(run.wake() == 1);
    CHECK(run.result<int>() == i);
  }

  CHECK(shop.charges == 5);
}

TEST_CASE("stop waits for the bodies under way and writes their results") {
  TemporaryDirectory directory;
  Shop shop;
  std::string id;
  {
    Engine engine{directory.url()};
    const auto workflow = engine.add("block", &Shop::block, &shop);
    engine.start_workers();
    const Run run = engine.start(workflow).run;
    id = run.id();
    shop.begun.wait();
    auto stopped = std::async(std::launch::async, [&] { engine.stop(); });
    CHECK(stopped.wait_for(20ms) == std::future_status::timeout);
    shop.may_end.count_down();
    stopped.get();
    CHECK(kinds(run) == Strings{"started", "step_completed"});
  }

  Engine engine{directory.url()};
  engine.add("block", &Shop::block, &shop);
  engine.start_workers();

  CHECK(engine.run(id).result<int>() == 42);
  CHECK(shop.charges == 1);
}

TEST_CASE("stop does not wait for a body that waits for a run; its attempt is made again") {
  struct Waits {
    std::latch begun{2};
    std::atomic<int> attempts = 0;

    Workflow<int> blocking(std::string id) {
      co_return co_await step("wait", {.retry = {.attempts = 1}},
                              [this, id](const StepContext& step) {
                                if (++attempts <= 2) begun.count_down();
                                return step.client().run(id).result<int>();
                              });
    }

    Workflow<int> task(std::string id) {
      co_return co_await step("wait", {.retry = {.attempts = 1}},
                              [this, id](StepContext step) -> Task<int> {
                                if (++attempts <= 2) begun.count_down();
                                co_return co_await step.client().run(id).result_async<int>();
                              });
    }
  } waits;

  TemporaryDirectory directory;
  Shop shop;
  const auto add_all = [&](Engine& engine) {
    engine.add("fulfil", &Shop::fulfil, &shop);
    engine.add("blocking", &Waits::blocking, &waits);
    engine.add("task", &Waits::task, &waits);
    engine.start_workers();
  };
  {
    Engine engine{directory.url()};
    add_all(engine);
    engine.start({.run_id = "other"}, &Shop::fulfil, 7);
    engine.start({.run_id = "blocking"}, &Waits::blocking, "other");
    engine.start({.run_id = "task"}, &Waits::task, "other");
    waits.begun.wait();
    engine.stop();
    CHECK(engine.run("blocking").status() == RunStatus::running);
  }

  Engine engine{directory.url()};
  add_all(engine);
  Run other = engine.run("other");
  while (other.wake() == 0) std::this_thread::yield();

  CHECK(engine.run("blocking").result<int>() == 7);
  CHECK(engine.run("task").result<int>() == 7);
}

TEST_CASE("stopping is no crash: nothing is counted against a run") {
  TemporaryDirectory directory;

  struct Blocks {
    std::atomic<int> begun = 0;

    Workflow<> run() {
      for (int i = 0; i < 1000; ++i) co_await step("work", [this] { ++begun; });
    }
  } blocks;

  std::string id;
  for (int i = 0; i < 8; ++i) {
    Engine engine{directory.url(), {.crashes_max = 2}};
    const auto workflow = engine.add("run", &Blocks::run, &blocks);
    engine.start_workers();
    const int before = blocks.begun;
    id = engine.start({.key = "k"}, workflow).run.id();
    while (blocks.begun == before) std::this_thread::yield();
  }

  Engine engine{directory.url()};
  engine.add("run", &Blocks::run, &blocks);
  engine.start_workers();
  engine.run(id).result<void>();

  CHECK(blocks.begun == 1000);
}

TEST_CASE("stop can be called twice, and without workers") {
  Engine engine{"memory:"};
  engine.stop();
  engine.stop();

  Engine working{"memory:"};
  working.start_workers();
  working.stop();
  working.stop();
}

TEST_CASE("calls on a stopped engine are refused; what is committed can still be read") {
  Shop shop;
  Engine engine{"memory:"};
  const auto workflow = engine.add("fulfil", &Shop::fulfil, &shop);
  engine.start_workers();
  Run run = engine.start(workflow, 1).run;
  wait_until_waiting(run);

  engine.stop();

  CHECK(run.status() == RunStatus::waiting);
  CHECK(code_of([&] { engine.start(workflow, 1); }) == "ENGINE_STOPPED");
  CHECK(code_of([&] { run.cancel(); }) == "ENGINE_STOPPED");
  CHECK(code_of([&] { run.result<int>(); }) == "ENGINE_STOPPED");
  CHECK(code_of([&] { run.wake(); }) == "ENGINE_STOPPED");
}

TEST_CASE("a handle may outlive its engine") {
  Shop shop;
  std::optional<Run> run;
  {
    Engine engine{"memory:"};
    run.emplace(engine.start(engine.add("fulfil", &Shop::fulfil, &shop), 1).run);
  }

  CHECK(run->id().size() == 26);
  CHECK(code_of([&] { run->cancel(); }) == "ENGINE_STOPPED");
  CHECK(code_of([&] { run->result<int>(); }) == "ENGINE_STOPPED");
}

TEST_CASE("those who wait for a result are told when the engine stops") {
  Shop shop;
  Engine engine{"memory:"};
  const auto workflow = engine.add("fulfil", &Shop::fulfil, &shop);
  engine.start_workers();
  const Run run = engine.start(workflow, 1).run;
  std::latch waiting{1};
  auto code = std::async(std::launch::async, [&] {
    waiting.count_down();
    return code_of([&] { run.result<int>(); });
  });
  waiting.wait();

  engine.stop();

  CHECK(code.get() == "ENGINE_STOPPED");
}

TEST_CASE("runs of a workflow that is registered later wait for it") {
  TemporaryDirectory directory;
  Shop shop;
  std::string id;
  {
    Engine engine{directory.url()};
    id = engine.start(engine.add("fulfil", &Shop::fulfil, &shop), 21).run.id();
  }

  Engine engine{directory.url()};
  engine.start_workers();
  Run run = engine.run(id);
  CHECK(run.input() == Json(boost::json::array{21}));
  CHECK(code_of([&] { run.result<int>(20ms); }) == "TIMEOUT");
  CHECK(run.status() == RunStatus::running);
  engine.add("fulfil", &Shop::fulfil, &shop);
  wait_until_waiting(run);
  CHECK(run.wake() == 1);

  CHECK(run.result<int>() == 21);
}

TEST_CASE("runs that sleep wait for a workflow that is registered after they fell due") {
  TemporaryDirectory directory;

  struct Nap {
    Workflow<int> run() {
      co_await sleep(1ms);
      co_return 7;
    }
  } nap;

  std::string id;
  {
    Engine engine{directory.url()};
    const auto workflow = engine.add("nap", &Nap::run, &nap);
    id = engine.start({.delay = 1ms}, workflow).run.id();
  }

  Engine engine{directory.url()};
  engine.start_workers();
  CHECK(code_of([&] { engine.run(id).result<int>(20ms); }) == "TIMEOUT");
  engine.add("nap", &Nap::run, &nap);

  CHECK(engine.run(id).result<int>() == 7);
}

TEST_CASE("a run is not driven by code of a lower version than drove it before") {
  TemporaryDirectory directory;
  Shop shop;
  std::string id;
  {
    Engine engine{directory.url()};
    const auto workflow = engine.add("fulfil", &Shop::fulfil, &shop, {.version = 2});
    id = engine.start(workflow, 1).run.id();
  }
  {
    Engine engine{directory.url()};
    engine.add("fulfil", &Shop::fulfil, &shop, {.version = 1});
    engine.start_workers();
    CHECK(code_of([&] { engine.run(id).result<int>(20ms); }) == "TIMEOUT");
    CHECK(engine.run(id).status() == RunStatus::running);
    CHECK(shop.charges == 0);
  }

  Engine engine{directory.url()};
  engine.add("fulfil", &Shop::fulfil, &shop, {.version = 3});
  engine.start_workers();
  wait_until_waiting(engine.run(id));

  CHECK(shop.charges == 1);
}

}  // namespace semel
