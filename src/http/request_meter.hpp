// What became of the requests of one route, for metrics. Connections of all threads share it, so it has no lock.
#pragma once

#include "base/histogram.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace semel::http {

class RequestMeter {
 public:
  static constexpr std::size_t classes = 6;

  /// `route` is the pattern, not what was asked for: clients must not be able to make up names.
  RequestMeter(std::string method, std::string route)
      : method_(std::move(method)), route_(std::move(route)) {}

  /// The answer, or the head of a stream, was given after so long.
  void answered(int status, std::chrono::nanoseconds after) {
    count(status);
    time_.add(after);
  }

  /// The same for what was refused before anybody could look at it.
  void count(int status) {
    const auto its = static_cast<std::size_t>(status / 100);
    by_class_[its < classes ? its : 0].fetch_add(1, std::memory_order_relaxed);
  }

  const std::string& method() const { return method_; }

  const std::string& route() const { return route_; }

  /// `status_class`: 2 for 2xx.
  std::uint64_t answers(std::size_t status_class) const {
    return by_class_[status_class].load(std::memory_order_relaxed);
  }

  const base::Histogram& time() const { return time_; }

 private:
  const std::string method_;
  const std::string route_;
  std::array<std::atomic<std::uint64_t>, classes> by_class_{};
  base::Histogram time_{base::time_bounds};
};

}  // namespace semel::http
