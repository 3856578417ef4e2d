// A run seen from outside: status, result, journal, attributes, streams, and lists of runs.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

Workflow<int> steady(int hours) {
  co_await step("begin", [] {});
  co_await sleep(std::chrono::hours{hours});
  co_return hours;
}

Workflow<int> failing(std::string why) {
  co_await step("begin", [] {});
  throw std::runtime_error(why);
}

Strings ids(const std::vector<Run>& runs) {
  Strings found;
  for (const Run& run : runs) found.push_back(run.id());
  return found;
}

}  // namespace

TEST_CASE("a run's status says how far it is") {
  struct Shop {
    Gate gate;

    Workflow<> run() {
      co_await step("work", [this]() -> Task<void> { co_await gate; });
      co_await sleep(1h);
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start({.delay = 1h}, engine.add("run", &Shop::run, &shop)).run;
  CHECK(run.status() == RunStatus::pending);

  engine.advance(1h);
  CHECK(run.status() == RunStatus::running);
  shop.gate.open();
  engine.run_until_idle();
  CHECK(run.status() == RunStatus::waiting);
  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
}

TEST_CASE("a start is durable when it returns, before anything of the run has happened") {
  testing::FreshEngine engine;
  engine.add("steady", steady);
  const Run run = engine.start(steady, 1).run;

  CHECK(run.status() == RunStatus::running);
  CHECK(run.version() == 0);
  CHECK(kinds(run) == Strings{"started"});
  engine.crash();
  engine.advance(1h);

  CHECK(run.result<int>() == 1);
}

TEST_CASE("a run's version is the position of its last entry") {
  testing::FreshEngine engine;
  engine.add("steady", steady);
  const Run run = engine.start(steady, 1).run;
  std::vector<std::uint64_t> versions{run.version()};

  engine.run_until_idle();
  versions.push_back(run.version());
  engine.advance(1h);
  versions.push_back(run.version());

  CHECK(versions == std::vector<std::uint64_t>{0, 1, 2});
  CHECK(run.journal().size() == 3);
}

TEST_CASE("a journal tells what arrived and what was asked for, and when") {
  testing::FreshEngine engine;
  engine.add("steady", steady);
  const TimePoint begun = engine.now();
  const Run run = engine.start(steady, 1).run;

  engine.advance(1h);

  const std::vector<Entry> journal = run.journal();
  REQUIRE(journal.size() == 3);
  CHECK(journal[0].kind == "started");
  CHECK(journal[0].at == begun);
  CHECK(journal[0].value.at("requests").at(0).at("name") == "begin");
  CHECK(journal[1].seq == 1);
  CHECK(journal[1].kind == "step_completed");
  CHECK(journal[1].name == "begin");
  CHECK(journal[1].value.at("requests").at(0).at("kind") == "sleep");
  CHECK(journal[2].kind == "timer_fired");
  CHECK(journal[2].at == begun + 1h);
  CHECK(journal[2].value.at("requests").at(0).at("value") == 1);
}

TEST_CASE("a run's input is the list of its arguments") {
  testing::FreshEngine engine;
  engine.add("steady", steady);
  engine.add("failing", failing);

  CHECK(engine.start(steady, 7).run.input() == Json(boost::json::array{7}));
  CHECK(engine.start(failing, "why").run.input() == Json(boost::json::array{"why"}));
}

TEST_CASE("the result of a run that failed or was cancelled is an exception") {
  testing::FreshEngine engine;
  engine.add("steady", steady);
  engine.add("failing", failing);
  const Run failed = engine.start(failing, "out of ink").run;
  Run cancelled = engine.start(steady, 1).run;
  cancelled.cancel();

  const auto failure = thrown<RunFailedError>([&] { failed.result<int>(); });
  const auto cancel = thrown<RunCancelledError>([&] { cancelled.result<int>(); });

  CHECK(failure.code() == "RUN_FAILED");
  CHECK(contains(failure.what(), "out of ink"));
  CHECK(failed.error() == "EXCEPTION: out of ink");
  CHECK(cancel.code() == "RUN_CANCELLED");
  CHECK(contains(cancelled.error(), "RUN_CANCELLED"));
  CHECK(engine.start(steady, 0).run.error().empty());
}

TEST_CASE("a run that is not there is not found, whatever is asked of it") {
  testing::FreshEngine engine;
  engine.add("steady", steady);
  engine.start({.run_id = "swept"}, steady, 0);
  Run gone = engine.run("swept");
  engine.advance(1h);
  engine.advance(24h * 40);

  CHECK(thrown<RunNotFoundError>([&] { engine.run("nobody"); }).code() == "RUN_NOT_FOUND");
  CHECK(code_of([&] { engine.run(""); }) == "RUN_NOT_FOUND");
  CHECK(code_of([&] { static_cast<void>(gone.status()); }) == "RUN_NOT_FOUND");
  CHECK(code_of([&] { gone.result<int>(); }) == "RUN_NOT_FOUND");
  CHECK(code_of([&] { static_cast<void>(gone.journal()); }) == "RUN_NOT_FOUND");
  CHECK(code_of([&] { static_cast<void>(gone.stream<int>("s")); }) == "RUN_NOT_FOUND");
  CHECK(code_of([&] { gone.cancel(); }) == "RUN_NOT_FOUND");
  CHECK(code_of([&] { gone.retry(); }) == "RUN_NOT_FOUND");
  CHECK(code_of([&] { gone.fork(0); }) == "RUN_NOT_FOUND");
  CHECK(code_of([&] { gone.wake(); }) == "RUN_NOT_FOUND");
}

TEST_CASE("a Run that stands for none says so until it is given one") {
  testing::FreshEngine engine;
  engine.add("steady", steady);
  Run run;
  Started started;

  CHECK(run.id() == "");
  CHECK_THROWS_AS(run.status(), RunNotFoundError);
  CHECK_THROWS_AS(run.result<int>(), RunNotFoundError);
  CHECK_THROWS_AS(started.run.cancel(), RunNotFoundError);

  started = engine.start(steady, 1);
  run = started.run;
  engine.advance(1h);

  CHECK(run.result<int>() == 1);
}

TEST_CASE("in a test, the result of a run that cannot go on throws instead of hanging") {
  testing::FreshEngine engine;
  engine.add("steady", steady);
  const Run run = engine.start(steady, 1).run;

  CHECK(code_of([&] { run.result<int>(); }) == "TIMEOUT");
  engine.advance(1h);

  CHECK(run.result<int>() == 1);
  CHECK(run.result<int>(1ms) == 1);
}

TEST_CASE("attributes can be set while a run runs, the last value holds") {
  struct Shop {
    Workflow<> run() {
      co_await set_attribute("stage", "packing");
      co_await sleep(1h);
      co_await set_attribute("stage", "shipping");
      co_await set_attribute("carrier", "");
      co_await sleep(1h);
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine
                      .start({.attributes = {{"stage", "new"}, {"tenant", "t1"}}},
                             engine.add("run", &Shop::run, &shop))
                      .run;
  using Attributes = std::map<std::string, std::string>;

  engine.run_until_idle();
  CHECK(run.attributes() == Attributes{{"stage", "packing"}, {"tenant", "t1"}});
  engine.crash();
  engine.advance(1h);

  CHECK(run.attributes() == Attributes{{"stage", "shipping"}, {"tenant", "t1"}, {"carrier", ""}});
}

TEST_CASE("an attribute without a name or with too much text is refused") {
  struct Shop {
    Workflow<> run(std::string name, std::string text) { co_await set_attribute(name, text); }
  } shop;

  testing::FreshEngine engine;
  const auto workflow = engine.add("run", &Shop::run, &shop);
  const auto status = [&](const std::string& name, const std::string& text) {
    const Run run = engine.start(workflow, name, text).run;
    engine.run_until_idle();
    return run.status();
  };

  CHECK(status("name", std::string(1024, 'v')) == RunStatus::completed);
  CHECK(status("", "value") == RunStatus::failed);
  CHECK(status("name", std::string(1025, 'v')) == RunStatus::failed);
  CHECK(status(std::string(256, 'n'), "value") == RunStatus::failed);
}

TEST_CASE("streams are read in order, from any position, while the run runs and after") {
  struct Shop {
    Workflow<> run() {
      for (int i = 0; i < 3; ++i) {
        co_await emit("progress", i * 10);
        co_await emit("log", "at " + std::to_string(i));
        co_await step("work", [] {});
      }
      co_await sleep(1h);
      co_await emit("progress", 100);
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();

  CHECK(run.stream<int>("progress") == std::vector{0, 10, 20});
  CHECK(run.stream<std::string>("log") == Strings{"at 0", "at 1", "at 2"});
  CHECK(run.stream<int>("nothing").empty());
  engine.crash();
  engine.advance(1h);

  CHECK(run.stream<int>("progress", 2) == std::vector{20, 100});
  CHECK(run.stream<int>("progress", 4).empty());
}

TEST_CASE("what was emitted is in its stream once, although the run was retried") {
  struct Shop {
    bool works = false;

    Workflow<> run() {
      co_await step("work", [] {});
      co_await emit("progress", 1);
      if (!works) throw std::runtime_error("broken");
      co_await emit("progress", 2);
    }
  } shop;

  testing::FreshEngine engine;
  Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();
  REQUIRE(run.status() == RunStatus::failed);

  shop.works = true;
  run.retry();
  engine.run_until_idle();

  CHECK(run.status() == RunStatus::completed);
  CHECK(run.stream<int>("progress") == std::vector{1, 2});
}

TEST_CASE("runs are listed newest first, and found by workflow, status, key and attributes") {
  struct Shop {
    Workflow<> run() {
      co_await set_attribute("stage", "packing");
      co_await sleep(1h);
    }
  } shop;

  testing::FreshEngine engine;
  engine.add("steady", steady);
  engine.add("failing", failing);
  const auto workflow = engine.add("run", &Shop::run, &shop);
  engine.start({.run_id = "a", .attributes = {{"tenant", "t1"}}}, steady, 0);
  engine.advance(1s);
  engine.start({.key = "key", .run_id = "b"}, failing, "x");
  engine.advance(1s);
  engine.start({.run_id = "c", .attributes = {{"tenant", "t1"}}}, workflow);
  engine.advance(1s);
  engine.start({.run_id = "d", .attributes = {{"tenant", "t2"}}}, workflow);
  engine.advance(1s);

  CHECK(ids(engine.runs()) == Strings{"d", "c", "b", "a"});
  CHECK(ids(engine.runs({.workflow = "run"})) == Strings{"d", "c"});
  CHECK(ids(engine.runs({.workflow = "nothing"})).empty());
  CHECK(ids(engine.runs({.status = RunStatus::completed})) == Strings{"a"});
  CHECK(ids(engine.runs({.status = RunStatus::failed})) == Strings{"b"});
  CHECK(ids(engine.runs({.status = RunStatus::waiting})) == Strings{"d", "c"});
  CHECK(ids(engine.runs({.status = RunStatus::dead})).empty());
  CHECK(ids(engine.runs({.key = "key"})) == Strings{"b"});
  CHECK(ids(engine.runs({.attributes = {{"tenant", "t1"}}})) == Strings{"c", "a"});
  CHECK(ids(engine.runs({.attributes = {{"tenant", "t1"}, {"stage", "packing"}}})) == Strings{"c"});
  CHECK(ids(engine.runs({.workflow = "run", .attributes = {{"tenant", "t2"}}})) == Strings{"d"});
  CHECK(ids(engine.runs({.limit = 2})) == Strings{"d", "c"});
  CHECK(ids(engine.runs({.limit = 0})).empty());
}

TEST_CASE("runs started at the same time are listed in the order they were started") {
  testing::FreshEngine engine;
  engine.add("steady", steady);
  Strings started;
  for (int i = 0; i < 5; ++i) started.insert(started.begin(), engine.start(steady, 1).run.id());

  CHECK(ids(engine.runs()) == started);
}

TEST_CASE("the engine cannot be called from inside a workflow") {
  struct Shop {
    testing::Engine* engine = nullptr;

    Workflow<Strings> run(std::string id) {
      Strings codes;
      codes.push_back(code_of([&] { engine->start(steady, 1); }));
      codes.push_back(code_of([&] { engine->run(id); }));
      codes.push_back(code_of([&] { engine->runs(); }));
      co_await step("allowed here", [this, id] { engine->run(id); });
      codes.push_back(code_of([&] { engine->run(id).cancel(); }));
      co_return codes;
    }
  } shop;

  testing::FreshEngine engine;
  shop.engine = &engine;
  engine.add("steady", steady);
  const Run other = engine.start(steady, 1).run;

  const Run run = engine.start(engine.add("run", &Shop::run, &shop), other.id()).run;

  CHECK(run.result<Strings>() == Strings(4, "CALL_INSIDE_WORKFLOW"));
  CHECK(engine.runs().size() == 2);
}

TEST_CASE("statuses have names") {
  CHECK(to_string(RunStatus::pending) == "pending");
  CHECK(to_string(RunStatus::running) == "running");
  CHECK(to_string(RunStatus::waiting) == "waiting");
  CHECK(to_string(RunStatus::completed) == "completed");
  CHECK(to_string(RunStatus::failed) == "failed");
  CHECK(to_string(RunStatus::cancelled) == "cancelled");
  CHECK(to_string(RunStatus::dead) == "dead");
  CHECK(to_string(RunStatus::diverged) == "diverged");
}

}  // namespace semel
