#include "idempotency/timers.hpp"

#include "base/clock.hpp"

#include <doctest/doctest.h>

#include <future>
#include <vector>

namespace semel::idempotency {

using namespace std::chrono_literals;

TEST_CASE("actions are called in the order they fall due, and no earlier") {
  std::promise<void> done;
  std::vector<int> order;
  const auto begin = base::monotonic_now();
  std::chrono::nanoseconds last{};
  Timers timers;
  timers.after(30ms, [&] {
    order.push_back(3);
    last = base::monotonic_now();
    done.set_value();
  });
  timers.after(10ms, [&] { order.push_back(1); });
  timers.after(20ms, [&] { order.push_back(2); });

  done.get_future().wait();

  CHECK(order == std::vector<int>{1, 2, 3});
  CHECK(last - begin >= 30ms);
}

TEST_CASE("a cancelled action is never called") {
  std::promise<void> done;
  bool called = false;
  Timers timers;
  const auto id = timers.after(1ms, [&] { called = true; });
  const bool was_cancelled = timers.cancel(id);
  timers.after(20ms, [&] { done.set_value(); });

  done.get_future().wait();

  CHECK(called != was_cancelled);
  CHECK_FALSE(timers.cancel(id));
  CHECK_FALSE(timers.cancel(12345));
}

TEST_CASE("an action may set another, and destroy its timers") {
  std::promise<void> done;
  auto timers = std::make_unique<Timers>();
  Timers& all = *timers;
  all.after(1ms, [&] {
    all.after(1ms, [&] {
      timers.reset();
      done.set_value();
    });
  });

  done.get_future().wait();

  CHECK(timers == nullptr);
}

TEST_CASE("what is not due when its timers go is dropped") {
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  {
    Timers timers;
    timers.after(1h, [held = std::move(held)] {});
  }
  CHECK(watched.expired());
}

}  // namespace semel::idempotency
