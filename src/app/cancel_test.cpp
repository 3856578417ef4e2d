// Cancelling: at once, or with time to clean up.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

Workflow<> waiting() { co_await sleep(24h); }

/// Notes what happens to it and cleans up for as long as it may.
struct Careful {
  Strings said;
  int cleanups = 3;
  bool throws = false;

  Op<void> say(const std::string& what) {
    return step("say", [this, what] { said.push_back(what); });
  }

  Workflow<std::string> run() {
    bool cancelled = false;
    try {
      co_await sleep(24h);
    } catch (const CancelledError& error) {
      cancelled = error.code() == "CANCELLED";
    }
    if (cancelled) co_await say("cancelled");
    for (int i = 0; i < cleanups; ++i) {
      co_await sleep(10s);
      co_await say("clean " + std::to_string(i));
    }
    if (throws) throw std::runtime_error("clean-up failed");
    co_return "done";
  }
};

struct CarefulRun {
  explicit CarefulRun(Careful with = {}, EngineOptions options = {})
      : careful(std::move(with)), engine(options) {
    run.emplace(engine.start(engine.add("careful", &Careful::run, &careful)).run);
    engine.run_until_idle();
  }

  Careful careful;
  testing::FreshEngine engine;
  std::optional<Run> run;
};

}  // namespace

TEST_CASE("a run is cancelled when the call returns, and stays so") {
  testing::FreshEngine engine;
  engine.add("waiting", waiting);
  Run run = engine.start(waiting).run;
  engine.run_until_idle();

  run.cancel();
  CHECK(run.status() == RunStatus::cancelled);
  const std::uint64_t version = run.version();
  engine.crash();
  engine.advance(48h);

  CHECK(run.status() == RunStatus::cancelled);
  CHECK(run.version() == version);
  CHECK(kinds(run).back() == "cancelled");
}

TEST_CASE("cancelling a cancelled run is fine; a finished one is not active") {
  struct Shop {
    Workflow<> fails() {
      throw std::runtime_error("no");
      co_return;
    }

    Workflow<> completes() { co_return; }
  } shop;

  testing::FreshEngine engine;
  engine.add("waiting", waiting);
  Run cancelled = engine.start(waiting).run;
  Run failed = engine.start(engine.add("fails", &Shop::fails, &shop)).run;
  Run completed = engine.start(engine.add("completes", &Shop::completes, &shop)).run;

  cancelled.cancel();
  cancelled.cancel();
  cancelled.cancel({.grace = 1h});

  CHECK(cancelled.status() == RunStatus::cancelled);
  CHECK(thrown<RunNotActiveError>([&] { failed.cancel(); }).code() == "RUN_NOT_ACTIVE");
  CHECK(code_of([&] { completed.cancel(); }) == "RUN_NOT_ACTIVE");
  CHECK(code_of([&] { completed.cancel({.grace = 1h}); }) == "RUN_NOT_ACTIVE");
  CHECK(completed.status() == RunStatus::completed);
}

TEST_CASE("a run is cancelled only at the version that was expected") {
  testing::FreshEngine engine;
  engine.add("waiting", waiting);
  Run run = engine.start(waiting).run;
  const std::uint64_t seen = run.version();

  CHECK(thrown<ConcurrencyError>([&] { run.cancel({.expected_version = seen + 1}); }).code() ==
        "CONCURRENCY_ERROR");
  CHECK(run.status() == RunStatus::waiting);
  run.cancel({.expected_version = seen});

  CHECK(run.status() == RunStatus::cancelled);
}

TEST_CASE("a cancelled run frees no more than it should: its key is still remembered") {
  testing::FreshEngine engine;
  engine.add("waiting", waiting);
  Run run = engine.start({.key = "k"}, waiting).run;

  run.cancel();

  CHECK_FALSE(engine.start({.key = "k"}, waiting).created);
  CHECK(engine.start({.key = "k", .after_done = AfterDone::start_new_if_failed}, waiting).created);
}

TEST_CASE("with grace, CancelledError is thrown out of the current await and what follows works") {
  CarefulRun test;

  test.run->cancel({.grace = 1h});
  CHECK(test.run->status() != RunStatus::cancelled);
  test.engine.advance(1min);

  CHECK(test.careful.said == Strings{"cancelled", "clean 0", "clean 1", "clean 2"});
  CHECK(test.run->status() == RunStatus::cancelled);
  CHECK(code_of([&] { test.run->result<std::string>(); }) == "RUN_CANCELLED");
}

TEST_CASE("a run that was told to stop ends cancelled whatever it returns or throws") {
  for (const bool throws : {false, true}) {
    CAPTURE(throws);
    CarefulRun test{{.cleanups = 0, .throws = throws}};

    test.run->cancel({.grace = 1h});
    test.engine.advance(1s);

    CHECK(test.run->status() == RunStatus::cancelled);
  }
}

TEST_CASE("CancelledError is thrown once, however often the run is cancelled") {
  CarefulRun test;
  test.run->cancel({.grace = 1h});
  test.engine.advance(15s);
  REQUIRE(test.careful.said == Strings{"cancelled", "clean 0"});

  test.run->cancel({.grace = 30min});
  test.engine.advance(1min);

  CHECK(test.careful.said == Strings{"cancelled", "clean 0", "clean 1", "clean 2"});
}

TEST_CASE("a run that rests outside of memory is told all the same") {
  CarefulRun test{{}, {.frame_bytes_max = 1}};

  test.run->cancel({.grace = 1h});
  test.engine.advance(1min);

  CHECK(test.careful.said == Strings{"cancelled", "clean 0", "clean 1", "clean 2"});
  CHECK(test.run->status() == RunStatus::cancelled);
}

TEST_CASE("whatever a run waits for, a cancel with grace gets through to it") {
  struct Shop {
    Workflow<> waits(int what) {
      const auto fails = [] { throw std::runtime_error("no"); };
      if (what == 0) co_await race(sleep(24h), sleep(48h));
      if (what == 1) co_await step("rests", {.retry = {.initial = 1h}}, fails);
      if (what == 2) co_await child(waiting);
      if (what == 3) co_await result_of<int>("other");
      if (what == 4) co_await all(sleep(24h), child(waiting));
      if (what == 5) co_await all_settled(sleep(24h), sleep(24h));
    }
  } shop;

  testing::FreshEngine engine;
  engine.add("waiting", waiting);
  engine.start({.run_id = "other"}, waiting);
  const auto workflow = engine.add("run", &Shop::waits, &shop);
  for (int what = 0; what < 6; ++what) {
    CAPTURE(what);
    Run run = engine.start(workflow, what).run;
    engine.run_until_idle();
    CHECK(run.status() == RunStatus::waiting);

    run.cancel({.grace = 1h});
    engine.run_until_idle();

    CHECK(run.status() == RunStatus::cancelled);
  }
  CHECK(engine.run("other").status() == RunStatus::waiting);
}

TEST_CASE("a clean-up goes on where it was after a crash") {
  CarefulRun test;
  test.run->cancel({.grace = 1h});
  test.engine.advance(15s);

  test.engine.crash();
  test.engine.advance(1min);

  CHECK(test.careful.said == Strings{"cancelled", "clean 0", "clean 1", "clean 2"});
  CHECK(test.run->status() == RunStatus::cancelled);
}

TEST_CASE("a cancel is not lost in a crash right behind it") {
  CarefulRun test;

  test.run->cancel({.grace = 1h});
  test.engine.crash();
  test.engine.advance(1min);

  CHECK(test.careful.said.front() == "cancelled");
  CHECK(test.run->status() == RunStatus::cancelled);
}

TEST_CASE("when the grace is over the run is cancelled as it is") {
  CarefulRun test{{.cleanups = 1000}};
  test.run->cancel({.grace = 25s});

  test.engine.advance(25s - 1ms);
  CHECK(test.run->status() != RunStatus::cancelled);
  test.engine.advance(1ms);

  CHECK(test.run->status() == RunStatus::cancelled);
  CHECK(test.careful.said == Strings{"cancelled", "clean 0", "clean 1"});
  test.engine.advance(1h);
  CHECK(test.careful.said.size() == 3);
}

TEST_CASE("a grace that ended while the process was down ends the run when it is back") {
  CarefulRun test{{.cleanups = 1000}};
  test.run->cancel({.grace = 25s});
  test.engine.advance(15s);

  test.engine.crash();
  test.engine.advance(10s);

  CHECK(test.run->status() == RunStatus::cancelled);
}

TEST_CASE("a second cancel can shorten the grace and never lengthens it") {
  struct Case {
    Millis second;
    Millis ends_after;
  };

  for (const Case& c : std::to_array<Case>({{1h, 1min}, {10s, 10s}, {0s, 0s}})) {
    CarefulRun test{{.cleanups = 1000}};
    test.run->cancel({.grace = 1min});
    test.run->cancel({.grace = c.second});

    if (c.ends_after > 0s) {
      test.engine.advance(c.ends_after - 1ms);
      CHECK(test.run->status() != RunStatus::cancelled);
    }
    test.engine.advance(1ms);

    CHECK(test.run->status() == RunStatus::cancelled);
  }
}

TEST_CASE("a second cancel without grace ends the run at once") {
  CarefulRun test;
  test.run->cancel({.grace = 1h});
  test.engine.advance(5s);

  test.run->cancel();

  CHECK(test.run->status() == RunStatus::cancelled);
  test.engine.advance(1min);
  CHECK(test.careful.said == Strings{"cancelled"});
}

TEST_CASE("grace reaches the awaited workflow and every branch's owner, not the branches") {
  struct Shop {
    Strings said;

    Workflow<> inner() {
      const auto slept = co_await settled(sleep(24h));
      if (slept.cancelled()) co_await step("say", [this] { said.push_back("inner"); });
    }

    Workflow<> inlined() { co_await inner(); }

    Workflow<> branches() {
      const auto both = co_await settled(all(inner(), inner()));
      if (both.cancelled()) co_await step("say", [this] { said.push_back("owner"); });
    }
  } shop;

  testing::FreshEngine engine;
  Run inlined = engine.start(engine.add("inlined", &Shop::inlined, &shop)).run;
  Run branches = engine.start(engine.add("branches", &Shop::branches, &shop)).run;
  engine.run_until_idle();

  inlined.cancel({.grace = 1h});
  branches.cancel({.grace = 1h});
  engine.run_until_idle();

  CHECK(shop.said == Strings{"inner", "owner"});
  CHECK(inlined.status() == RunStatus::cancelled);
  CHECK(branches.status() == RunStatus::cancelled);
}

TEST_CASE("with grace a step in flight is asked to stop and not waited for") {
  struct Shop {
    Gate gate;
    std::stop_token stop;
    bool told = false;

    Workflow<> run() {
      const auto outcome = co_await settled(step("slow", [this](StepContext step) -> Task<void> {
        stop = step.stop;
        co_await gate;
      }));
      told = outcome.cancelled();
      co_await sleep(10s);
    }
  } shop;

  testing::FreshEngine engine;
  Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();

  run.cancel({.grace = 1h});
  engine.run_until_idle();

  CHECK(shop.told);
  CHECK(shop.stop.stop_requested());
  shop.gate.open();
  engine.advance(10s);
  CHECK(run.status() == RunStatus::cancelled);
}

TEST_CASE("with grace children are told, too, and clean up themselves") {
  struct Shop {
    Careful careful;

    Workflow<> run() { co_await child({.run_id = "child"}, &Careful::run); }
  } shop;

  testing::FreshEngine engine;
  engine.add("careful", &Careful::run, &shop.careful);
  Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();

  run.cancel({.grace = 1h});
  engine.advance(1min);

  CHECK(run.status() == RunStatus::cancelled);
  CHECK(engine.run("child").status() == RunStatus::cancelled);
  CHECK(shop.careful.said.size() == 4);
}

TEST_CASE("a delayed run has nothing to clean up: with grace it is cancelled at once") {
  testing::FreshEngine engine;
  engine.add("waiting", waiting);
  Run run = engine.start({.delay = 1h}, waiting).run;

  run.cancel({.grace = 1h});

  CHECK(run.status() == RunStatus::cancelled);
}

TEST_CASE("a negative grace is refused") {
  testing::FreshEngine engine;
  engine.add("waiting", waiting);
  Run run = engine.start(waiting).run;

  CHECK(code_of([&] { run.cancel({.grace = -1ms}); }) == "VALIDATION_ERROR");
  CHECK(run.status() == RunStatus::waiting);
}

}  // namespace semel
