// How often values fell into which range; for metrics. Any thread may add: each addition is two atomic ones.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace semel::base {

class Histogram {
 public:
  static constexpr std::size_t bounds_max = 16;

  /// Upper ends of the ranges, ascending, each of its own range; they outlive this. What is above the last is counted too.
  explicit Histogram(std::span<const std::uint64_t> bounds)
      : bounds_(bounds.first(std::min(bounds.size(), bounds_max))) {}

  void add(std::uint64_t value) {
    const auto range = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
    counts_[static_cast<std::size_t>(range)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  /// In nanoseconds; a clock that was read in the wrong order counts for nothing.
  void add(std::chrono::nanoseconds time) {
    add(static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0)));
  }

  std::span<const std::uint64_t> bounds() const { return bounds_; }

  /// Of the range that ends at `bounds()[range]`; behind them, of what is above.
  std::uint64_t count(std::size_t range) const {
    return counts_[range].load(std::memory_order_relaxed);
  }

  std::uint64_t sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::span<const std::uint64_t> bounds_;
  std::array<std::atomic<std::uint64_t>, bounds_max + 1> counts_{};
  std::atomic<std::uint64_t> sum_{0};
};

/// From what memory takes to what a client waits for; in nanoseconds.
inline constexpr auto time_bounds = std::to_array<std::uint64_t>(
    {100'000, 250'000, 500'000, 1'000'000, 2'500'000, 5'000'000, 10'000'000, 25'000'000, 50'000'000,
     100'000'000, 250'000'000, 500'000'000, 1'000'000'000, 2'500'000'000, 10'000'000'000});

inline constexpr auto size_bounds =
    std::to_array<std::uint64_t>({1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096});

}  // namespace semel::base
