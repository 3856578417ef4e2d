// Two served engines on one PostgreSQL store, each with its share of the runs.
#pragma once

#include "tests/serve/served.hpp"

#include <latch>
#include <thread>

namespace semel::serving {

struct TwoServers {
  explicit TwoServers(const http::WorkspaceLimits& limits = {})
      : a(url, limits, {.node = "a", .lease = 2s}), b(url, limits, {.node = "b", .lease = 2s}) {
    settle();
  }

  /// Until both have half of the partitions: from then on a run that is started at one of them stays there.
  void settle() {
    for (;;) {
      const auto shares = a.engine.transaction([](sql::Transaction& tx) {
        return tx.query<std::int64_t>(
            "SELECT count(*) FROM semel.partition WHERE node IS NOT NULL GROUP BY node");
      });
      if (shares == std::vector<std::int64_t>{32, 32}) return;
    }
  }

  const std::string url = testing::fresh_store();
  Served a;
  Served b;
};

/// `count` requests at the same time, the odd ones to the second server.
inline std::vector<RawAnswer> all_at_once(const Served& first, const Served& second, int count,
                                          const Wanted& wanted) {
  std::vector<RawAnswer> answers(static_cast<std::size_t>(count));
  std::latch begin(count);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        const Served& to = i % 2 == 0 ? first : second;
        RawClient client(to.server->port());
        begin.arrive_and_wait();
        answers[static_cast<std::size_t>(i)] = to.ask_by(client, wanted);
      });
    }
  }
  return answers;
}

}  // namespace semel::serving
