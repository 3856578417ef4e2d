// Time, chance and ids: sleeps, and the same answers on replay.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

struct Sleeper {
  testing::Engine* engine = nullptr;
  std::vector<TimePoint> woke;

  Workflow<> seconds(int count) {
    co_await sleep(std::chrono::seconds{count});
    woke.push_back(co_await now());
  }

  Workflow<> until(TimePoint when) {
    co_await sleep_until(when);
    woke.push_back(co_await now());
  }

  Workflow<> days() {
    co_await sleep(std::chrono::days{30});
    woke.push_back(co_await now());
  }
};

}  // namespace

TEST_CASE("a sleep ends when its time has come and not before") {
  Sleeper sleeper;
  testing::FreshEngine engine;
  const TimePoint begun = engine.now();
  const Run run = engine.start(engine.add("seconds", &Sleeper::seconds, &sleeper), 60).run;

  engine.advance(60s - 1ns);
  CHECK(run.status() == RunStatus::waiting);
  CHECK(sleeper.woke.empty());
  engine.advance(1ns);

  CHECK(run.status() == RunStatus::completed);
  CHECK(sleeper.woke == std::vector{begun + 60s});
}

TEST_CASE("a sleep of thirty days is no different") {
  Sleeper sleeper;
  testing::FreshEngine engine;
  const TimePoint begun = engine.now();
  const Run run = engine.start(engine.add("days", &Sleeper::days, &sleeper)).run;

  engine.advance(24h * 30 - 1s);
  engine.crash();
  CHECK(run.status() == RunStatus::waiting);
  engine.advance(1s);

  CHECK(run.status() == RunStatus::completed);
  CHECK(sleeper.woke.back() == begun + 24h * 30);
}

TEST_CASE("a sleep that is zero or negative goes on at once") {
  for (const int count : {0, -1, -1'000'000}) {
    CAPTURE(count);
    Sleeper sleeper;
    testing::FreshEngine engine;
    const TimePoint begun = engine.now();

    const Run run = engine.start(engine.add("seconds", &Sleeper::seconds, &sleeper), count).run;
    engine.run_until_idle();

    CHECK(run.status() == RunStatus::completed);
    CHECK(sleeper.woke == std::vector{begun});
  }
}

TEST_CASE("sleep_until ends at the time given, at once where that is past") {
  Sleeper sleeper;
  testing::FreshEngine engine;
  const TimePoint begun = engine.now();
  const auto until = engine.add("until", &Sleeper::until, &sleeper);
  const Run past = engine.start(until, begun - 1h).run;
  const Run present = engine.start(until, begun).run;
  const Run future = engine.start(until, begun + 1h).run;

  engine.run_until_idle();
  CHECK(past.status() == RunStatus::completed);
  CHECK(present.status() == RunStatus::completed);
  CHECK(future.status() == RunStatus::waiting);
  engine.advance(1h);

  CHECK(future.status() == RunStatus::completed);
  CHECK(sleeper.woke == std::vector{begun, begun, begun + 1h});
}

TEST_CASE("a run goes through sleeps of no length without being asked twice") {
  struct Shop {
    Workflow<int> run() {
      int count = 0;
      for (int i = 0; i < 5; ++i) {
        co_await sleep(0s);
        count += co_await step("count", [] { return 1; });
      }
      co_await sleep(0s);
      co_await sleep(0s);
      co_return count;
    }
  } shop;

  testing::FreshEngine engine;
  const auto workflow = engine.add("run", &Shop::run, &shop);

  CHECK(engine.start(workflow).run.result<int>() == 5);
  const Run idle = engine.start(workflow).run;
  engine.run_until_idle();
  CHECK(idle.status() == RunStatus::completed);
}

TEST_CASE("a sleep that fell due while the process was down ends when it is back") {
  Sleeper sleeper;
  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("seconds", &Sleeper::seconds, &sleeper), 60).run;
  engine.advance(59s);

  engine.crash();
  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
  CHECK(sleeper.woke.size() == 1);
}

TEST_CASE("a sleep of any length can be asked for") {
  struct Shop {
    Workflow<> run() { co_await sleep(std::chrono::hours::max()); }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(24h);

  CHECK(run.status() == RunStatus::waiting);
}

TEST_CASE("sleeps of many runs end in their order") {
  Sleeper sleeper;
  testing::FreshEngine engine;
  const TimePoint begun = engine.now();
  const auto seconds = engine.add("seconds", &Sleeper::seconds, &sleeper);
  for (const int count : {30, 10, 50, 20, 40}) engine.start(seconds, count);

  engine.advance(1min);

  CHECK(sleeper.woke ==
        std::vector{begun + 10s, begun + 20s, begun + 30s, begun + 40s, begun + 50s});
}

TEST_CASE("now, uuid and random give the same answers after a crash") {
  struct Shop {
    Strings seen;

    Workflow<> run() {
      const TimePoint time = co_await now();
      const std::string id = co_await uuid();
      const std::uint64_t number = co_await random();
      seen.push_back(value::encode(time) + id + std::to_string(number));
      co_await sleep(1h);
      seen.push_back(value::encode(time) + id + std::to_string(number));
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();

  engine.crash();
  engine.advance(30min);
  engine.crash();
  engine.advance(30min);

  CHECK(run.status() == RunStatus::completed);
  CHECK(shop.seen.size() > 2);
  CHECK(std::set(shop.seen.begin(), shop.seen.end()).size() == 1);
}

TEST_CASE("now is the time of the segment that asks") {
  struct Shop {
    Workflow<std::vector<TimePoint>> run() {
      std::vector<TimePoint> times;
      times.push_back(co_await now());
      co_await sleep(90s);
      times.push_back(co_await now());
      co_return times;
    }
  } shop;

  testing::FreshEngine engine;
  const TimePoint begun = engine.now();
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(2min);

  CHECK(run.result<std::vector<TimePoint>>() == std::vector{begun, begun + 90s});
}

TEST_CASE("uuids are random and of version 4, random numbers differ") {
  struct Shop {
    Workflow<Strings> run() {
      Strings seen;
      for (int i = 0; i < 50; ++i) {
        seen.push_back(co_await uuid());
        seen.push_back(std::to_string(co_await random()));
      }
      co_return seen;
    }
  } shop;

  testing::FreshEngine engine;

  const Strings seen = engine.start(engine.add("run", &Shop::run, &shop)).run.result<Strings>();

  CHECK(std::set(seen.begin(), seen.end()).size() == 100);
  for (std::size_t i = 0; i < seen.size(); i += 2) {
    CAPTURE(seen[i]);
    CHECK(seen[i].size() == 36);
    CHECK(seen[i][14] == '4');
    CHECK(std::string("89ab").find(seen[i][19]) != std::string::npos);
  }
}

TEST_CASE("what is answered at once costs no entry of its own") {
  struct Shop {
    Workflow<> run() {
      co_await now();
      co_await uuid();
      co_await random();
      co_await set_attribute("stage", "packing");
      co_await emit("progress", 1);
      co_await step("one", [] {});
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();

  CHECK(kinds(run) == Strings{"started", "step_completed"});
}

TEST_CASE("a workflow that asks the real clock is found out by the testing engine") {
  struct Shop {
    int calls = 0;

    Workflow<> run() {
      const std::string name = "step " + std::to_string(calls++);
      co_await step(name, [] {});
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();

  CHECK(run.status() == RunStatus::diverged);
}

}  // namespace semel
