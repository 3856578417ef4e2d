// Steps that take their time: time-outs, late bodies, heartbeats, being asked to stop.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

/// A Task step that waits at a gate; each attempt gives its own number.
struct Slow {
  StepOptions options{};
  Gate gate;
  std::vector<StepContext> contexts;

  Workflow<int> run() {
    co_return co_await step("slow", options, [this](StepContext step) -> Task<int> {
      contexts.push_back(step);
      co_await gate;
      co_return step.attempt;
    });
  }
};

struct SlowRun {
  explicit SlowRun(StepOptions options) : slow{.options = options} {}

  ~SlowRun() { slow.gate.open(); }

  Slow slow;
  testing::FreshEngine engine;
  Run run = engine.start(engine.add("slow", &Slow::run, &slow)).run;
};

StepOptions timing_out(Millis timeout, int attempts) {
  return {.retry = {.attempts = attempts, .initial = 1s, .jitter = false}, .timeout = timeout};
}

}  // namespace

TEST_CASE("an attempt that takes too long is asked to stop and fails") {
  SlowRun test{timing_out(10s, 1)};
  test.engine.run_until_idle();
  REQUIRE(test.slow.contexts.size() == 1);
  CHECK_FALSE(test.slow.contexts[0].stop.stop_requested());

  test.engine.advance(9999ms);
  CHECK(test.run.status() == RunStatus::running);
  test.engine.advance(1ms);

  CHECK(test.slow.contexts[0].stop.stop_requested());
  CHECK(test.run.status() == RunStatus::failed);
  CHECK(contains(test.run.error(), "timed out"));
}

TEST_CASE("an attempt is told when it times out") {
  SlowRun limited{timing_out(10s, 1)};
  SlowRun unlimited{StepOptions{}};
  const TimePoint begun = limited.engine.now();

  limited.engine.run_until_idle();
  unlimited.engine.run_until_idle();

  CHECK(limited.slow.contexts.at(0).deadline == begun + 10s);
  CHECK(unlimited.slow.contexts.at(0).deadline == TimePoint::max());
}

TEST_CASE("the next attempt does not begin before the body that timed out has returned") {
  SlowRun test{timing_out(10s, 2)};
  test.engine.run_until_idle();

  test.engine.advance(1h);
  CHECK(test.slow.contexts.size() == 1);

  test.slow.gate.open();
  test.engine.run_until_idle();
  CHECK(test.slow.contexts.size() == 2);
  CHECK(test.slow.contexts.at(1).attempt == 2);

  test.slow.gate.open();
  CHECK(test.run.result<int>() == 2);
}

TEST_CASE("what a body gives after its time-out is dropped") {
  SlowRun test{timing_out(10s, 2)};
  test.engine.run_until_idle();
  test.engine.advance(10500ms);

  test.slow.gate.open();
  test.engine.run_until_idle();

  CHECK(test.run.status() == RunStatus::waiting);
  CHECK(kinds(test.run) == Strings{"started", "attempt_failed"});
  test.engine.advance(500ms);
  test.slow.gate.open();
  CHECK(test.run.result<int>() == 2);
}

TEST_CASE("the time of an attempt that had to wait begins when it begins") {
  SlowRun test{timing_out(10s, 2)};
  test.engine.run_until_idle();
  test.engine.advance(1h);
  test.slow.gate.open();
  test.engine.run_until_idle();

  test.engine.advance(9s);

  CHECK(test.slow.contexts.at(1).deadline == test.engine.now() + 1s);
  CHECK(test.run.status() == RunStatus::running);
}

TEST_CASE(
    "after the last attempt timed out the workflow goes on at once, the body may take its time") {
  struct Shop {
    Gate gate;
    bool went_on = false;

    Workflow<> run() {
      const auto slow = co_await settled(
          step("slow", timing_out(10s, 1), [this]() -> Task<void> { co_await gate; }));
      went_on = !slow.ok();
      co_await sleep(1h);
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();

  engine.advance(10s);
  CHECK(shop.went_on);
  CHECK(shop.gate.waiting() == 1);

  shop.gate.open();
  engine.advance(1h);
  CHECK(run.status() == RunStatus::completed);
}

TEST_CASE("a heartbeat starts the time-out anew") {
  SlowRun test{timing_out(10s, 1)};
  test.engine.run_until_idle();

  for (int i = 0; i < 5; ++i) {
    test.engine.advance(9s);
    test.slow.contexts[0].heartbeat();
  }
  CHECK_FALSE(test.slow.contexts[0].stop.stop_requested());
  test.slow.gate.open();

  CHECK(test.run.result<int>() == 1);
}

TEST_CASE("an attempt whose heart stops beating times out") {
  SlowRun test{timing_out(10s, 1)};
  test.engine.run_until_idle();
  test.engine.advance(9s);
  test.slow.contexts[0].heartbeat();

  test.engine.advance(9999ms);
  CHECK(test.run.status() == RunStatus::running);
  test.engine.advance(1ms);

  CHECK(test.run.status() == RunStatus::failed);
}

TEST_CASE("a heartbeat that comes after the time-out revives nothing") {
  SlowRun test{timing_out(10s, 1)};
  test.engine.run_until_idle();
  test.engine.advance(10s);

  test.slow.contexts[0].heartbeat({{"done", 7}});
  test.engine.run_until_idle();

  CHECK(test.run.status() == RunStatus::failed);
}

TEST_CASE("the next attempt is handed the progress of the one before") {
  struct Shop {
    std::vector<Json> seen;

    Workflow<> run() {
      co_await step("count", [this](const StepContext& step) {
        seen.push_back(step.progress);
        const std::int64_t done = step.progress.is_null() ? 0 : step.progress.as_int64();
        step.heartbeat(done + 5);
        step.heartbeat(done + 10);
        step.heartbeat();
        if (seen.size() < 3) throw std::runtime_error("broken off");
      });
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
  CHECK(shop.seen == std::vector<Json>{nullptr, 10, 20});
}

TEST_CASE("progress survives a crash and an eviction") {
  struct Shop {
    testing::Engine* engine = nullptr;
    std::vector<Json> seen;

    Workflow<> run() {
      co_await step("count", {.retry = {.initial = 1h, .jitter = false}},
                    [this](const StepContext& step) {
                      seen.push_back(step.progress);
                      if (seen.size() == 1) {
                        step.heartbeat({{"rows", 3}});
                        throw std::runtime_error("broken off");
                      }
                    });
    }
  };

  for (const bool crashes : {true, false}) {
    CAPTURE(crashes);
    Shop shop;
    testing::FreshEngine engine{{.frame_bytes_max = 1}};
    const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
    engine.run_until_idle();

    if (crashes) engine.crash();
    engine.advance(1h);

    CHECK(run.status() == RunStatus::completed);
    CHECK(shop.seen == std::vector<Json>{nullptr, Json{{"rows", 3}}});
  }
}

TEST_CASE("progress belongs to its step alone") {
  struct Shop {
    Json seen = "unset";

    Workflow<> run() {
      co_await step("one", [](const StepContext& step) { step.heartbeat(1); });
      co_await step("two", [this](const StepContext& step) { seen = step.progress; });
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();

  CHECK(run.status() == RunStatus::completed);
  CHECK(shop.seen.is_null());
}

TEST_CASE("a body whose run is cancelled is asked to stop and not waited for") {
  SlowRun test{StepOptions{}};
  test.engine.run_until_idle();

  test.run.cancel();

  CHECK(test.slow.contexts[0].stop.stop_requested());
  CHECK(test.run.status() == RunStatus::cancelled);
  test.slow.gate.open();
  test.engine.run_until_idle();
  CHECK(kinds(test.run) == Strings{"started", "cancelled"});
}

TEST_CASE("a body whose run misses its deadline is asked to stop") {
  Slow slow;
  testing::FreshEngine engine;
  const Run run = engine.start({.deadline = 1min}, engine.add("slow", &Slow::run, &slow)).run;
  engine.run_until_idle();

  engine.advance(1min);

  CHECK(slow.contexts[0].stop.stop_requested());
  CHECK(run.status() == RunStatus::failed);
  slow.gate.open();
}

TEST_CASE("a step is told its run and its own id") {
  SlowRun test{StepOptions{}};

  test.engine.run_until_idle();

  CHECK(test.slow.contexts[0].run_id == test.run.id());
  CHECK_FALSE(test.slow.contexts[0].id.empty());
  CHECK(test.slow.contexts[0].attempt == 1);
}

}  // namespace semel
