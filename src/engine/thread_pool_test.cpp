#include "engine/thread_pool.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <memory>

namespace semel::engine {

TEST_CASE("all work that is given is done") {
  constexpr int count = 200;
  std::latch done{count};
  ThreadPool pool{4};

  for (int i = 0; i < count; ++i) pool.submit([&] { done.count_down(); });

  done.wait();
  CHECK(done.try_wait());
}

TEST_CASE("as many threads as allowed work side by side") {
  std::latch all_here{4};
  std::latch done{4};
  ThreadPool pool{4};

  for (int i = 0; i < 4; ++i) {
    pool.submit([&] {
      all_here.arrive_and_wait();
      done.count_down();
    });
  }

  done.wait();
  CHECK(done.try_wait());
}

TEST_CASE("no more threads than allowed work at a time") {
  constexpr int count = 100;
  std::atomic<int> inside = 0;
  std::atomic<bool> too_many = false;
  std::latch done{count};
  ThreadPool pool{2};

  for (int i = 0; i < count; ++i) {
    pool.submit([&] {
      if (++inside > 2) too_many = true;
      std::this_thread::yield();
      --inside;
      done.count_down();
    });
  }

  done.wait();
  CHECK_FALSE(too_many);
}

TEST_CASE("work that waits for other work does not take its thread") {
  std::latch inner{1};
  std::latch outer{1};
  ThreadPool pool{1};

  pool.submit([&] {
    pool.submit([&] { inner.count_down(); });
    const ThreadPool::Blocked blocked;
    inner.wait();
    outer.count_down();
  });

  outer.wait();
  CHECK(outer.try_wait());
}

TEST_CASE("a pool that goes waits for the work that has begun and drops the rest") {
  std::latch begun{1};
  std::latch may_end{1};
  std::atomic<int> done = 0;
  auto dropped = std::make_shared<int>(0);
  auto pool = std::make_unique<ThreadPool>(1U);
  pool->submit([&] {
    begun.count_down();
    may_end.wait();
    ++done;
  });
  pool->submit([&, dropped] { ++done; });
  begun.wait();

  std::jthread going([&] { pool.reset(); });
  while (dropped.use_count() > 1) std::this_thread::yield();
  CHECK(done == 0);
  may_end.count_down();
  going.join();

  CHECK(done == 1);
}

TEST_CASE("threads that were made while others were blocked do not make it more at a time") {
  std::latch both_blocked{2};
  std::latch all_done{8};
  std::atomic<int> at_once = 0;
  std::atomic<int> most = 0;
  ThreadPool pool{1};
  for (int i = 0; i < 2; ++i) {
    pool.submit([&] {
      const ThreadPool::Blocked blocked;
      both_blocked.arrive_and_wait();
    });
  }
  both_blocked.wait();

  for (int i = 0; i < 8; ++i) {
    pool.submit([&] {
      most = std::max(most.load(), ++at_once);
      std::this_thread::yield();
      --at_once;
      all_done.count_down();
    });
  }
  all_done.wait();

  CHECK(most == 1);
}

TEST_CASE("a pool of no threads has one") {
  std::latch done{1};
  ThreadPool pool{0};

  pool.submit([&] { done.count_down(); });

  done.wait();
  CHECK(done.try_wait());
}

}  // namespace semel::engine
