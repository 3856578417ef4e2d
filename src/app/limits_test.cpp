// Limits: of payloads, of journals, of the memory that resting runs may take.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

/// Counts how many of it there are.
class Alive {
 public:
  explicit Alive(int& counter) : count_(++counter) {}

  Alive(const Alive&) = delete;
  Alive& operator=(const Alive&) = delete;

  ~Alive() { --count_; }

 private:
  int& count_;
};

struct Writer {
  int bodies = 0;

  Workflow<std::string> echo(std::string text) { co_return text; }

  Workflow<std::string> makes(std::size_t size) {
    const auto made = co_await settled(step("make", [this, size] {
      ++bodies;
      return std::string(size, 'x');
    }));
    if (made.ok()) co_return "made";
    co_return made.message();
  }

  Workflow<std::string> returns(std::size_t size) {
    co_await step("begin", [] {});
    co_return std::string(size, 'x');
  }

  Workflow<> emits(std::size_t size) { co_await emit("out", std::string(size, 'x')); }

  Workflow<> spawns(std::size_t size) { co_await spawn(&Writer::echo, std::string(size, 'x')); }

  Workflow<int> endless() {
    for (;;) co_await step("work", [this] { ++bodies; });
  }
};

}  // namespace

TEST_CASE("an input that is too large is refused and no run is made") {
  Writer writer;
  testing::FreshEngine engine{{.limits = {.payload_bytes_max = 1000}}};
  const auto echo = engine.add("echo", &Writer::echo, &writer);
  const auto code = [&](std::size_t size) {
    return code_of([&] { engine.start(echo, std::string(size, 'x')); });
  };

  CHECK(code(996) == "nothing");  // with brackets and quotes: exactly 1000
  CHECK(code(997) == "PAYLOAD_TOO_LARGE");
  CHECK(code_of([&] { engine.start({}, "echo", Json{std::string(997, 'x')}); }) ==
        "PAYLOAD_TOO_LARGE");
  CHECK(engine.runs().size() == 1);
}

TEST_CASE("a step's result that is too large fails the step, and is not tried again") {
  Writer writer;
  testing::FreshEngine engine{{.limits = {.payload_bytes_max = 1000}}};
  const auto makes = engine.add("makes", &Writer::makes, &writer);

  CHECK(engine.start(makes, 998U).run.result<std::string>() == "made");
  CHECK(contains(engine.start(makes, 999U).run.result<std::string>(), "the limit is 1000"));
  CHECK(writer.bodies == 2);
}

TEST_CASE("a run's result that is too large fails the run") {
  Writer writer;
  testing::FreshEngine engine{{.limits = {.payload_bytes_max = 1000}}};
  const auto returns = engine.add("returns", &Writer::returns, &writer);
  const Run fits = engine.start(returns, 998U).run;
  const Run large = engine.start(returns, 999U).run;

  engine.run_until_idle();

  CHECK(fits.status() == RunStatus::completed);
  CHECK(large.status() == RunStatus::failed);
  CHECK(large.error().starts_with("PAYLOAD_TOO_LARGE"));
}

TEST_CASE("what is emitted or given to another run has the same limit") {
  Writer writer;
  testing::FreshEngine engine{{.limits = {.payload_bytes_max = 1000}}};
  engine.add("echo", &Writer::echo, &writer);
  const Run emits = engine.start(engine.add("emits", &Writer::emits, &writer), 999U).run;
  const Run spawns = engine.start(engine.add("spawns", &Writer::spawns, &writer), 997U).run;

  engine.run_until_idle();

  CHECK(emits.error().starts_with("PAYLOAD_TOO_LARGE"));
  CHECK(spawns.error().starts_with("PAYLOAD_TOO_LARGE"));
  CHECK(engine.runs({.workflow = "echo"}).empty());
}

TEST_CASE("a megabyte fits by default") {
  Writer writer;
  testing::FreshEngine engine;
  const auto returns = engine.add("returns", &Writer::returns, &writer);
  const std::size_t megabyte = std::size_t{1} << 20U;

  CHECK(engine.start(returns, megabyte - 2).run.result<std::string>().size() == megabyte - 2);
}

TEST_CASE("a run whose journal is full fails and says so") {
  Writer writer;
  testing::FreshEngine engine{{.limits = {.journal_entries_max = 20}}};
  const Run run = engine.start(engine.add("endless", &Writer::endless, &writer)).run;

  engine.run_until_idle();

  CHECK(run.status() == RunStatus::failed);
  CHECK(run.error().starts_with("JOURNAL_TOO_LARGE"));
  CHECK(run.journal().size() == 20);
  CHECK(kinds(run).back() == "limit_reached");
}

TEST_CASE("a payload that a run has no room for is not lost with it") {
  struct Box {
    Workflow<> listen(std::string token) {
      auto letters = hook<int>(token);
      for (;;) co_await letters.next();
    }
  } box;

  for (const int sent_at_once : {1, 3}) {
    CAPTURE(sent_at_once);
    testing::FreshEngine engine{{.limits = {.journal_entries_max = 8}}};
    const Run run = engine.start(engine.add("listen", &Box::listen, &box), "t").run;
    engine.run_until_idle();
    int sent = 0;
    while (run.status() != RunStatus::failed) {
      for (int i = 0; i < sent_at_once && run.status() != RunStatus::failed; ++i)
        engine.resume("t", ++sent);
      engine.run_until_idle();
    }

    // Each was read, or can be looked at.
    const auto entries = kinds(run);
    const auto read = std::ranges::count(entries, "payload_arrived");
    const auto left = std::ranges::count(entries, "undelivered");
    CHECK(run.error().starts_with("JOURNAL_TOO_LARGE"));
    CHECK(left >= 1);
    CHECK(read + left == sent);
  }
}

TEST_CASE("a run that needs every entry it is allowed completes") {
  struct Shop {
    Workflow<int> run(int steps) {
      for (int i = 0; i < steps; ++i) co_await step("work", [] {});
      co_return steps;
    }
  } shop;

  testing::FreshEngine engine{{.limits = {.journal_entries_max = 10}}};
  const auto workflow = engine.add("run", &Shop::run, &shop);

  CHECK(engine.start(workflow, 9).run.result<int>() == 9);
  CHECK(code_of([&] { engine.start(workflow, 10).run.result<int>(); }) == "RUN_FAILED");
}

TEST_CASE("a run at its limit can still be cancelled") {
  struct Shop {
    Workflow<> run() {
      for (int i = 0; i < 8; ++i) co_await step("work", [] {});
      co_await sleep(1h);
    }
  } shop;

  testing::FreshEngine engine{{.limits = {.journal_entries_max = 10}}};
  const auto workflow = engine.add("run", &Shop::run, &shop);
  Run at_once = engine.start(workflow).run;
  Run with_grace = engine.start(workflow).run;
  engine.run_until_idle();
  REQUIRE(at_once.journal().size() == 9);

  at_once.cancel();
  with_grace.cancel({.grace = 1min});
  engine.advance(1min);

  CHECK(at_once.status() == RunStatus::cancelled);
  CHECK(with_grace.status() == RunStatus::cancelled);
}

TEST_CASE("without memory for resting runs everything still works") {
  struct Shop {
    int live = 0;

    Workflow<int> child_run(int number) {
      co_await sleep(2h);
      co_return number;
    }

    Workflow<std::string> run() {
      const Alive alive(live);
      const std::string id = co_await uuid();
      co_await sleep(1h);
      const auto [a, b] = co_await all(step("work",
                                            [](const StepContext& step) {
                                              if (step.attempt < 3)
                                                throw std::runtime_error("not yet");
                                              return 1;
                                            }),
                                       sleep(1h));
      const int c = co_await child(&Shop::child_run, 7);
      co_await sleep(1h);
      co_return id + std::to_string(a + c);
    }
  } shop;

  testing::FreshEngine engine{{.frame_bytes_max = 1}};
  engine.add("child", &Shop::child_run, &shop);
  const auto workflow = engine.add("run", &Shop::run, &shop);
  std::vector<Run> runs;
  for (int i = 0; i < 10; ++i) runs.push_back(engine.start(workflow).run);

  engine.run_until_idle();
  CHECK(shop.live == 0);
  engine.advance(90min);
  CHECK(shop.live == 0);
  engine.advance(24h);

  for (const Run& run : runs) CHECK(run.result<std::string>().ends_with("8"));
  CHECK(shop.live == 0);
}

TEST_CASE("with memory enough, resting runs stay in it") {
  struct Shop {
    int live = 0;

    Workflow<> run() {
      const Alive alive(live);
      co_await sleep(1h);
    }
  } shop;

  testing::FreshEngine engine;
  const auto workflow = engine.add("run", &Shop::run, &shop);
  for (int i = 0; i < 10; ++i) engine.start(workflow);

  engine.run_until_idle();
  CHECK(shop.live == 10);
  engine.advance(1h);

  CHECK(shop.live == 0);
}

TEST_CASE("a run whose body is in flight keeps its memory, whatever the limit") {
  struct Shop {
    Gate gate;

    Workflow<int> run() {
      int number = 42;  // what the body refers to
      const int* here = &number;
      co_await step("slow", [this, here]() -> Task<void> {
        co_await gate;
        CHECK(*here == 42);
      });
      co_return number;
    }
  } shop;

  testing::FreshEngine engine{{.frame_bytes_max = 1}};
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();

  engine.advance(1h);
  shop.gate.open();

  CHECK(run.result<int>() == 42);
}

TEST_CASE(
    "a body in flight keeps the memory it refers to, although its run was cancelled or it lost") {
  struct Shop {
    Gate gate;
    int seen = 0;

    Workflow<> run(int number) {
      std::vector<int> numbers(1000, number);
      co_await step("slow", [this, &numbers]() -> Task<void> {
        co_await gate;
        seen = numbers[999];
      });
    }

    Workflow<> loses() {
      co_await race(sleep(1min), run(8));
      co_await sleep(1min);
    }
  } shop;

  testing::FreshEngine engine{{.frame_bytes_max = 1}};
  Run cancelled = engine.start(engine.add("run", &Shop::run, &shop), 7).run;
  const auto loses = engine.add("loses", &Shop::loses, &shop);
  engine.run_until_idle();
  cancelled.cancel();
  shop.gate.open();
  engine.run_until_idle();
  CHECK(shop.seen == 7);

  for (const auto after : {1min, 2min}) {
    shop.seen = 0;
    const Run lost = engine.start(loses).run;
    engine.run_until_idle();
    engine.advance(after);
    CHECK((lost.status() == RunStatus::completed) == (after == 2min));
    shop.gate.open();
    engine.advance(1min);
    CHECK(shop.seen == 8);
  }
}

}  // namespace semel
