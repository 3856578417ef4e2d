// The engine with its threads: many callers, many bodies, orderly ends.
#include "tests/support/api.hpp"

#include <atomic>
#include <condition_variable>
#include <future>
#include <latch>
#include <mutex>
#include <thread>

namespace semel {

using namespace test;

namespace {

Workflow<int> quick(int number) {
  co_return co_await step("quick", [number] { return number + 1; });
}

Workflow<> forever() { co_await sleep(24h); }

/// A step body that says when it has begun and ends when it may.
struct Blocking {
  std::latch begun{1};
  std::latch may_end{1};
  std::atomic<int> bodies = 0;
  std::atomic<bool> asked_to_stop = false;

  Workflow<int> run() {
    const int number = co_await step("block", [this](const StepContext& step) {
      if (bodies++ == 0) begun.count_down();
      may_end.wait();
      asked_to_stop = step.stop.stop_requested();
      return 41;
    });
    co_return number + co_await step("after", [] { return 1; });
  }
};

/// Code of its own that blocks until it is told.
struct Clog {
  std::latch may_end{1};

  Workflow<> run() {
    may_end.wait();
    co_return;
  }
};

}  // namespace

TEST_CASE("nothing runs before the workers are started, and then everything does") {
  Engine engine{"memory:"};
  engine.add("quick", quick);
  std::vector<Run> runs;
  for (int i = 0; i < 10; ++i) runs.push_back(engine.start(quick, i).run);
  for (const Run& run : runs) CHECK(run.status() == RunStatus::running);
  CHECK(code_of([&] { runs[0].result<int>(10ms); }) == "TIMEOUT");

  engine.start_workers();

  for (int i = 0; i < 10; ++i) CHECK(runs[static_cast<std::size_t>(i)].result<int>() == i + 1);
}

TEST_CASE("of many threads that start with one key exactly one makes the run") {
  constexpr int callers = 64;
  TemporaryDirectory directory;
  Engine engine{directory.url()};
  engine.add("quick", quick);
  engine.start_workers();
  std::latch all_here{callers};
  std::atomic<int> created = 0;
  std::mutex mutex;
  std::set<std::string> ids;

  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < callers; ++i) {
      threads.emplace_back([&] {
        all_here.arrive_and_wait();
        const Started started = engine.start({.key = "one"}, quick, 1);
        created += started.created ? 1 : 0;
        const std::lock_guard lock(mutex);
        ids.insert(started.run.id());
      });
    }
  }

  CHECK(created == 1);
  CHECK(ids.size() == 1);
  CHECK(engine.runs().size() == 1);
  CHECK(engine.run(*ids.begin()).result<int>() == 2);
}

TEST_CASE("many threads start runs and wait for their results") {
  constexpr int callers = 16;
  constexpr int each = 20;
  Engine engine{"memory:"};
  engine.add("quick", quick);
  engine.start_workers();
  std::atomic<int> right = 0;

  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < callers; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < each; ++i) {
          const int number = t * each + i;
          if (engine.start(quick, number).run.result<int>() == number + 1) ++right;
        }
      });
    }
  }

  CHECK(right == callers * each);
}

TEST_CASE("many threads wait for one run") {
  Blocking blocking;
  Engine engine{"memory:"};
  const auto workflow = engine.add("blocking", &Blocking::run, &blocking);
  engine.start_workers();
  const Run run = engine.start(workflow).run;
  std::atomic<int> right = 0;

  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 16; ++i) {
      threads.emplace_back([&] {
        if (run.result<int>() == 42) ++right;
      });
    }
    blocking.begun.wait();
    blocking.may_end.count_down();
  }

  CHECK(right == 16);
}

TEST_CASE("many steps of a run block side by side") {
  struct Shop {
    std::latch all_here{16};

    Workflow<int> run() {
      std::vector<Op<int>> steps;
      for (int i = 0; i < 16; ++i) {
        steps.push_back(step("meet", [this] {
          all_here.arrive_and_wait();
          return 1;
        }));
      }
      const std::vector<int> results = co_await all(std::move(steps));
      co_return std::accumulate(results.begin(), results.end(), 0);
    }
  } shop;

  Engine engine{"memory:"};
  const auto workflow = engine.add("run", &Shop::run, &shop);
  engine.start_workers();

  CHECK(engine.start(workflow).run.result<int>() == 16);
}

TEST_CASE("at most step_threads bodies block at a time") {
  struct Shop {
    std::atomic<int> inside = 0;
    std::atomic<int> most = 0;

    Workflow<> run() {
      std::vector<Op<void>> steps;
      for (int i = 0; i < 50; ++i) {
        steps.push_back(step("count", [this] {
          const int now = ++inside;
          int seen = most.load();
          while (now > seen && !most.compare_exchange_weak(seen, now)) {
          }
          std::this_thread::yield();
          --inside;
        }));
      }
      co_await all(std::move(steps));
    }
  } shop;

  Engine engine{"memory:", {.step_threads = 3}};
  const auto workflow = engine.add("run", &Shop::run, &shop);
  engine.start_workers();

  engine.start(workflow).run.result<void>();

  CHECK(shop.most <= 3);
}

TEST_CASE("bodies that wait for other runs do not take the threads those need") {
  struct Shop {
    Workflow<int> deep(int depth) {
      if (depth == 0) co_return 0;
      co_return 1 + co_await step("wait", [depth](const StepContext& step) {
        return step.client().start(&Shop::deep, depth - 1).run.result<int>();
      });
    }
  } shop;

  Engine engine{"memory:", {.step_threads = 1}};
  const auto workflow = engine.add("deep", &Shop::deep, &shop);
  engine.start_workers();

  CHECK(engine.start(workflow, 10).run.result<int>() == 10);
}

TEST_CASE("a Task step waits for other runs without a thread of its own") {
  struct Shop {
    Workflow<int> run() {
      co_return co_await step("wait", [](const StepContext& step) -> Task<int> {
        int sum = 0;
        for (int i = 0; i < 5; ++i) {
          // On the engine's own loop a call that waits would never be answered.
          sum += co_await step.client().run("run-" + std::to_string(i)).result_async<int>();
        }
        co_return sum;
      });
    }
  } shop;

  Engine engine{"memory:"};
  engine.add("quick", quick);
  const auto workflow = engine.add("run", &Shop::run, &shop);
  engine.start_workers();
  for (int i = 0; i < 5; ++i) engine.start({.run_id = "run-" + std::to_string(i)}, quick, i);

  CHECK(engine.start(workflow).run.result<int>() == 15);
}

TEST_CASE("result gives up after its limit, and the run goes on") {
  Engine engine{"memory:"};
  engine.add("forever", forever);
  engine.start_workers();
  Run run = engine.start(forever).run;

  CHECK(code_of([&] { run.result<void>(20ms); }) == "TIMEOUT");
  CHECK(run.status() == RunStatus::waiting);
  run.cancel();

  CHECK(code_of([&] { run.result<void>(); }) == "RUN_CANCELLED");
}

TEST_CASE("a cancel wakes those who wait for the result") {
  Engine engine{"memory:"};
  engine.add("forever", forever);
  engine.start_workers();
  Run run = engine.start(forever).run;
  auto code = std::async(std::launch::async, [&] { return code_of([&] { run.result<void>(); }); });

  run.cancel();

  CHECK(code.get() == "RUN_CANCELLED");
}

TEST_CASE("cancels racing with completions: one of them wins and everybody learns which") {
  Engine engine{"memory:"};
  engine.add("quick", quick);
  engine.start_workers();
  for (int i = 0; i < 50; ++i) {
    Run run = engine.start(quick, i).run;

    const std::string code = code_of([&] { run.cancel(); });
    const std::string result = code_of([&] { run.result<int>(); });

    if (code == "nothing") {
      CHECK(result == "RUN_CANCELLED");
      CHECK(run.status() == RunStatus::cancelled);
    } else {
      CHECK(code == "RUN_NOT_ACTIVE");
      CHECK(result == "nothing");
      CHECK(run.status() == RunStatus::completed);
    }
  }
}

TEST_CASE("timers fire, retries rest and time-outs strike by the real clock") {
  struct Shop {
    std::atomic<int> attempts = 0;
    std::latch stopped{1};

    Workflow<std::string> run() {
      const TimePoint begun = co_await now();
      co_await sleep(5ms);
      if (co_await now() < begun + 5ms) co_return "a sleep ended early";
      co_await step("flaky", {.retry = {.attempts = 3, .initial = 1ms}}, [this] {
        if (++attempts < 3) throw std::runtime_error("not yet");
      });
      const auto slow = co_await settled(
          step("slow", {.retry = {.attempts = 1}, .timeout = 5ms}, [this](const StepContext& step) {
            const std::stop_callback asked(step.stop, [this] { stopped.count_down(); });
            stopped.wait();
          }));
      co_return slow.ok() ? "no time-out" : "fine";
    }
  } shop;

  Engine engine{"memory:"};
  const auto workflow = engine.add("run", &Shop::run, &shop);
  engine.start_workers();

  CHECK(engine.start(workflow).run.result<std::string>() == "fine");
  CHECK(shop.attempts == 3);
}

TEST_CASE("workflows can be added and started from many threads while others run") {
  Engine engine{"memory:"};
  engine.start_workers();
  std::atomic<int> right = 0;

  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        const auto workflow = engine.add("quick-" + std::to_string(i), quick);
        Client& client = engine.workspace("w" + std::to_string(i % 3));
        const Run run = client.start({.key = std::to_string(i)}, workflow, i).run;
        if (run.result<int>() == i + 1) ++right;
        right += client.runs({.key = std::to_string(i)}).size() == 1 ? 1 : 0;
      });
    }
  }

  CHECK(right == 16);
}

TEST_CASE("all with a failure: results that come too late do no harm") {
  struct Shop {
    Workflow<> run() {
      std::vector<Op<void>> steps;
      for (int i = 0; i < 8; ++i) {
        steps.push_back(step("some fail", {.retry = {.attempts = 1}}, [i] {
          if (i % 2 == 1) throw std::runtime_error("odd");
        }));
      }
      co_await all(std::move(steps));
    }
  } shop;

  Engine engine{"memory:"};
  const auto workflow = engine.add("run", &Shop::run, &shop);
  engine.start_workers();
  std::vector<Run> runs;
  for (int i = 0; i < 100; ++i) runs.push_back(engine.start(workflow).run);

  for (const Run& run : runs) CHECK(code_of([&] { run.result<void>(); }) == "RUN_FAILED");
}

TEST_CASE("a long journal is read whole") {
  struct Shop {
    Workflow<> run(int steps) {
      for (int i = 0; i < steps; ++i) {
        co_await step("task", []() -> Task<void> { co_return; });
        co_await emit("progress", i);
      }
    }
  } shop;

  Engine engine{"memory:"};
  const auto workflow = engine.add("run", &Shop::run, &shop);
  engine.start_workers();
  const Run run = engine.start(workflow, 2500).run;

  run.result<void>();

  const std::vector<Entry> journal = run.journal();
  REQUIRE(journal.size() == 2501);
  CHECK(journal.back().seq == 2500);
  CHECK(run.stream<int>("progress").size() == 2500);
  CHECK(run.stream<int>("progress", 2499) == std::vector{2499});
}

TEST_CASE("workflow code that holds the loop up is told of while it does") {
  Clog clog;
  EngineOptions options;
  std::atomic<int> told = 0;
  options.log = [&](const LogEvent& event) {
    if (event.name == "loop.held_up" && told++ == 0) clog.may_end.count_down();
  };
  Engine engine{"memory:", std::move(options)};
  const auto clogged = engine.add("clog", &Clog::run, &clog);
  engine.start_workers();

  engine.start(clogged).run.result<void>();

  CHECK(told > 0);
}

}  // namespace semel
