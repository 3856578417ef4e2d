// How benchmarks count and judge. Their figures are nobody's test; `semel bench --short` runs in CI.
#include "app/bench_measure.hpp"
#include "app/bench_raw.hpp"
#include "app/bench_report.hpp"
#include "tests/support/api.hpp"

#include <boost/json.hpp>

#include <sstream>

namespace semel::app::bench {

TEST_CASE("a figure is the median of its rounds, with their extremes") {
  const Figure odd = figure_of({3, 1, 2});
  const Figure even = figure_of({4, 1, 2, 3});

  CHECK(odd.median == 2);
  CHECK(odd.low == 1);
  CHECK(odd.high == 3);
  CHECK(even.median == 2.5);
  CHECK(figure_of({}).median == 0);
}

TEST_CASE("a percentile is one of the values") {
  const std::vector<double> values{5, 1, 4, 2, 3};

  CHECK(percentile(values, 0) == 1);
  CHECK(percentile(values, 0.5) == 3);
  CHECK(percentile(values, 0.99) == 5);
  CHECK(percentile(values, 1) == 5);
  CHECK(percentile({}, 0.5) == 0);
}

TEST_CASE("a row is judged by its ratio, or by its value where the target says so") {
  Row row;
  row.value = figure_of({90'000});
  row.ratio = figure_of({0.5});

  CHECK(is_met(row, {Target::Of::ratio, Target::Sense::at_least, 0.45, false}));
  CHECK_FALSE(is_met(row, {Target::Of::ratio, Target::Sense::at_most, 0.45, false}));
  CHECK(is_met(row, {Target::Of::value, Target::Sense::exactly, 90'000, false}));
  CHECK_FALSE(is_met(row, {Target::Of::value, Target::Sense::at_least, 100'000, false}));
}

TEST_CASE("a target for quiet disks is not held against a slow one") {
  std::ostringstream out;
  Report report(out);
  report.set_flushes_per_second(100);
  Row row;
  row.section = "Section";
  row.name = "row";
  row.value = figure_of({10});
  row.targets = {{Target::Of::value, Target::Sense::at_least, 50, true},
                 {Target::Of::value, Target::Sense::at_least, 5, false},
                 {Target::Of::value, Target::Sense::at_least, 20, false}};

  report.add(row);
  report.summary();

  CHECK(out.str().find(">= 50/s (slow disk), >= 5/s ok, >= 20/s BELOW") != std::string::npos);
  CHECK(out.str().find("1 targets met, 1 below, 1 not judged because the disk made 100") !=
        std::string::npos);
  CHECK(report.json().at("rows").at(0).at("targets").at(2).at("verdict") ==
        boost::json::value("below"));
}

TEST_CASE("a limit that was beaten is no limit") {
  Row rate;
  rate.unit = Unit::per_second;
  rate.ratio = figure_of({1.3});
  Row latency;
  latency.unit = Unit::microseconds;
  latency.ratio = figure_of({0.5});

  CHECK(is_disturbed(rate));
  CHECK(is_disturbed(latency));

  rate.ratio = figure_of({0.5});
  latency.ratio = figure_of({1.3});
  CHECK_FALSE(is_disturbed(rate));
  CHECK_FALSE(is_disturbed(latency));
}

TEST_CASE("the raw log commits everything that waits together") {
  const test::TemporaryDirectory directory;
  SqliteRawLog log(directory.url().substr(7), {.first = 20, .step = 120, .last = 130});

  const Rate rate = log.group_commits(8, 10, Seconds{0});

  CHECK(rate.steps_per_second > 0);
  CHECK(rate.batch_mean > 7);
  CHECK(rate.batch_mean <= 8);
  CHECK_FALSE(log.single_commits(Seconds{0.005}).empty());
}

}  // namespace semel::app::bench
