// Who a process is among the nodes of a PostgreSQL store.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace semel::store::postgres {

/// What a process says of itself, and its present number. Outlives its connections, and is shared with whoever listens for it.
struct NodeIdentity {
  std::string
      name;  ///< for people; a newcomer of the same name takes over from one whose connection is gone at once
  std::chrono::nanoseconds lease{std::chrono::seconds{15}};
  std::atomic<std::int64_t> number{0};        ///< 0: not open
  std::atomic<std::uint64_t> leases_lost{0};  ///< how often others had taken over
  std::atomic<std::uint64_t> statements{0};   ///< sent on all its connections
};

}  // namespace semel::store::postgres
