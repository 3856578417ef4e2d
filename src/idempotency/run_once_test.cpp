#include "idempotency/memory_store.hpp"
#include "idempotency/owner.hpp"

#include <semel/idempotency.hpp>

#include <boost/describe.hpp>
#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <future>
#include <set>
#include <thread>
#include <vector>

namespace semel::idempotency {

using namespace std::chrono_literals;

namespace {

struct Receipt {
  std::string id;
  double amount = 0;
  std::optional<std::string> note{};

  bool operator==(const Receipt&) const = default;
};

BOOST_DESCRIBE_STRUCT(Receipt, (), (id, amount, note))

struct Import {
  std::string importId;
  int rows = 0;
};

BOOST_DESCRIBE_STRUCT(Import, (), (importId, rows))

/// A store whose clock the test owns.
struct World {
  std::shared_ptr<base::ManualClock> clock =
      std::make_shared<base::ManualClock>(TimePoint{1'700'000'000s});
  std::unique_ptr<IdempotencyStore> store = make_memory_store(clock);

  void pass(std::chrono::nanoseconds time) {
    clock->set(clock->now() + std::chrono::duration_cast<TimePoint::duration>(time));
  }

  KernelCounters counters() const { return store->kernel().counters(); }
};

const IdempotencyOptions charge{.ns = "orders", .key = "k", .fingerprint = "7"};

template <class F>
std::string code_of(F call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return "nothing";
}

/// Runs a Task that never waits for another thread.
template <class T>
T finish(Task<T> task) {
  std::optional<T> result;
  std::exception_ptr error;
  [](Task<T>& awaited, std::optional<T>& value,
     std::exception_ptr& failure) -> semel::detail::Detached {
    try {
      value = co_await awaited;
    } catch (...) {
      failure = std::current_exception();
    }
  }(task, result, error);
  if (error) std::rethrow_exception(error);
  return *std::move(result);
}

Task<int> one_task(int& runs) {
  ++runs;
  co_return 41 + runs;
}

}  // namespace

TEST_CASE("a function runs once under its key and everybody gets its result") {
  World world;
  int runs = 0;
  const auto ask = [&] {
    return run_idempotently(*world.store, charge, [&] {
      ++runs;
      return Receipt{"r1", 0.1, "paid"};
    });
  };

  CHECK(ask() == Receipt{"r1", 0.1, "paid"});
  CHECK(ask() == Receipt{"r1", 0.1, "paid"});
  CHECK(ask() == Receipt{"r1", 0.1, "paid"});

  CHECK(runs == 1);
  CHECK(world.counters().misses == 1);
  CHECK(world.counters().hits == 2);
  CHECK(world.counters().cache_hits == 1);
}

TEST_CASE("a function without a result runs once as well") {
  World world;
  int runs = 0;
  for (int i = 0; i < 3; ++i) run_idempotently(*world.store, charge, [&] { ++runs; });
  CHECK(runs == 1);
}

TEST_CASE("the result is decoded from what is stored, also the first time") {
  World world;
  const auto first = run_idempotently(*world.store, charge, [] { return std::optional<int>{}; });
  CHECK_FALSE(first);
  IdempotencyOptions other = charge;
  other.key = "nan";
  CHECK(code_of([&] {
          run_idempotently(*world.store, other,
                           [] { return std::numeric_limits<double>::quiet_NaN(); });
        }) == "VALIDATION_ERROR");
  // What cannot be stored counts as not done.
  CHECK(run_idempotently(*world.store, other, [] { return 1.5; }) == 1.5);
}

TEST_CASE("other input under the same key is a conflict, and so is a duplicate where it is to be") {
  World world;
  CHECK(run_idempotently(*world.store, charge, [] { return 1; }) == 1);
  IdempotencyOptions other = charge;
  other.fingerprint = "8";
  CHECK_THROWS_AS(run_idempotently(*world.store, other, [] { return 2; }),
                  IdempotencyConflictError);
  IdempotencyOptions once = charge;
  once.replay = Replay::error;
  CHECK(code_of([&] { run_idempotently(*world.store, once, [] { return 2; }); }) ==
        "IDEMPOTENCY_CONFLICT");
  CHECK(run_idempotently(*world.store, charge, [] { return 3; }) == 1);
  CHECK(world.counters().conflicts == 1);
}

TEST_CASE("namespaces and scopes keep keys apart") {
  World world;
  int runs = 0;
  const auto ask = [&](IdempotencyOptions options) {
    return run_idempotently(*world.store, options, [&] { return ++runs; });
  };
  CHECK(ask({.ns = "a", .key = "k"}) == 1);
  CHECK(ask({.ns = "b", .key = "k"}) == 2);
  CHECK(ask({.ns = "a", .key = "k", .scope = {{"tenant", "t1"}}}) == 3);
  CHECK(ask({.ns = "a", .key = "k", .scope = {{"tenant", "t2"}}}) == 4);
  CHECK(ask({.ns = "a", .key = "k", .scope = {{"tenant", "t1"}}}) == 3);
}

TEST_CASE("a function that throws frees its key") {
  World world;
  CHECK_THROWS_WITH(
      run_idempotently(*world.store, charge, []() -> int { throw std::runtime_error("no luck"); }),
      "no luck");
  CHECK(run_idempotently(*world.store, charge, [] { return 2; }) == 2);
}

TEST_CASE("a duplicate of something under way is told so") {
  World world;
  std::string inner;
  run_idempotently(*world.store, charge, [&] {
    inner = code_of([&] { run_idempotently(*world.store, charge, [] { return 1; }); });
    return 1;
  });
  CHECK(inner == "IDEMPOTENCY_IN_PROGRESS");
  CHECK(world.counters().in_progress == 1);
}

TEST_CASE("a result is remembered for its time, to the millisecond") {
  World world;
  int runs = 0;
  IdempotencyOptions options = charge;
  options.ttl = 1h;
  const auto ask = [&] { return run_idempotently(*world.store, options, [&] { return ++runs; }); };
  CHECK(ask() == 1);
  CHECK(ask() == 1);
  world.pass(1h - 1ms);
  CHECK(ask() == 1);
  world.pass(1ms);
  CHECK(ask() == 2);
}

TEST_CASE("an owner whose lease was taken over cannot complete") {
  World world;
  const std::string code = code_of([&] {
    run_idempotently(*world.store, charge, [&] {
      world.pass(31s);  // paused for longer than the lease
      CHECK(run_idempotently(*world.store, charge, [] { return 2; }) == 2);
      return 1;
    });
  });
  CHECK(code == "FENCE_LOST");
  CHECK(run_idempotently(*world.store, charge, [] { return 3; }) == 2);
  CHECK(world.counters().takeovers == 1);
  CHECK(world.counters().fences_lost == 1);
}

TEST_CASE("an owner that fails after it was taken over frees nothing") {
  World world;
  CHECK_THROWS_AS(
      run_idempotently(*world.store, charge,
                       [&]() -> int {
                         world.pass(31s);
                         CHECK(run_idempotently(*world.store, charge, [] { return 2; }) == 2);
                         throw std::runtime_error("late");
                       }),
      std::runtime_error);
  CHECK(run_idempotently(*world.store, charge, [] { return 3; }) == 2);
}

TEST_CASE("a lease is renewed while its function runs") {
  const auto store = memory_idempotency_store();
  IdempotencyOptions options = charge;
  options.lease = 1s;
  store::FindReservation look{.id = {.ns = options.ns, .scope = "", .key = options.key}};
  const auto lease_until = [&] {
    return std::get<store::ReservationFound>(store->kernel().call(look).value())
        .reservation.lease_until;
  };
  run_idempotently(*store, options, [&] {
    const TimePoint first = lease_until();
    while (lease_until() == first) std::this_thread::yield();
    CHECK(code_of([&] { run_idempotently(*store, options, [] { return 2; }); }) ==
          "IDEMPOTENCY_IN_PROGRESS");
    return 1;
  });
  CHECK(run_idempotently(*store, options, [] { return 3; }) == 1);
}

TEST_CASE("a result too large to keep is not made twice") {
  World world;
  world.store = make_memory_store(world.clock, {.answer_bytes_max = 100});
  const std::string large(200, 'x');
  CHECK(run_idempotently(*world.store, charge, [&] { return large; }) == large);
  CHECK(code_of([&] { run_idempotently(*world.store, charge, [&] { return large; }); }) ==
        "IDEMPOTENCY_RESPONSE_NOT_RETAINED");
}

TEST_CASE("keys and times that make no sense are refused, and nothing runs") {
  World world;
  bool ran = false;
  const auto code = [&](IdempotencyOptions options) {
    return code_of([&] { run_idempotently(*world.store, options, [&] { ran = true; }); });
  };
  CHECK(code({.ns = "n", .key = ""}) == "IDEMPOTENCY_KEY_INVALID");
  CHECK(code({.ns = "n", .key = std::string(256, 'k')}) == "IDEMPOTENCY_KEY_INVALID");
  CHECK(code({.ns = "n", .key = "k", .ttl = 0ms}) == "VALIDATION_ERROR");
  CHECK(code({.ns = "n", .key = "k", .lease = -1ms}) == "VALIDATION_ERROR");
  CHECK_FALSE(ran);
  CHECK(code({.ns = "n", .key = std::string(255, 'k'), .ttl = Millis::max()}) == "nothing");
}

TEST_CASE("a step gets its own unfinished work again") {
  World world;
  const std::string mine = "step-1";
  const std::string other = "step-2";
  const StepScope scope{mine};
  const std::string earlier = code_of([&] {
    run_idempotently(*world.store, charge, [&] {
      const auto busy = [&](const IdempotencyOptions& options) {
        return code_of([&] { run_idempotently(*world.store, options, [] { return 0; }); });
      };
      {
        const StepScope another{other};
        CHECK(busy(charge) == "IDEMPOTENCY_IN_PROGRESS");
      }
      CHECK(current_step() == mine);
      IdempotencyOptions named = charge;
      named.owner = other;
      CHECK(busy(named) == "IDEMPOTENCY_IN_PROGRESS");
      // As its recovery after a crash would.
      CHECK(run_idempotently(*world.store, charge, [] { return 2; }) == 2);
      return 1;
    });
  });
  CHECK(earlier == "FENCE_LOST");
  CHECK(world.counters().takeovers == 1);
  CHECK(run_idempotently(*world.store, charge, [] { return 3; }) == 2);
}

TEST_CASE("16 threads on one key: one execution, round after round") {
  const auto store = memory_idempotency_store();
  std::atomic<int> runs{0};
  std::atomic<int> results{0};
  std::atomic<int> busy{0};
  constexpr int rounds = 200;
  constexpr int threads = 16;
  std::barrier together{threads};
  {
    std::vector<std::jthread> all;
    for (int thread = 0; thread < threads; ++thread) {
      all.emplace_back([&] {
        for (int round = 0; round < rounds; ++round) {
          together.arrive_and_wait();
          try {
            const int result = run_idempotently(*store, {.ns = "n", .key = std::to_string(round)},
                                                [&] { return ++runs; });
            CHECK(result == round + 1);
            ++results;
          } catch (const IdempotencyInProgressError&) {
            ++busy;
          }
          together.arrive_and_wait();
        }
      });
    }
  }
  CHECK(runs == rounds);
  CHECK(results + busy == rounds * threads);
  CHECK(results >= rounds);
}

TEST_CASE("awaited, it does the same: functions, tasks, failures, replays") {
  World world;
  int runs = 0;
  CHECK(finish(run_idempotently_async(*world.store, charge, [&] { return one_task(runs); })) == 42);
  CHECK(finish(run_idempotently_async(*world.store, charge, [&] { return one_task(runs); })) == 42);
  CHECK(finish(run_idempotently_async(*world.store, charge, [&] { return ++runs; })) == 42);
  CHECK(run_idempotently(*world.store, charge, [] { return 0; }) == 42);
  CHECK(runs == 1);

  IdempotencyOptions other = charge;
  other.key = "other";
  CHECK_THROWS_AS(finish(run_idempotently_async(*world.store, other,
                                                []() -> int { throw std::runtime_error("no"); })),
                  std::runtime_error);
  CHECK(finish(run_idempotently_async(*world.store, other, [] { return 5; })) == 5);
  other.fingerprint = "8";
  CHECK_THROWS_AS(finish(run_idempotently_async(*world.store, other, [] { return 5; })),
                  IdempotencyConflictError);
  other.key = "";
  CHECK(code_of([&] { finish(run_idempotently_async(*world.store, other, [] { return 5; })); }) ==
        "IDEMPOTENCY_KEY_INVALID");
}

TEST_CASE("a fingerprint is that of the value, whichever way it is written") {
  CHECK(fingerprint(Import{"a", 7}) ==
        fingerprint(value::from_text(R"({ "rows": 7.0, "importId": "a" })")));
  CHECK(fingerprint(Import{"a", 7}) != fingerprint(Import{"b", 7}));
  CHECK(fingerprint(Receipt{"r", 1}) == fingerprint(value::from_text(R"({"id":"r","amount":1})")));
  CHECK(fingerprint(Import{"a", 7}).size() == 64);
  CHECK(fingerprint(std::string("x")) != fingerprint(std::string("y")));
}

TEST_CASE("members can be left out of a fingerprint") {
  const FingerprintOptions options{.omit = {"importId"}};
  CHECK(fingerprint(Import{"a", 7}, options) == fingerprint(Import{"b", 7}, options));
  CHECK(fingerprint(Import{"a", 7}, options) != fingerprint(Import{"a", 8}, options));
  CHECK(fingerprint(Import{"a", 7}, options) == fingerprint(value::from_text(R"({"rows":7})")));
  const auto of = [](const char* json, std::vector<std::string> omit) {
    return fingerprint(value::from_text(json), {.omit = std::move(omit)});
  };
  CHECK(of(R"({"a":{"x":[1,"}",{"a":2}]},"b":"\"},","c":1})", {"b"}) ==
        of(R"({"a":{"x":[1,"}",{"a":2}]},"c":1})", {}));
  CHECK(of(R"({"a":{"x":[1,"}",{"a":2}]},"b":1})", {"a"}) == of(R"({"b":1})", {}));
  CHECK(of(R"({"a":{"b":1}})", {"b"}) == of(R"({"a":{"b":1}})", {}));
  CHECK(of(R"({"a\"b":1,"c":2})", {"a\"b"}) == of(R"({"c":2})", {}));
  CHECK(of(R"({"a":1})", {"a"}) == of("{}", {}));
  CHECK(of("[1]", {"a"}) == of("[1]", {}));
  CHECK(of("{}", {"a", "a"}) == of("{}", {}));
}

}  // namespace semel::idempotency
