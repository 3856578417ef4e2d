#include "serve/metrics.hpp"

#include <doctest/doctest.h>

namespace semel::serve {
namespace {

TEST_CASE("a histogram is told in ranges that add up") {
  static constexpr auto bounds = std::to_array<std::uint64_t>({500'000'000, 2'000'000'000});
  base::Histogram histogram{bounds};
  for (const std::uint64_t value : {500'000'000ULL, 1'000'000'000ULL, 9'000'000'000ULL})
    histogram.add(value);
  MetricsText text;

  text.begin("wait_seconds", MetricsText::Kind::histogram, "How long");
  text.sample("route=\"/x\"", histogram, 1e9);

  CHECK(text.take() ==
        "# HELP semel_wait_seconds How long\n"
        "# TYPE semel_wait_seconds histogram\n"
        "semel_wait_seconds_bucket{route=\"/x\",le=\"0.5\"} 1\n"
        "semel_wait_seconds_bucket{route=\"/x\",le=\"2\"} 2\n"
        "semel_wait_seconds_bucket{route=\"/x\",le=\"+Inf\"} 3\n"
        "semel_wait_seconds_sum{route=\"/x\"} 10.5\n"
        "semel_wait_seconds_count{route=\"/x\"} 3\n");
}

TEST_CASE("counters and gauges are told with what they are") {
  MetricsText text;

  text.counter("a_total", "A", 7);
  text.gauge("b", "B", 0);

  CHECK(text.take() ==
        "# HELP semel_a_total A\n# TYPE semel_a_total counter\nsemel_a_total 7\n"
        "# HELP semel_b B\n# TYPE semel_b gauge\nsemel_b 0\n");
}

}  // namespace
}  // namespace semel::serve
