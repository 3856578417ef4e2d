// Steps: how often they are tried, how long they rest, what is left of them when they fail.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

/// A step that fails `failures` times and then gives its attempt's number.
struct Flaky {
  StepOptions options{};
  int failures = 1000;
  std::vector<int> attempts{};
  std::vector<TimePoint> times{};
  std::vector<std::string> ids{};
  testing::Engine* engine = nullptr;

  Workflow<int> run() {
    co_return co_await step("flaky", options, [this](const StepContext& step) {
      attempts.push_back(step.attempt);
      ids.push_back(step.id);
      times.push_back(engine->now());
      if (static_cast<int>(attempts.size()) <= failures) throw std::runtime_error("not yet");
      return step.attempt;
    });
  }

  std::vector<Millis> rests() const {
    std::vector<Millis> found;
    for (std::size_t i = 1; i < times.size(); ++i) {
      found.push_back(std::chrono::duration_cast<Millis>(times[i] - times[i - 1]));
    }
    return found;
  }
};

struct FlakyRun {
  explicit FlakyRun(StepOptions options, int failures = 1000)
      : flaky{.options = options, .failures = failures} {
    flaky.engine = &engine;
  }

  Flaky flaky;
  testing::FreshEngine engine;
  Run run = engine.start(engine.add("flaky", &Flaky::run, &flaky)).run;
};

}  // namespace

TEST_CASE("a step is tried four times unless told otherwise") {
  FlakyRun test{StepOptions{}};

  test.engine.advance(1h);

  CHECK(test.flaky.attempts == std::vector{1, 2, 3, 4});
  CHECK(test.run.status() == RunStatus::failed);
}

TEST_CASE("a step is tried as often as its options say") {
  for (const int attempts : {1, 2, 7}) {
    CAPTURE(attempts);
    FlakyRun test{{.retry = {.attempts = attempts}}};

    test.engine.advance(24h);

    CHECK(std::ssize(test.flaky.attempts) == attempts);
    CHECK(test.run.status() == RunStatus::failed);
  }
}

TEST_CASE("a step that succeeds at last gives its result") {
  FlakyRun test{StepOptions{}, 2};

  test.engine.advance(1h);

  CHECK(test.run.result<int>() == 3);
  CHECK(test.flaky.attempts.size() == 3);
}

TEST_CASE("a step has the same id on every attempt, and another one in another run") {
  FlakyRun one{StepOptions{}};
  FlakyRun other{StepOptions{}};

  one.engine.advance(1h);
  other.engine.advance(1h);

  CHECK(std::set(one.flaky.ids.begin(), one.flaky.ids.end()).size() == 1);
  CHECK(one.flaky.ids.front() != other.flaky.ids.front());
}

TEST_CASE("rests grow by the factor up to the maximum") {
  struct Case {
    Retry retry;
    std::vector<Millis> rests;
  };

  const auto cases = std::to_array<Case>({
      {{.attempts = 4, .jitter = false}, {1s, 2s, 4s}},
      {{.attempts = 5, .initial = 200ms, .factor = 2, .max = 500ms, .jitter = false},
       {200ms, 400ms, 500ms, 500ms}},
      {{.attempts = 4, .initial = 10ms, .factor = 1, .jitter = false}, {10ms, 10ms, 10ms}},
      {{.attempts = 3, .initial = 0ms, .factor = 3, .jitter = false}, {0ms, 0ms}},
      {{.attempts = 3, .initial = 100ms, .factor = 2.5, .jitter = false}, {100ms, 250ms}},
  });

  for (const Case& c : cases) {
    FlakyRun test{{.retry = c.retry}};
    test.engine.advance(24h);
    CHECK(test.flaky.rests() == c.rests);
  }
}

TEST_CASE("jitter takes at most half of a rest away") {
  std::set<Millis> seen;
  for (int i = 0; i < 20; ++i) {
    FlakyRun test{{.retry = {.attempts = 2, .initial = 1000ms, .jitter = true}}};
    test.engine.advance(1h);
    REQUIRE(test.flaky.rests().size() == 1);
    seen.insert(test.flaky.rests().front());
  }

  CHECK(*seen.begin() >= 500ms);
  CHECK(*seen.rbegin() <= 1000ms);
  CHECK(seen.size() > 1);
}

TEST_CASE("an attempt does not begin before its rest is over") {
  FlakyRun test{{.retry = {.initial = 10s, .jitter = false}}};
  test.engine.run_until_idle();

  test.engine.advance(9999ms);
  CHECK(test.flaky.attempts.size() == 1);
  CHECK(test.run.status() == RunStatus::waiting);

  test.engine.advance(1ms);
  CHECK(test.flaky.attempts.size() == 2);
}

TEST_CASE("a rest survives a crash and is not begun anew") {
  FlakyRun test{{.retry = {.initial = 10s, .jitter = false}}, 1};
  test.engine.run_until_idle();
  test.engine.advance(6s);

  test.engine.crash();
  test.engine.advance(4s);

  CHECK(test.flaky.attempts == std::vector{1, 2});
  CHECK(test.run.result<int>() == 2);
}

TEST_CASE("a RetryableError says when to try again") {
  struct Shop {
    testing::Engine* engine = nullptr;
    std::vector<TimePoint> times{};

    Workflow<> run() {
      co_await step("busy", {.retry = {.attempts = 3, .initial = 1s, .jitter = false}}, [this] {
        times.push_back(engine->now());
        if (times.size() == 1) throw RetryableError("come back later", 90s);
        throw RetryableError("as you like");
      });
    }
  } shop;

  testing::FreshEngine engine;
  shop.engine = &engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  REQUIRE(shop.times.size() == 3);
  CHECK(shop.times[1] - shop.times[0] == 90s);
  CHECK(shop.times[2] - shop.times[1] == 2s);
  CHECK(contains(run.error(), "as you like"));
}

TEST_CASE("a FatalError is not tried again") {
  struct Shop {
    int attempts = 0;

    Workflow<> run() {
      co_await step("pay", [this] {
        ++attempts;
        throw FatalError("card stolen");
      });
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(shop.attempts == 1);
  CHECK(run.status() == RunStatus::failed);
  CHECK(contains(run.error(), "card stolen"));
}

TEST_CASE("a StepFailedError says which step, how often, and what the last attempt threw") {
  struct Shop {
    std::optional<StepFailedError> caught{};

    Workflow<std::string> run() {
      int attempt = 0;
      try {
        co_await step(
            "ship", {.retry = {.attempts = 3}},
            [&attempt](std::string) {
              throw std::runtime_error("truck " + std::to_string(++attempt) + " broke down");
            },
            std::string("box"));
      } catch (const StepFailedError& error) {
        caught = error;
      }
      co_return "went on";
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  REQUIRE(shop.caught);
  CHECK(shop.caught->code() == "STEP_FAILED");
  CHECK(shop.caught->name == "ship");
  CHECK(shop.caught->attempts == 3);
  CHECK(shop.caught->message == "truck 3 broke down");
  CHECK(shop.caught->details.is_null());
  CHECK(contains(shop.caught->what(), "ship"));
  CHECK(run.result<std::string>() == "went on");
}

TEST_CASE("the details of a FatalError arrive with the StepFailedError, also after a crash") {
  struct Shop {
    Json details;

    Workflow<> run() {
      const auto paid = co_await settled(
          step("pay", [] { throw FatalError("declined", {{"reason", "limit"}, {"left", 12}}); }));
      co_await sleep(1h);
      try {
        paid.value();
      } catch (const StepFailedError& error) {
        details = error.details;
      }
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;
  engine.run_until_idle();

  engine.crash();
  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
  CHECK(shop.details == Json{{"reason", "limit"}, {"left", 12}});
}

TEST_CASE("whatever a step throws ends up as a failure") {
  struct Shop {
    Workflow<std::string> run(int what) {
      const auto outcome = co_await settled(step("throw", {.retry = {.attempts = 1}}, [what] {
        if (what == 0) throw std::runtime_error("plain");
        if (what == 1) throw Error("MY_CODE", "coded");
        if (what == 2) throw std::runtime_error("bytes \xff that are no text");
        throw 42;
      }));
      co_return outcome.message();
    }
  } shop;

  testing::FreshEngine engine;
  const auto workflow = engine.add("run", &Shop::run, &shop);
  const auto message = [&](int what) {
    return engine.start(workflow, what).run.result<std::string>();
  };

  CHECK(contains(message(0), "plain"));
  CHECK(contains(message(1), "coded"));
  CHECK(contains(message(2), "bytes ? that are no text"));
  CHECK(contains(message(3), "not a std::exception"));
}

TEST_CASE("a ValidationError of the step's own is tried again like any other exception") {
  struct Shop {
    int attempts = 0;

    Workflow<int> run() {
      co_return co_await step("ask", [this] {
        const std::string answer = ++attempts < 3 ? "<html>busy</html>" : "42";
        return value::decode<int>(answer, value::Mode::boundary);
      });
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(run.result<int>() == 42);
}

TEST_CASE("options that make no sense are refused where the step is described") {
  struct Case {
    std::string name;
    StepOptions options;
  };

  const auto cases = std::to_array<Case>({
      {"none", {.retry = {.attempts = 0}}},
      {"negative", {.retry = {.attempts = -1}}},
      {"", {}},
      {std::string(256, 'n'), {}},
      {"early", {.retry = {.initial = -1ms}}},
      {"never", {.timeout = 0ms}},
      {"shrinks", {.retry = {.factor = 0.5}}},
      {"twice at most once", {.retry = {.attempts = 2}, .mode = StepMode::at_most_once}},
  });

  for (const Case& c : cases) {
    CAPTURE(c.name);
    CHECK(code_of([&] { static_cast<void>(step(c.name, c.options, [] {})); }) ==
          "VALIDATION_ERROR");
  }
}

TEST_CASE("a step with no attempts fails the run that describes it and never runs") {
  struct Shop {
    bool ran = false;

    Workflow<> run() {
      co_await step("never", {.retry = {.attempts = 0}}, [this] { ran = true; });
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.run_until_idle();

  CHECK(run.status() == RunStatus::failed);
  CHECK(contains(run.error(), "VALIDATION_ERROR"));
  CHECK_FALSE(shop.ran);
}

TEST_CASE("bound arguments are copied: every attempt gets them as they were") {
  struct Shop {
    Strings seen{};

    Workflow<> run() {
      co_await step(
          "eat",
          [this](std::string meal) {
            seen.push_back(std::exchange(meal, "gone"));
            if (seen.size() < 3) throw std::runtime_error("again");
          },
          std::string("soup"));
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
  CHECK(shop.seen == Strings{"soup", "soup", "soup"});
}

TEST_CASE("each attempt is in the journal before it runs") {
  FlakyRun test{{.retry = {.attempts = 3, .initial = 1s, .jitter = false}}};

  test.engine.advance(1h);

  CHECK(kinds(test.run) == Strings{"started", "attempt_failed", "retry_due", "attempt_failed",
                                   "retry_due", "step_failed"});
  const std::vector<Entry> journal = test.run.journal();
  CHECK(journal[2].value.at("attempt") == 2);
  CHECK(journal[4].value.at("attempt") == 3);
  CHECK(test.run.version() == 5);
}

}  // namespace semel
