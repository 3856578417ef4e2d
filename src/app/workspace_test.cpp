// Workspaces, which do not see each other; and the sweep, which removes what is over.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

Workflow<std::string> sleeper(std::string text) {
  co_await sleep(1h);
  co_return text;
}

}  // namespace

TEST_CASE("the same key and the same id name different runs in different workspaces") {
  testing::FreshEngine engine;
  engine.add("sleeper", sleeper);
  Client& acme = engine.workspace("acme");
  Client& umbrella = engine.workspace("umbrella");

  const Started ours = acme.start({.key = "k", .run_id = "id"}, sleeper, "acme");
  const Started theirs = umbrella.start({.key = "k", .run_id = "id"}, sleeper, "umbrella");
  const Started none = engine.start({.key = "k", .run_id = "id"}, sleeper, "default");
  engine.advance(1h);

  CHECK(ours.created);
  CHECK(theirs.created);
  CHECK(none.created);
  CHECK(acme.run("id").result<std::string>() == "acme");
  CHECK(umbrella.run("id").result<std::string>() == "umbrella");
  CHECK(engine.run("id").result<std::string>() == "default");
  CHECK(acme.runs().size() == 1);
  CHECK(acme.runs({.key = "k"}).size() == 1);
}

TEST_CASE("a run of another workspace is not found, whatever is asked of it") {
  testing::FreshEngine engine;
  engine.add("sleeper", sleeper);
  Client& acme = engine.workspace("acme");
  Client& umbrella = engine.workspace("umbrella");
  const std::string id = acme.start(sleeper, "x").run.id();
  // Of the same id, then removed: a handle without a run.
  Run handle = umbrella.start({.run_id = id}, sleeper, "y").run;
  engine.advance(2h);
  engine.advance(24h * 40);
  const Run again = acme.start({.run_id = id}, sleeper, "x").run;

  CHECK(code_of([&] { umbrella.run(id); }) == "RUN_NOT_FOUND");
  CHECK(code_of([&] { engine.run(id); }) == "RUN_NOT_FOUND");
  CHECK(code_of([&] { handle.result<std::string>(); }) == "RUN_NOT_FOUND");
  CHECK(code_of([&] { handle.cancel(); }) == "RUN_NOT_FOUND");
  CHECK(code_of([&] { handle.retry(); }) == "RUN_NOT_FOUND");
  CHECK(code_of([&] { handle.fork(0); }) == "RUN_NOT_FOUND");
  CHECK(code_of([&] { handle.wake(); }) == "RUN_NOT_FOUND");
  CHECK(code_of([&] { static_cast<void>(handle.journal()); }) == "RUN_NOT_FOUND");
  CHECK(umbrella.runs().empty());
  CHECK(again.status() == RunStatus::waiting);
}

TEST_CASE("workflows reach only runs of their own workspace") {
  struct Shop {
    Workflow<std::string> waits(std::string id) {
      const auto outcome = co_await settled(result_of<std::string>(id));
      co_return outcome.ok() ? outcome.value() : outcome.message();
    }

    Workflow<bool> starts() {
      co_return co_await step("start", [](const StepContext& step) {
        return step.client().start({.key = "k"}, sleeper, "x").created;
      });
    }

    Workflow<> family() { co_await child({.run_id = "child"}, sleeper, "x"); }
  } shop;

  testing::FreshEngine engine;
  engine.add("sleeper", sleeper);
  const auto waits = engine.add("waits", &Shop::waits, &shop);
  const auto starts = engine.add("starts", &Shop::starts, &shop);
  const auto family = engine.add("family", &Shop::family, &shop);
  Client& acme = engine.workspace("acme");
  Client& umbrella = engine.workspace("umbrella");
  acme.start({.key = "k", .run_id = "id"}, sleeper, "secret");

  const Run theirs = umbrella.start(waits, "id").run;
  const Run started = umbrella.start(starts).run;
  umbrella.start(family);
  engine.advance(1h);

  CHECK(contains(theirs.result<std::string>(), "there is no run id"));
  CHECK(started.result<bool>());
  CHECK(code_of([&] { umbrella.run("child"); }) == "nothing");
  CHECK(code_of([&] { acme.run("child"); }) == "RUN_NOT_FOUND");
  CHECK(acme.runs().size() == 1);
}

TEST_CASE("a client of a workspace is made once and goes on after a crash") {
  testing::FreshEngine engine;
  engine.add("sleeper", sleeper);
  Client& acme = engine.workspace("acme");
  const Run run = acme.start(sleeper, "x").run;

  engine.crash();
  engine.advance(1h);

  CHECK(&engine.workspace("acme") == &acme);
  CHECK(run.result<std::string>() == "x");
  CHECK(&engine.workspace("default") != &acme);
}

TEST_CASE("the engine's own calls are those of the workspace named default") {
  testing::FreshEngine engine;
  engine.add("sleeper", sleeper);

  engine.start({.run_id = "id"}, sleeper, "x");

  CHECK(engine.workspace("default").run("id").status() == RunStatus::waiting);
}

TEST_CASE("a workspace's name has 1 to 255 bytes") {
  testing::FreshEngine engine;

  CHECK(code_of([&] { engine.workspace(""); }) == "VALIDATION_ERROR");
  CHECK(code_of([&] { engine.workspace(std::string(256, 'w')); }) == "VALIDATION_ERROR");
  CHECK(code_of([&] { engine.workspace(std::string(255, 'w')); }) == "nothing");
}

TEST_CASE("a finished run is kept for its retention and then removed") {
  testing::FreshEngine engine{{.retention = 24h}};
  engine.add("sleeper", sleeper);
  Run completed = engine.start({.run_id = "completed"}, sleeper, "x").run;
  Run cancelled = engine.start({.run_id = "cancelled"}, sleeper, "x").run;
  Run unfinished = engine.start({.run_id = "unfinished", .delay = 24h * 365}, sleeper, "x").run;
  cancelled.cancel();
  engine.advance(1h);
  engine.start({.run_id = "later"}, sleeper, "x");

  engine.advance(23h);
  CHECK(completed.status() == RunStatus::completed);
  engine.advance(1h + 2min);

  CHECK(code_of([&] { static_cast<void>(completed.status()); }) == "RUN_NOT_FOUND");
  CHECK(code_of([&] { static_cast<void>(cancelled.status()); }) == "RUN_NOT_FOUND");
  CHECK(unfinished.status() == RunStatus::pending);
  CHECK(engine.run("later").status() == RunStatus::completed);
  CHECK(engine.runs().size() == 2);
}

TEST_CASE("a finished run is kept for seven days unless told otherwise") {
  testing::FreshEngine engine;
  engine.add("sleeper", sleeper);
  const Run run = engine.start(sleeper, "x").run;
  engine.advance(1h);

  engine.advance(24h * 7 - 1min);
  CHECK(run.status() == RunStatus::completed);
  engine.advance(3min);

  CHECK(engine.runs().empty());
}

TEST_CASE("a run with a key is kept at least until its key is forgotten") {
  testing::FreshEngine engine{{.retention = 24h}};
  engine.add("sleeper", sleeper);
  const Run run = engine.start({.key = "k", .key_ttl = 24h * 3}, sleeper, "x").run;
  engine.advance(1h);

  engine.advance(24h * 3 - 1min);
  CHECK(run.result<std::string>() == "x");
  CHECK_FALSE(engine.start({.key = "k"}, sleeper, "x").created);
  engine.advance(5min);

  CHECK(engine.runs().empty());
  CHECK(engine.start({.key = "k"}, sleeper, "x").created);
}

TEST_CASE("a run kept longer than its key does not hold it") {
  testing::FreshEngine engine;
  engine.add("sleeper", sleeper);
  const Run first = engine.start({.key = "k", .key_ttl = 1h}, sleeper, "x").run;
  engine.advance(3h);

  const Started second = engine.start({.key = "k"}, sleeper, "x");

  CHECK(second.created);
  CHECK(first.status() == RunStatus::completed);
  CHECK(engine.runs().size() == 2);
}

TEST_CASE("a key with no time of its own is free as soon as its run is over") {
  testing::FreshEngine engine;
  engine.add("sleeper", sleeper);
  engine.start({.key = "k", .key_ttl = 0s}, sleeper, "x");
  CHECK_FALSE(engine.start({.key = "k"}, sleeper, "x").created);

  engine.advance(1h);

  CHECK(engine.start({.key = "k"}, sleeper, "x").created);
}

TEST_CASE("many finished runs are removed in small batches, and all of them") {
  testing::FreshEngine engine{{.retention = 1h}};
  engine.add("sleeper", sleeper);
  for (int i = 0; i < 1500; ++i) engine.start(sleeper, "x");
  engine.advance(1h);
  REQUIRE(engine.runs({.limit = 5000}).size() == 1500);

  engine.advance(2h);  // it sweeps every hour, and they did not all end at the same moment

  CHECK(engine.runs().empty());
}

}  // namespace semel
