#include "serve/quotas.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace semel::serve {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a workspace takes a second's worth at once, and then what comes back") {
  Quotas quotas{{.requests_per_second = 4}};
  const auto refused = [&](const char* workspace, std::chrono::nanoseconds now) {
    return quotas.take(workspace, now).has_value();
  };

  for (int i = 0; i < 4; ++i) CHECK_FALSE(refused("a", 10s));
  CHECK(refused("a", 10s));
  CHECK_FALSE(refused("b", 10s));
  CHECK(refused("a", 10s + 249ms));
  CHECK_FALSE(refused("a", 10s + 250ms));
  CHECK(refused("a", 10s + 251ms));
  for (int i = 0; i < 4; ++i) CHECK_FALSE(refused("a", 60s));
  CHECK(refused("a", 60s));
}

TEST_CASE("who asks less than once a second is told when to come back") {
  Quotas quotas{{.requests_per_second = 0.1}};
  REQUIRE_FALSE(quotas.take("a", 5s));

  const auto refusal = quotas.take("a", 8s);

  REQUIRE(refusal);
  CHECK(refusal->status == 429);
  CHECK(refusal->headers.back() == http::Header{"retry-after", "7"});
  CHECK_FALSE(quotas.take("a", 15s));
}

TEST_CASE("threads together take no more than there is") {
  Quotas quotas{{.requests_per_second = 100}};
  std::atomic<int> taken{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 200; ++n) taken += quotas.take("a", 7s) ? 0 : 1;
      });
    }
  }

  CHECK(taken == 100);
}

TEST_CASE("without a limit nobody is refused") {
  Quotas quotas{{}};

  for (int i = 0; i < 1000; ++i) REQUIRE_FALSE(quotas.take("a", 1s));
  CHECK(quotas.is_measured());
}

}  // namespace
}  // namespace semel::serve
