// The lines of a server's log, and what an engine tells about its runs.
#include "app/cli_log.hpp"

#include "base/clock.hpp"

#include <semel/semel.hpp>

#include <boost/json.hpp>
#include <doctest/doctest.h>

#include <chrono>
#include <mutex>
#include <sstream>

namespace semel::app {
namespace {

using namespace std::chrono_literals;

const TimePoint noon{std::chrono::sys_days{std::chrono::year{2026} / 1 / 31} + 12h};

LogEvent failed_run() {
  return {.level = LogLevel::info,
          .name = "run.failed",
          .message = "a run failed",
          .fields = {{"run", "r-1"}, {"attempts", std::int64_t{3}}}};
}

TEST_CASE("an event is a line of JSON, or of text") {
  CHECK(
      json_line(failed_run(), noon, "shop-1") ==
      R"({"time":"2026-01-31T12:00:00.000Z","level":"info","event":"run.failed","message":"a run failed","node":"shop-1","run":"r-1","attempts":3})"
      "\n");
  CHECK(text_line(failed_run(), noon) ==
        "2026-01-31T12:00:00.000Z info run.failed: a run failed (run=r-1, attempts=3)\n");
}

TEST_CASE("a name with a line feed in it does not make two lines") {
  LogEvent event = failed_run();
  event.fields = {{"run", "r-1\n2026 error: forged"}};
  for (const std::string& line : {json_line(event, noon, ""), text_line(event, noon)})
    CHECK(line.find('\n') == line.size() - 1);
}

TEST_CASE("lines are written in order, all of them when the writer goes") {
  std::ostringstream out;
  std::string expected;
  {
    LineWriter writer(out);
    for (int i = 0; i < 1000; ++i) {
      const std::string line = std::to_string(i) + "\n";
      writer.add_or_drop(line);
      expected += line;
    }
  }
  CHECK(out.str() == expected);
}

Workflow<int> pays(std::string card) {
  co_return co_await step(
      "charge", {.retry = {.attempts = 2, .initial = 1ms}},
      [](const std::string& number) -> int { throw RetryableError("declined: " + number); }, card);
}

Workflow<int> is_fine(std::string card) { co_return static_cast<int>(card.size()); }

struct Logged {
  std::mutex mutex;
  std::vector<LogEvent> events;

  EngineOptions options(LogLevel level) {
    EngineOptions options;
    options.log_level = level;
    options.log = [this](const LogEvent& event) {
      const std::lock_guard lock(mutex);
      events.push_back(event);
    };
    return options;
  }

  std::vector<std::string> names() {
    const std::lock_guard lock(mutex);
    std::vector<std::string> names;
    for (const LogEvent& event : events) names.emplace_back(event.name);
    return names;
  }
};

TEST_CASE("an engine tells what happens to runs, by their ids and without what is in them") {
  Logged logged;
  const std::string secret = "4111-1111-1111-1111";
  {
    Engine engine{"memory:", logged.options(LogLevel::debug)};
    engine.add("pays", pays);
    engine.add("fine", is_fine);
    engine.start_workers();
    CHECK_THROWS(engine.start({.key = "key-" + secret, .run_id = "order-1"}, pays, secret)
                     .run.result<int>());
    CHECK(engine.start({.run_id = "order-2"}, is_fine, secret).run.result<int>() == 19);
  }
  CHECK(logged.names() == std::vector<std::string>{"run.started", "step.attempt_failed",
                                                   "step.failed", "run.failed", "run.started",
                                                   "run.completed"});
  const base::SystemClock clock;
  std::string all;
  for (const LogEvent& event : logged.events) all += json_line(event, clock.now(), "");
  CHECK(all.find(secret) == std::string::npos);
  CHECK(
      all.find(
          R"("run":"order-1","workspace":"default","workflow":"pays","step":"charge","attempt":1,"code":)") !=
      std::string::npos);
  CHECK(all.find(R"("event":"run.failed","message":"a run failed","run":"order-1")") !=
        std::string::npos);
}

TEST_CASE("what is below the level is not told") {
  Logged logged;
  {
    Engine engine{"memory:", logged.options(LogLevel::info)};
    engine.add("fine", is_fine);
    engine.start_workers();
    CHECK(engine.start({}, is_fine, "x").run.result<int>() == 1);
  }
  CHECK(logged.names().empty());
}

}  // namespace
}  // namespace semel::app
