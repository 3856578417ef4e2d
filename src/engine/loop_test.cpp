// The loop on its own: what leaves it before and after a commit, and what it does with inputs that meet on the way.
#include "tests/support/loop_world.hpp"

namespace semel::engine {

namespace {

using namespace std::chrono_literals;

Workflow<int> ten_steps() {
  int sum = 0;
  for (int i = 0; i < 10; ++i) sum += co_await step("step", [] { return 1; });
  co_return sum;
}

Workflow<int> one_step() {
  co_return co_await step("step", [] { return 7; });
}

Workflow<int> hasty() {
  co_return co_await step("hasty", {.retry = {.attempts = 1}, .timeout = 1h}, [] { return 7; });
}

Workflow<> sleeper() { co_await sleep(1h); }

Workflow<int> adder() {
  auto numbers = hook<int>("numbers");
  int sum = 0;
  for (int i = 0; i < 2; ++i) sum += co_await numbers;
  co_return sum;
}

Workflow<> parent() {
  co_await sleep(1h);
  co_await child(sleeper);
}

}  // namespace

TEST_CASE("nothing is answered and no body begins before the commit") {
  World world;
  world.add("one", one_step);
  world.commit_all();

  world.start("one", "run");
  CHECK(world.answers.empty());
  CHECK(world.jobs.empty());
  world.commit();

  CHECK(world.answers == Strings{"ok"});
  CHECK(world.jobs.size() == 1);
}

TEST_CASE("a run of ten steps is eleven commits") {
  World world;
  world.add("ten", ten_steps);
  world.commit_all();
  world.commits = 0;

  world.start("ten", "run");
  world.run_all();

  CHECK(world.status("run") == store::Status::completed);
  CHECK(world.commits == 11);
  CHECK(world.run("run").entries.size() == 11);
}

TEST_CASE("the next batch may be executed while the answers of the last are taken up") {
  World world;
  world.add("one", one_step);
  world.commit_all();
  for (const char* id : {"a", "b", "c"}) world.start("one", id);

  ExecutedBatch starts = world.execute();
  CHECK_FALSE(world.loop().committed(starts, world.now, 1));
  CHECK(world.answers == Strings{"ok"});
  world.finish(world.take_job());
  ExecutedBatch first_end = world.execute();
  CHECK(world.jobs.empty());

  SUBCASE("it is there") {
    CHECK(world.loop().committed(starts, world.now));
    CHECK(world.loop().committed(first_end, world.now));
  }
  SUBCASE("its answer is lost") {
    CHECK(world.loop().committed(starts, world.now));
    world.jobs.clear();
    first_end.answers = base::Fault{base::Errc::unavailable, "connection lost"};
    CHECK(world.loop().committed(first_end, world.now));
    world.boot();
  }
  world.run_all();
  for (const char* id : {"a", "b", "c"}) CHECK(world.status(id) == store::Status::completed);
}

TEST_CASE("a sweep takes more rows than were written since the last one") {
  World world;
  world.add("sleeper", sleeper);
  world.commit_all();
  const auto rows_of_next_sweep = [&] {
    world.now += 1min;
    world.loop().tick(world.now);
    std::int64_t rows = 0;
    for (const store::Command& command : world.loop().batch().commands) {
      if (const auto* sweep = std::get_if<store::Sweep>(&command)) rows = sweep->limit;
    }
    world.commit_all();
    return rows;
  };

  const std::int64_t idle = rows_of_next_sweep();
  for (int i = 0; i < 900; ++i) world.start("sleeper", "run " + std::to_string(i));
  world.commit_all();
  const std::int64_t busy = rows_of_next_sweep();

  CHECK(idle == 1000);
  CHECK(busy >= 1800);
  CHECK(busy <= 5000);
}

TEST_CASE("whoever gave up waiting for a run is forgotten when the next one asks") {
  World world;
  world.add("sleeper", sleeper);
  world.commit_all();
  world.start("sleeper", "run");
  world.commit_all();

  world.watch("run");
  for (int i = 0; i < 100; ++i) {
    const auto caller = std::make_shared<int>();
    world.watch("run", caller);
    world.commit_all();
  }

  CHECK(world.loop().watchers() == 2);
}

TEST_CASE("many runs share their commits") {
  World world;
  world.add("one", one_step);
  world.commit_all();
  world.commits = 0;

  for (int i = 0; i < 100; ++i) world.start("one", "run-" + std::to_string(i));
  world.commit_all();
  while (!world.jobs.empty()) world.finish(world.take_job());
  world.commit_all();

  CHECK(world.commits == 2);
  CHECK(world.status("run-99") == store::Status::completed);
}

TEST_CASE("deadlines of steps that have ended are not kept, those of others hold") {
  World world;
  world.add("hasty", hasty);
  world.start("hasty", "slow");
  world.commit_all();
  const StepJob slow = world.take_job();

  for (int i = 0; i < 1000; ++i) {
    world.start("hasty", "run-" + std::to_string(i));
    world.commit_all();
    world.finish(world.take_job());
    world.commit_all();
  }
  CHECK(world.loop().deadlines() < 200);
  world.now += 1h;
  for (int i = 0; i < 3; ++i) world.tick();

  CHECK(world.status("run-999") == store::Status::completed);
  CHECK(slow.stop.stop_requested());
  CHECK(world.status("slow") == store::Status::failed);
}

TEST_CASE("a result that is reported twice counts once") {
  World world;
  world.add("ten", ten_steps);
  world.start("ten", "run");
  world.commit_all();
  const StepJob job = world.take_job();

  world.finish(job);
  world.finish(job);
  world.commit_all();
  world.finish(job);
  world.run_all();

  CHECK(world.run("run").entries.size() == 11);
  CHECK(world.run("run").output == "10");
  CHECK(world.loop().counters().late_results == 2);
}

TEST_CASE("wake-ups that come early, twice or for nothing do no harm") {
  World world;
  world.add("sleeper", sleeper);
  world.start("sleeper", "run");
  world.commit_all();
  REQUIRE(world.loop().next_tick().has_value());

  for (int i = 0; i < 3; ++i) world.tick();
  CHECK(world.kinds("run") == Strings{"started"});
  world.now += 1h - 1ns;
  world.tick();
  CHECK(world.kinds("run") == Strings{"started"});
  world.now += 1ns;
  for (int i = 0; i < 3; ++i) world.tick();

  CHECK(world.kinds("run") == Strings{"started", "timer_fired"});
}

TEST_CASE("a cancel that meets a recovery ends the run, and nobody waits for it") {
  World world;
  world.add("one", one_step);
  world.start("one", "run");
  world.commit_all();
  world.boot();
  world.commit();  // opens
  world.commit();  // finds the run
  world.wake("run");
  world.cancel("run");
  world.commit();  // reads it, and cancels it
  world.commit_all();

  CHECK(world.status("run") == store::Status::cancelled);
  CHECK(world.jobs.empty());
  CHECK(world.answers.size() == 3);
  world.loop().begin_stop();
  CHECK(world.loop().is_drained());
}

TEST_CASE("a wake that meets a cancel is answered") {
  World world;
  world.add("sleeper", sleeper);
  world.add("parent", parent);
  world.start("parent", "run");
  world.commit_all();
  world.now += 1h;
  world.loop().tick(world.now);
  world.commit();  // the timer fires: the run asks for its child and waits for the store's word

  world.wake("run");
  world.cancel("run");
  world.commit_all();

  CHECK(world.status("run") == store::Status::cancelled);
  CHECK(world.answers.size() == 3);
}

/// Run "run" awaits the first of two numbers; nothing was answered yet.
struct WaitingAdder : World {
  WaitingAdder() {
    add("adder", adder);
    commit_all();
    start("adder", "run");
    commit_all();
    answers.clear();
    commits = 0;
  }
};

TEST_CASE("a payload that is awaited is taken in and read in one commit") {
  WaitingAdder world;

  world.resume("numbers", "3");
  CHECK(world.answers.empty());
  world.commit_all();
  world.resume("numbers", "4");
  world.commit_all();

  CHECK(world.answers == Strings{"ok", "ok"});
  CHECK(world.commits == 2);
  CHECK(world.status("run") == store::Status::completed);
  CHECK(world.run("run").output == "7");
}

TEST_CASE("two payloads at once are read in order") {
  WaitingAdder world;

  world.resume("numbers", "3");
  world.resume("numbers", "4");
  world.commit_all();

  CHECK(world.answers == Strings{"ok", "ok"});
  CHECK(world.run("run").output == "7");
}

TEST_CASE("a run that went ahead with a payload is read anew where a cancel came first") {
  WaitingAdder world;

  world.cancel("run");
  world.resume("numbers", "3");
  world.commit_all();

  CHECK(world.answers == Strings{"ok", "HOOK_NOT_FOUND"});
  CHECK(world.status("run") == store::Status::cancelled);
  CHECK(world.loop().live_runs() == 0);
}

TEST_CASE("a run does not go ahead twice with a resume that is repeated") {
  WaitingAdder world;

  world.resume("numbers", "3", "once");
  world.commit_all();
  world.resume("numbers", "3", "once");
  world.commit_all();
  CHECK(world.status("run") == store::Status::waiting);
  world.resume("numbers", "4", "twice");
  world.commit_all();

  CHECK(world.answers == Strings{"ok", "ok", "ok"});
  CHECK(world.run("run").output == "7");
}

TEST_CASE("a payload whose commit is lost was read, or was never there") {
  for (const bool happens : {false, true}) {
    WaitingAdder world;

    world.resume("numbers", "3");
    world.lose_commit(happens);
    CHECK(world.answers == Strings{"STORE_UNAVAILABLE"});
    world.loop().open(world.now);
    world.commit_all();
    world.resume("numbers", happens ? "4" : "3");
    if (!happens) world.resume("numbers", "4");
    world.commit_all();

    CHECK(world.run("run").output == "7");
  }
}

TEST_CASE("frames over the budget are let go of, and are back when something arrives") {
  World world{{.frame_bytes_max = 1}};
  world.add("sleeper", sleeper);
  for (int i = 0; i < 10; ++i) world.start("sleeper", "run-" + std::to_string(i));
  world.commit_all();
  CHECK(world.loop().live_runs() == 0);
  CHECK(world.loop().frame_bytes() == 0);
  CHECK(world.loop().counters().evictions == 10);

  world.now += 1h;
  world.tick();

  CHECK(world.loop().counters().replays == 10);
  CHECK(world.status("run-9") == store::Status::completed);
}

TEST_CASE("of those that started with the budget exceeded the longest resting go first") {
  World world;
  world.add("sleeper", sleeper);
  world.start("sleeper", "run");
  world.commit_all();
  const std::size_t one = world.loop().frame_bytes();
  World small{{.frame_bytes_max = one * 5}};
  small.add("sleeper", sleeper);

  for (int i = 0; i < 8; ++i) small.start("sleeper", "run-" + std::to_string(i));
  small.commit_all();

  CHECK(small.loop().live_runs() == 5);
  CHECK(small.loop().frame_bytes() <= one * 5);
}

TEST_CASE("a start that finds its key taken leaves nothing behind") {
  World world;
  world.add("sleeper", sleeper);
  world.start("sleeper", "run");
  world.commit_all();

  for (int i = 0; i < 5; ++i) world.start("sleeper", "run");
  world.commit_all();

  CHECK(world.answers == Strings(6, "ok"));
  CHECK(world.loop().live_runs() == 1);
  CHECK(world.model->runs.size() == 1);
  CHECK(world.model->timers.size() == 1);
}

TEST_CASE("watchers of a run are told its end once") {
  World world;
  world.add("sleeper", sleeper);
  world.start("sleeper", "run");
  world.commit_all();
  world.watch("run");
  world.watch("run");
  world.watch("nobody");
  world.commit_all();
  CHECK(world.answers == Strings{"ok", "RUN_NOT_FOUND"});

  world.now += 1h;
  world.tick();
  world.watch("run");
  world.commit_all();

  CHECK(world.answers == Strings{"ok", "RUN_NOT_FOUND", "ok", "ok", "ok"});
}

TEST_CASE("watchers are told when the loop is done for") {
  World world;
  world.add("sleeper", sleeper);
  world.commit_all();
  world.start("sleeper", "run");
  world.watch("run");
  world.commit_all();

  world.loop().dismiss_watchers();

  CHECK(world.answers.back() == "ENGINE_STOPPED");
}

}  // namespace semel::engine
