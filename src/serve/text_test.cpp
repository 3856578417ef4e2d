#include "serve/text.hpp"

#include <semel/http.hpp>

#include <doctest/doctest.h>

#include <array>

namespace semel::serve {
namespace {

using namespace std::chrono_literals;

TEST_CASE("durations have a number and a unit, and nothing else") {
  struct Case {
    std::string_view text;
    std::optional<Millis> duration;
  };

  for (const auto& [text, duration] :
       std::to_array<Case>({{"500ms", 500ms},
                            {"30s", 30s},
                            {"15m", 15min},
                            {"24h", 24h},
                            {"30d", 720h},
                            {"0s", 0s},
                            {"", std::nullopt},
                            {"30", std::nullopt},
                            {"s", std::nullopt},
                            {"-1s", std::nullopt},
                            {"+1s", std::nullopt},
                            {"1.5s", std::nullopt},
                            {"1 s", std::nullopt},
                            {"1S", std::nullopt},
                            {"1s ", std::nullopt},
                            {"36500d", 876000h},
                            {"36501d", std::nullopt},
                            {"99999999999999999999ms", std::nullopt}})) {
    CAPTURE(text);
    CHECK(read_duration(text) == duration);
  }
}

TEST_CASE("times have milliseconds and are read back") {
  const auto time = read_time("2026-01-31T12:00:00.123456Z");
  REQUIRE(time);
  CHECK(time_text(*time) == "2026-01-31T12:00:00.123Z");
  CHECK_FALSE(read_time("yesterday"));
  CHECK_FALSE(read_time("2026-01-31"));
}

TEST_CASE("If-Match is one version or any") {
  CHECK(read_version("\"7\"") == 7);
  CHECK_FALSE(read_version("*"));
  CHECK(read_version(version_text(12)) == 12);
  for (const char* text : {"", "7", "\"\"", "\"7", "W/\"7\"", "\"-1\"", "\"7\", \"8\"", "\"x\""}) {
    CAPTURE(text);
    CHECK_THROWS_AS(read_version(text), http::ProblemError);
  }
}

TEST_CASE("a cursor is read back, and what is none is refused") {
  const TimePoint time = *read_time("2026-01-31T12:00:00.123456Z");
  CHECK(read_run_cursor(cursor_text(time, "a:b")) == std::pair{time, std::string("a:b")});
  CHECK(read_number_cursor(cursor_text(42)) == 42);
  for (const char* cursor : {"", "x", "!!!!", "AAAA", "MTI", "LTE6"}) {
    CAPTURE(cursor);
    CHECK_THROWS_AS(read_run_cursor(cursor), http::ProblemError);
    CHECK_THROWS_AS(read_number_cursor(cursor), http::ProblemError);
  }
}

}  // namespace
}  // namespace semel::serve
