// The loop when something is lost: the process, the store, the answer of a commit.
#include "tests/support/loop_world.hpp"

namespace semel::engine {

namespace {

Workflow<int> ten_steps() {
  int sum = 0;
  for (int i = 0; i < 10; ++i) sum += co_await step("step", [] { return 1; });
  co_return sum;
}

Workflow<int> one_step() {
  co_return co_await step("step", [] { return 7; });
}

Workflow<int> first_then_second() {
  co_await step("first", [] { return 1; });
  co_return co_await step("second", [] { return 2; });
}

/// Of its branches one is held up by a step that has little time, the other goes on.
Workflow<int> slow_beside_quick() {
  const auto [slow, quick] = co_await all(
      step("slow", {.timeout = std::chrono::seconds{1}}, [] { return 1; }), first_then_second());
  co_return slow + quick;
}

Workflow<> sleeper() { co_await sleep(std::chrono::hours{1}); }

Workflow<> steps_and_sleep() {
  co_await all(step("a", [] {}), step("b", [] {}));
  co_await sleep(std::chrono::hours{1});
}

}  // namespace

TEST_CASE(
    "a commit of which nobody knows whether it happened: callers are told, nothing is done twice") {
  for (const bool happens : {true, false}) {
    CAPTURE(happens);
    World world;
    world.add("one", one_step);
    world.commit_all();
    world.start("one", "run");

    world.lose_commit(happens);
    CHECK(world.answers == Strings{"STORE_UNAVAILABLE"});
    CHECK(world.loop().is_store_lost());
    CHECK(world.jobs.empty());
    world.loop().open(world.now);
    world.commit_all();
    world.start("one", "run");
    world.run_all();

    CHECK(world.answers == Strings{"STORE_UNAVAILABLE", "ok"});
    CHECK(world.model->runs.size() == 1);
    CHECK(world.run("run").output == "7");
  }
}

TEST_CASE(
    "a body that was in flight when the store was lost is not run again: its result is kept") {
  World world;
  world.add("one", one_step);
  world.start("one", "run");
  world.start("one", "other");
  world.commit_all();
  const StepJob first = world.take_job();
  const StepJob second = world.take_job();

  world.wake("run");
  world.lose_commit(true);
  world.finish(first);  // before the store is back
  world.loop().open(world.now);
  world.commit_all();
  world.finish(second);  // after
  world.commit_all();

  CHECK(world.jobs.empty());
  CHECK(world.run("run").output == "7");
  CHECK(world.run("other").output == "7");
  CHECK(world.kinds("run") == Strings{"started", "step_completed"});
}

TEST_CASE(
    "a body that runs out of time and comes back while its run is read anew is not run again") {
  World world;
  world.add("slow", slow_beside_quick);
  world.start("slow", "run");
  world.commit_all();
  const StepJob slow = world.take_job();
  world.finish(world.take_job());
  world.lose_commit(true);  // "second" was asked for, and nobody here knows
  world.loop().open(world.now);
  const auto is_recovered = [&] { return world.kinds("run").back() == "recovered"; };

  std::optional<ExecutedBatch> recovering;
  while (!is_recovered()) {
    if (recovering) world.loop().committed(*recovering, world.now);
    recovering = world.execute();
  }
  world.now += std::chrono::seconds{2};
  world.loop().tick(world.now);
  world.finish(slow);
  world.loop().committed(*recovering, world.now);
  world.commit_all();

  REQUIRE(world.jobs.size() == 1);
  CHECK(world.jobs.front().op != slow.op);
  CHECK(world.jobs.front().attempt == 2);
  CHECK(world.kinds("run") == Strings{"started", "step_completed", "recovered", "attempt_failed"});
}

TEST_CASE("while the store is lost every call is refused, and none is left without an answer") {
  World world;
  world.add("sleeper", sleeper);
  world.start("sleeper", "run");
  world.commit_all();
  world.watch("run");
  world.commit_all();
  world.wake("run");
  world.lose_commit(false);
  world.answers.clear();

  world.start("sleeper", "new");
  world.cancel("run");
  world.wake("run");
  world.retry("run");
  world.fork("run");
  world.watch("run");

  CHECK(world.answers == Strings(6, "STORE_UNAVAILABLE"));
}

TEST_CASE("an attempt lost to a crash is numbered anew before anything of the run executes") {
  World world;
  world.add("one", one_step);
  world.start("one", "run");
  world.commit_all();
  REQUIRE(world.jobs.size() == 1);

  world.boot();
  world.commit_all();

  REQUIRE(world.jobs.size() == 1);
  CHECK(world.jobs.front().attempt == 2);
  CHECK(world.kinds("run") == Strings{"started", "recovered"});
}

TEST_CASE("an orderly end leaves nothing to recover") {
  World world;
  world.add("steps", steps_and_sleep);
  world.start("steps", "run");
  world.commit_all();
  const StepJob a = world.take_job();
  const StepJob b = world.take_job();

  world.loop().begin_stop();
  CHECK_FALSE(world.loop().is_drained());
  world.finish(a);
  world.finish(b);
  CHECK_FALSE(world.loop().is_drained());
  world.commit_all();
  CHECK(world.loop().is_drained());
  world.loop().close();
  world.commit_all();
  world.boot();
  world.commit_all();

  CHECK(world.jobs.empty());
  CHECK(world.kinds("run") == Strings{"started", "step_completed", "step_completed"});
}

TEST_CASE("no attempt begins once the loop is stopping") {
  World world;
  world.add("ten", ten_steps);
  world.start("ten", "run");
  world.commit_all();
  const StepJob job = world.take_job();

  world.loop().begin_stop();
  world.finish(job);
  world.commit_all();

  CHECK(world.jobs.empty());
  CHECK(world.kinds("run") == Strings{"started", "step_completed"});
}

}  // namespace semel::engine
