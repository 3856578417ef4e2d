// Runs that a run starts and leaves alone, and waiting for any run: spawn, result_of.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

Workflow<int> doubled(int number) {
  co_await sleep(1h);
  co_return co_await step("double", [number] { return number * 2; });
}

}  // namespace

TEST_CASE("spawn starts a run, gives its id and does not wait") {
  struct Shop {
    Workflow<std::string> run() { co_return co_await spawn(doubled, 21); }
  } shop;

  testing::FreshEngine engine;
  engine.add("doubled", doubled);

  const std::string id =
      engine.start(engine.add("run", &Shop::run, &shop)).run.result<std::string>();

  CHECK(engine.run(id).status() == RunStatus::waiting);
  engine.advance(1h);
  CHECK(engine.run(id).result<int>() == 42);
}

TEST_CASE("a run is spawned once, whatever crashes") {
  struct Shop {
    Workflow<> run() {
      co_await spawn(doubled, 21);
      co_await sleep(1h);
    }
  } shop;

  testing::FreshEngine engine;
  engine.add("doubled", doubled);
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.crash();
  engine.advance(30min);
  engine.crash();
  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
  CHECK(engine.runs({.workflow = "doubled"}).size() == 1);
}

TEST_CASE("a run that spawned another and only sleeps is waiting") {
  struct Shop {
    Workflow<> run() { co_await all(spawn(doubled, 21), sleep(1h)); }
  } shop;

  testing::FreshEngine engine;
  engine.add("doubled", doubled);
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();

  CHECK(run.status() == RunStatus::waiting);
  engine.advance(1h);
  CHECK(run.status() == RunStatus::completed);
}

TEST_CASE("spawn with a key hands back the run that holds it") {
  struct Shop {
    Workflow<std::string> run() { co_return co_await spawn({.key = "k"}, doubled, 21); }
  } shop;

  testing::FreshEngine engine;
  engine.add("doubled", doubled);
  const Run holder = engine.start({.key = "k"}, doubled, 21).run;

  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(run.result<std::string>() == holder.id());
}

TEST_CASE("result_of waits for any run of the workspace") {
  struct Shop {
    Workflow<int> run(std::string id) { co_return co_await result_of<int>(id); }
  } shop;

  testing::FreshEngine engine;
  engine.add("doubled", doubled);
  const auto workflow = engine.add("run", &Shop::run, &shop);
  const Run other = engine.start(doubled, 21).run;
  const Run run = engine.start(workflow, other.id()).run;
  engine.run_until_idle();
  CHECK(run.status() == RunStatus::waiting);

  engine.crash();
  engine.advance(1h);

  CHECK(run.result<int>() == 42);
  CHECK(engine.start(workflow, other.id()).run.result<int>() == 42);
}

TEST_CASE("result_of a run that is not there, or of the run itself, is an error at once") {
  struct Shop {
    Workflow<std::string> run(std::string id) {
      const auto outcome = co_await settled(result_of<int>(id));
      try {
        outcome.value();
      } catch (const RunNotFoundError&) {
        co_return "not found";
      } catch (const Error& error) {
        co_return error.code();
      }
      co_return "nothing thrown";
    }
  } shop;

  testing::FreshEngine engine;
  const auto workflow = engine.add("run", &Shop::run, &shop);

  CHECK(engine.start(workflow, "nobody").run.result<std::string>() == "not found");
  CHECK(engine.start({.run_id = "me"}, workflow, "me").run.result<std::string>() == "RUN_ACTIVE");
}

}  // namespace semel
