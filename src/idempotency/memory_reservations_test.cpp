#include "idempotency/memory_reservations.hpp"

#include "base/random.hpp"
#include "tests/contract/describe.hpp"
#include "tests/contract/model_store.hpp"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

namespace semel::idempotency {

using namespace std::chrono_literals;
using store::Answer;
using store::Command;
using store::ReservationId;

namespace {

/// Few keys and short times, so that they meet each other often.
class Commands {
 public:
  Commands(std::uint64_t seed, const store::Model& model) : random_(seed), model_(model) {}

  Command next() {
    now_ += random_.one_in(10) ? 1h * random_.below(3) : 1s * random_.below(40);
    const ReservationId id{.ns = "n", .key = random_.one_in(2) ? "a" : "b"};
    const store::Fence fence = pick_fence(id);
    switch (random_.below(10)) {
      case 0:
      case 1:
        return store::Complete{.id = id,
                               .fence = fence,
                               .state = static_cast<store::ReservationState>(1 + random_.below(3)),
                               .answer = random_.one_in(2) ? "1" : "2",
                               .now = now_};
      case 2:
        return store::Release{.id = id, .fence = fence, .now = now_};
      case 3:
        return store::Renew{.id = id, .fence = fence, .lease = some_time(), .now = now_};
      case 4:
        return store::Forget{.id = id, .force = random_.one_in(2), .now = now_};
      case 5:
        return store::FindReservation{.id = id, .now = now_};
      default:
        return store::Reserve{.id = id,
                              .fingerprint = random_.one_in(5) ? "other" : "same",
                              .owner = random_.one_in(3) ? "me" : "",
                              .lease = some_time(),
                              .ttl = some_time(),
                              .on_abandoned = random_.one_in(3) ? store::OnAbandoned::unknown
                                                                : store::OnAbandoned::run,
                              .now = now_};
    }
  }

 private:
  std::chrono::nanoseconds some_time() { return 1s * random_.below(200); }

  store::Fence pick_fence(const ReservationId& id) {
    const auto found = model_.reservations.find(id);
    if (found != model_.reservations.end() && !random_.one_in(5)) return found->second.fence;
    return static_cast<store::Fence>(random_.below(10));
  }

  base::SeededRandom random_;
  const store::Model& model_;
  TimePoint now_{std::chrono::seconds{1'700'000'000}};
};

}  // namespace

TEST_CASE("memory answers every sequence of commands as the model does") {
  std::vector<int> seen(std::variant_size_v<Answer>);
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    const auto model = std::make_shared<store::Model>();
    const auto specification = store::make_model_store(model);
    MemoryReservations memory;
    Commands commands{seed, *model};
    for (int i = 0; i < 300; ++i) {
      const Command command = commands.next();
      const Answer specified = specification->execute({&command, 1}).value().front();
      const Answer actual = memory.execute(command);
      CAPTURE(i);
      REQUIRE(store::describe(actual) == store::describe(specified));
      const auto* acquired = std::get_if<store::Acquired>(&actual);
      if (acquired != nullptr)
        REQUIRE(acquired->fence == std::get<store::Acquired>(specified).fence);
      ++seen[actual.index()];
    }
  }
  const auto has_seen = [&](const Answer& kind) { return seen[kind.index()] > 0; };
  CHECK(has_seen(store::Acquired{}));
  CHECK(has_seen(store::Replay{}));
  CHECK(has_seen(store::InProgress{}));
  CHECK(has_seen(store::KeyReused{}));
  CHECK(has_seen(store::OutcomeUnknown{}));
  CHECK(has_seen(store::FenceLost{}));
  CHECK(has_seen(store::ReservationFound{}));
  CHECK(has_seen(store::ReservationMissing{}));
}

TEST_CASE("memory holds no more than what has not expired") {
  MemoryReservations memory;
  TimePoint now{1'700'000'000s};
  for (int i = 0; i < 5'000; ++i, now += 1s) {
    memory.execute(
        store::Reserve{.id = {.key = std::to_string(i)}, .lease = 10s, .ttl = 90s, .now = now});
    CHECK(memory.size() <= 101);
  }
  const auto swept =
      std::get<store::Swept>(memory.execute(store::Sweep{.now = now + 1h, .limit = 60}));
  CHECK(swept.reservations == 60);
  CHECK(swept.more);
  CHECK_FALSE(std::get<store::Swept>(memory.execute(store::Sweep{.now = now + 1h})).more);
  CHECK(memory.size() == 0);
}

TEST_CASE("of threads that ask at once one gets the key") {
  MemoryReservations memory;
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> acquired{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&memory, &acquired, round] {
        const Answer answer = memory.execute(
            store::Reserve{.id = {.key = std::to_string(round)}, .now = TimePoint{1'700'000'000s}});
        acquired += std::holds_alternative<store::Acquired>(answer) ? 1 : 0;
      });
    }
    threads.clear();
    CHECK(acquired == 1);
  }
}

}  // namespace semel::idempotency
