// `run_idempotently` on an engine's store: in a file, in memory, inside steps.
#include "idempotency/kernel.hpp"
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

#include <semel/idempotency.hpp>

#include <atomic>
#include <barrier>
#include <future>
#include <thread>

namespace semel {
namespace {

using namespace test;

const IdempotencyOptions charge{.ns = "orders", .key = "k", .fingerprint = "7"};

store::ReservationId id_of(const IdempotencyOptions& options) {
  return {.ns = options.ns, .key = options.key};
}

TEST_CASE("what was done under a key is known after the process ended") {
  const TemporaryDirectory directory;
  int runs = 0;
  const auto ask = [&] {
    Engine engine{directory.url()};
    return run_idempotently(engine.idempotency(), charge, [&] { return ++runs; });
  };

  CHECK(ask() == 1);
  CHECK(ask() == 1);

  Engine engine{directory.url()};
  IdempotencyOptions other = charge;
  other.fingerprint = "8";
  CHECK_THROWS_AS(run_idempotently(engine.idempotency(), other, [&] { return ++runs; }),
                  IdempotencyConflictError);
  CHECK(runs == 1);
}

TEST_CASE("16 threads ask an engine for one key: one execution, round after round") {
  const TemporaryDirectory directory;
  Engine engine{directory.url()};
  constexpr int rounds = 30;
  constexpr int threads = 16;
  std::atomic<int> runs{0};
  std::atomic<int> answered{0};
  std::barrier together{threads};
  {
    std::vector<std::jthread> all;
    all.reserve(threads);
    for (int thread = 0; thread < threads; ++thread) {
      all.emplace_back([&] {
        for (int round = 0; round < rounds; ++round) {
          together.arrive_and_wait();
          try {
            const int result =
                run_idempotently(engine.idempotency(), {.ns = "n", .key = std::to_string(round)},
                                 [&] { return ++runs; });
            CHECK(result == round + 1);
          } catch (const IdempotencyInProgressError&) {
          }
          ++answered;
          together.arrive_and_wait();
        }
      });
    }
  }

  CHECK(answered == rounds * threads);
  CHECK(runs == rounds);
  for (int round = 0; round < rounds; ++round) {
    CHECK(run_idempotently(engine.idempotency(), {.ns = "n", .key = std::to_string(round)},
                           [] { return 0; }) == round + 1);
  }
}

TEST_CASE("a duplicate waits for the first without a thread of its own") {
  Engine engine{"memory:"};
  idempotency::Kernel& kernel = engine.idempotency().kernel();
  const store::Reserve ask{.id = id_of(charge), .fingerprint = "7"};
  const auto first = std::get<store::Acquired>(kernel.reserve(ask).value());
  constexpr int duplicates = 500;
  std::atomic<int> heard{0};
  std::promise<void> all_heard;
  for (int i = 0; i < duplicates; ++i) {
    kernel.reserve(ask, {.wait = 1h}, [&](const base::Result<idempotency::Found>& found) {
      const auto& answer = std::get<idempotency::FinishedAnswer>(found.value());
      if (*answer.bytes == "paid" && ++heard == duplicates) all_heard.set_value();
    });
  }

  kernel.call(store::Complete{.id = ask.id, .fence = first.fence, .answer = "paid"}).value();

  all_heard.get_future().wait();
  CHECK(kernel.counters().hits == duplicates);
  CHECK(kernel.counters().misses == 1);
}

TEST_CASE("results expire by the engine's clock, to the millisecond") {
  testing::FreshEngine engine;
  int runs = 0;
  IdempotencyOptions options = charge;
  options.ttl = 1h;
  const auto ask = [&] {
    return run_idempotently(engine.idempotency(), options, [&] { return ++runs; });
  };

  CHECK(ask() == 1);
  engine.advance(1h - 1ms);
  CHECK(ask() == 1);
  CHECK(ask() == 1);
  engine.advance(1ms);
  CHECK(ask() == 2);
}

TEST_CASE("a lease that ended by the engine's clock is taken over, and its owner fenced") {
  testing::FreshEngine engine;
  const std::string paused = code_of([&] {
    run_idempotently(engine.idempotency(), charge, [&] {
      engine.advance(30s);
      CHECK(run_idempotently(engine.idempotency(), charge, [] { return 2; }) == 2);
      return 1;
    });
  });

  CHECK(paused == "FENCE_LOST");
  CHECK(run_idempotently(engine.idempotency(), charge, [] { return 3; }) == 2);
}

TEST_CASE("a forgotten key is as if never used") {
  testing::FreshEngine engine;
  CHECK(run_idempotently(engine.idempotency(), charge, [] { return 1; }) == 1);
  CHECK(run_idempotently(engine.idempotency(), charge, [] { return 2; }) == 1);

  engine.idempotency().kernel().call(store::Forget{.id = id_of(charge)}).value();

  CHECK(run_idempotently(engine.idempotency(), charge, [] { return 3; }) == 3);
}

TEST_CASE("a workflow's own code must not reserve") {
  testing::FreshEngine engine;

  struct Shop {
    testing::Engine* engine = nullptr;

    Workflow<std::string> run() {
      co_return code_of(
          [this] { run_idempotently(engine->idempotency(), charge, [] { return 1; }); });
    }
  } shop{&engine};

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(run.result<std::string>() == "CALL_INSIDE_WORKFLOW");
}

TEST_CASE("a step's function runs once however often the step does") {
  testing::FreshEngine engine;

  struct Shop {
    testing::Engine* engine = nullptr;
    int attempts = 0;
    int charges = 0;

    Workflow<int> run() {
      co_return co_await step("charge", [this] {
        ++attempts;
        const int charged =
            run_idempotently(engine->idempotency(), charge, [this] { return ++charges; });
        if (attempts < 3) throw std::runtime_error("after the charge");
        return charged;
      });
    }
  } shop{&engine};

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.advance(1min);

  CHECK(run.result<int>() == 1);
  CHECK(shop.attempts == 3);
  CHECK(shop.charges == 1);
}

/// A run whose step is inside its idempotent function when the process is killed.
struct Interrupted {
  testing::Engine* engine = nullptr;
  Gate gate{};
  std::vector<int> attempts{};
  Strings ends{};

  Task<int> pay() {
    attempts.push_back(static_cast<int>(attempts.size()) + 1);
    const int mine = attempts.back();
    if (mine == 1) co_await gate;
    co_return mine;
  }

  Task<int> charge_once(bool names_itself, std::string id) {
    IdempotencyOptions options = charge;
    if (names_itself) options.owner = std::move(id);
    int paid = 0;
    std::string end = "done";
    try {
      paid =
          co_await run_idempotently_async(engine->idempotency(), options, [this] { return pay(); });
    } catch (const Error& error) {
      end = error.code();
    }
    ends.push_back(end);
    if (end != "done") throw RetryableError(end);
    co_return paid;
  }

  Workflow<int> run(bool names_itself) {
    co_return co_await step("charge", [this, names_itself](const StepContext& step) {
      return charge_once(names_itself, step.id);
    });
  }
};

TEST_CASE("a step that is recovered does not see its own reservation as a duplicate") {
  for (const bool names_itself : {false, true}) {
    CAPTURE(names_itself);
    testing::FreshEngine engine;
    Interrupted shop{&engine};
    const Run run = engine.start(engine.add("run", &Interrupted::run, &shop), names_itself).run;
    engine.run_until_idle();
    REQUIRE(shop.gate.waiting() == 1);

    engine.crash();
    engine.run_until_idle();

    // Long before the lease would have ended.
    CHECK(run.result<int>() == 2);
    CHECK(shop.attempts == std::vector<int>{1, 2});
    // The body of the killed process comes to life again: its fence is lost.
    shop.gate.open();
    engine.run_until_idle();
    CHECK(shop.ends == Strings{"done", "FENCE_LOST"});
    CHECK(run_idempotently(engine.idempotency(), charge, [] { return 0; }) == 2);
  }
}

TEST_CASE("somebody else's unfinished work is a duplicate, also after a crash") {
  testing::FreshEngine engine;
  Interrupted shop{&engine};
  const Run run = engine.start(engine.add("run", &Interrupted::run, &shop), false).run;
  engine.run_until_idle();
  engine.crash();

  CHECK(code_of([&] { run_idempotently(engine.idempotency(), charge, [] { return 9; }); }) ==
        "IDEMPOTENCY_IN_PROGRESS");

  engine.run_until_idle();
  CHECK(run.result<int>() == 2);
  shop.gate.open();
  engine.run_until_idle();
}

TEST_CASE("a step that returns a Task runs its function once, on a real engine") {
  const TemporaryDirectory directory;
  Engine engine{directory.url()};

  struct Shop {
    Engine* engine = nullptr;
    std::atomic<int> charges{0};

    Task<int> charge_once() {
      co_return co_await run_idempotently_async(engine->idempotency(), charge,
                                                [this] { return ++charges; });
    }

    Workflow<int> run() {
      co_return co_await step("charge", [this] { return charge_once(); });
    }
  } shop{&engine};

  const auto run = engine.add("run", &Shop::run, &shop);
  engine.start_workers();

  CHECK(engine.start(run).run.result<int>() == 1);
  CHECK(engine.start(run).run.result<int>() == 1);
  CHECK(shop.charges == 1);
}

TEST_CASE("an engine that has stopped says so") {
  Engine engine{"memory:"};
  engine.stop();
  CHECK(code_of([&] { run_idempotently(engine.idempotency(), charge, [] { return 1; }); }) ==
        "ENGINE_STOPPED");
  std::promise<bool> answered;
  engine.idempotency().kernel().reserve(store::Reserve{.id = id_of(charge)}, {},
                                        [&](const base::Result<idempotency::Found>& found) {
                                          answered.set_value(found.has_value());
                                        });
  CHECK_FALSE(answered.get_future().get());
}

TEST_CASE("what a function threw goes on, also where its key cannot be freed") {
  Engine engine{"memory:"};
  const auto stop_and_throw = [&]() -> int {
    engine.stop();
    throw std::runtime_error("no luck");
  };
  CHECK_THROWS_WITH(run_idempotently(engine.idempotency(), charge, stop_and_throw), "no luck");
}

TEST_CASE("reservations are accepted before anything runs") {
  Engine engine{"memory:"};
  CHECK(run_idempotently(engine.idempotency(), charge, [] { return 1; }) == 1);
  engine.start_workers();
  CHECK(run_idempotently(engine.idempotency(), charge, [] { return 2; }) == 1);
}

}  // namespace
}  // namespace semel
