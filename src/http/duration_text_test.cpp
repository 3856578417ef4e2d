#include "http/duration_text.hpp"

#include <doctest/doctest.h>

#include <array>

namespace semel::http {

using namespace std::chrono_literals;

TEST_CASE("a duration is a whole number and a unit") {
  struct Case {
    std::string_view text;
    std::optional<std::chrono::nanoseconds> duration;
  };

  const auto cases = std::to_array<Case>({{"500ms", 500ms},
                                          {"30s", 30s},
                                          {"5m", 5min},
                                          {"24h", 24h},
                                          {"30d", 720h},
                                          {"0s", 0s},
                                          {"36500d", 24h * 36500},
                                          {"36501d", {}},
                                          {"99999999999999999999s", {}},
                                          {"", {}},
                                          {"s", {}},
                                          {"30", {}},
                                          {"-1s", {}},
                                          {"1.5s", {}},
                                          {" 1s", {}},
                                          {"1 s", {}},
                                          {"1S", {}},
                                          {"1us", {}},
                                          {"1h30m", {}}});
  for (const Case& each : cases) {
    CAPTURE(each.text);
    CHECK(read_duration(each.text) == each.duration);
  }
}

}  // namespace semel::http
