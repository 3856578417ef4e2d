#include "base/histogram.hpp"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

namespace semel::base {
namespace {

TEST_CASE("a value is counted in the range that ends at or above it") {
  static constexpr auto bounds = std::to_array<std::uint64_t>({10, 20});
  Histogram histogram{bounds};

  for (const std::uint64_t value : {0U, 10U, 11U, 20U, 21U, 1000U}) histogram.add(value);

  CHECK(histogram.count(0) == 2);
  CHECK(histogram.count(1) == 2);
  CHECK(histogram.count(2) == 2);
  CHECK(histogram.sum() == 1062);
}

TEST_CASE("no value is lost between threads") {
  Histogram histogram{size_bounds};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 1000; ++n) histogram.add(std::uint64_t{3});
      });
    }
  }

  CHECK(histogram.count(2) == 4000);
  CHECK(histogram.sum() == 12000);
}

TEST_CASE("time that ran backwards counts for nothing") {
  Histogram histogram{time_bounds};

  histogram.add(std::chrono::nanoseconds{-5});

  CHECK(histogram.count(0) == 1);
  CHECK(histogram.sum() == 0);
}

}  // namespace
}  // namespace semel::base
