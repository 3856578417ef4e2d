// What a driver measures, for metrics. Written by its threads, read by anybody.
#pragma once

#include "base/histogram.hpp"

#include <atomic>
#include <cstdint>

namespace semel::engine {

struct DriverMeter {
  base::Histogram commands{base::size_bounds};     ///< in a transaction
  base::Histogram commit_time{base::time_bounds};  ///< of a transaction, its flush included
  base::Histogram commit_wait{base::time_bounds};  ///< of the oldest command before it
  base::Histogram step_wait{base::time_bounds};    ///< of a blocking body for a thread
  std::atomic<std::uint64_t> store_errors{0};      ///< transactions that failed
  std::atomic<std::uint64_t> leases_lost{0};       ///< of them, because others had taken over
};

}  // namespace semel::engine
