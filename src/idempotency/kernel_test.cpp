#include "idempotency/kernel.hpp"

#include "base/random.hpp"
#include "idempotency/memory_store.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <future>
#include <optional>
#include <thread>
#include <vector>

namespace semel::idempotency {

using namespace std::chrono_literals;
using store::Acquired;
using store::Answer;
using store::Fence;

namespace {

store::Reserve ask(const std::string& key, const std::string& fingerprint = "f") {
  return {.id = {.ns = "n", .key = key}, .fingerprint = fingerprint, .lease = 30s, .ttl = 1h};
}

/// What one asker heard.
struct Heard {
  std::shared_ptr<std::promise<Found>> promise = std::make_shared<std::promise<Found>>();
  std::shared_future<Found> found = promise->get_future().share();

  bool is_there() const { return found.wait_for(0s) == std::future_status::ready; }

  FoundReply reply() const {
    return [promise = promise](base::Result<Found> answer) { promise->set_value(answer.value()); };
  }
};

/// A clock that moves when told to, and is looked at by timers meanwhile.
class SharedClock final : public base::Clock {
 public:
  TimePoint now() const override {
    return TimePoint{std::chrono::duration_cast<TimePoint::duration>(1'700'000'000s) +
                     TimePoint::duration{passed_.load()}};
  }

  void pass(TimePoint::duration time) { passed_ += time.count(); }

 private:
  std::atomic<TimePoint::rep> passed_{0};
};

/// A kernel over a store in memory whose clock the test owns.
struct World {
  std::shared_ptr<SharedClock> clock = std::make_shared<SharedClock>();
  std::shared_ptr<Port> port = make_memory_port(clock);
  std::shared_ptr<Kernel> kernel = Kernel::make(port);

  void pass(std::chrono::nanoseconds time) {
    clock->pass(std::chrono::duration_cast<TimePoint::duration>(time));
  }

  Fence acquire(const std::string& key) {
    return std::get<Acquired>(kernel->reserve(ask(key)).value()).fence;
  }

  Heard wait_for(const std::string& key, const Patience& patience = {.wait = 1h},
                 const std::string& fingerprint = "f") {
    Heard heard;
    kernel->reserve(ask(key, fingerprint), patience, heard.reply());
    return heard;
  }

  Answer complete(const std::string& key, Fence fence, const std::string& answer) {
    return kernel->call(store::Complete{.id = ask(key).id, .fence = fence, .answer = answer})
        .value();
  }

  Answer release(const std::string& key, Fence fence) {
    return kernel->call(store::Release{.id = ask(key).id, .fence = fence}).value();
  }

  std::string replayed(const std::string& key) {
    return *std::get<FinishedAnswer>(kernel->reserve(ask(key)).value()).bytes;
  }
};

/// Takes its time with every answer, as a store on a disk does: until the test says so.
class SlowPort final : public Port {
 public:
  explicit SlowPort(std::shared_ptr<Port> inner) : inner_(std::move(inner)) {}

  void execute(store::Command command, Reply reply) override {
    inner_->execute(std::move(command), [this, reply = std::move(reply)](auto answer) {
      if (!is_slow) return reply(std::move(answer));
      held_.emplace_back([reply, answer = std::move(answer)] { reply(answer); });
    });
  }

  base::Result<Answer> call(store::Command command) override {
    return inner_->call(std::move(command));
  }

  void go_on(std::function<void()> action) override { action(); }

  TimePoint now() const override { return inner_->now(); }

  void let_go() {
    is_slow = false;
    for (const auto& reply : std::exchange(held_, {})) reply();
  }

  bool is_slow = true;

 private:
  std::shared_ptr<Port> inner_;
  std::vector<std::function<void()>> held_;
};

}  // namespace

TEST_CASE("a duplicate waits for the first and gets its answer") {
  World world;
  const Fence fence = world.acquire("k");
  const Heard one = world.wait_for("k");
  const Heard two = world.wait_for("k");
  CHECK_FALSE(one.is_there());

  world.complete("k", fence, "1");

  REQUIRE(one.is_there());
  REQUIRE(two.is_there());
  CHECK(*std::get<FinishedAnswer>(one.found.get()).bytes == "1");
  CHECK(*std::get<FinishedAnswer>(two.found.get()).bytes == "1");
  CHECK(world.kernel->counters().waits == 2);
  CHECK(world.kernel->counters().hits == 2);
}

TEST_CASE("when the first is released one of those that wait takes over and the others wait on") {
  World world;
  const Fence first = world.acquire("k");
  const std::vector<Heard> waiting{world.wait_for("k"), world.wait_for("k"), world.wait_for("k")};

  world.release("k", first);

  REQUIRE(waiting[0].is_there());
  const auto second = std::get<Acquired>(waiting[0].found.get());
  CHECK(second.fence > first);
  CHECK_FALSE(waiting[1].is_there());
  CHECK_FALSE(waiting[2].is_there());

  world.release("k", second.fence);
  REQUIRE(waiting[1].is_there());
  CHECK_FALSE(waiting[2].is_there());

  world.complete("k", std::get<Acquired>(waiting[1].found.get()).fence, "1");
  REQUIRE(waiting[2].is_there());
  CHECK(*std::get<FinishedAnswer>(waiting[2].found.get()).bytes == "1");
}

TEST_CASE("who has no patience, or has had enough of it, hears that somebody is at work") {
  World world;
  world.acquire("k");
  const Heard at_once = world.wait_for("k", {});
  REQUIRE(at_once.is_there());
  CHECK(std::holds_alternative<store::InProgress>(at_once.found.get()));

  const Heard later = world.wait_for("k", {.wait = 20ms});
  const auto begin = base::monotonic_now();
  CHECK(std::get<store::InProgress>(later.found.get()).lease_until == world.clock->now() + 30s);
  CHECK(base::monotonic_now() - begin < 20s);
  CHECK(world.kernel->counters().in_progress == 2);
}

TEST_CASE("no more wait for a key than may") {
  World world;
  const Fence fence = world.acquire("k");
  const Patience two_at_most{.wait = 1h, .waiters_max = 2};
  const std::vector<Heard> waiting{world.wait_for("k", two_at_most),
                                   world.wait_for("k", two_at_most)};

  const Heard third = world.wait_for("k", two_at_most);

  REQUIRE(third.is_there());
  CHECK(std::holds_alternative<store::InProgress>(third.found.get()));
  world.acquire("l");
  CHECK_FALSE(world.wait_for("l", two_at_most).is_there());
  world.complete("k", fence, "1");
  CHECK(waiting[0].is_there());
  CHECK(waiting[1].is_there());
}

TEST_CASE("other input does not wait") {
  World world;
  world.acquire("k");
  const Heard other = world.wait_for("k", {.wait = 1h}, "other");
  REQUIRE(other.is_there());
  CHECK(std::holds_alternative<store::KeyReused>(other.found.get()));
}

TEST_CASE("a lease that ends lets one of those that wait take over") {
  World world;
  store::Reserve brief = ask("k");
  brief.lease = 50ms;
  const auto first = std::get<Acquired>(world.kernel->reserve(brief).value());
  const Heard one = world.wait_for("k");
  const Heard two = world.wait_for("k");

  world.pass(50ms);

  // Both ask again by themselves; who comes second waits for who came first.
  while (!one.is_there() && !two.is_there()) std::this_thread::yield();
  const Heard& luckier = one.is_there() ? one : two;
  const Heard& other = one.is_there() ? two : one;
  const auto second = std::get<Acquired>(luckier.found.get());
  CHECK(second.taken_over);
  CHECK(std::holds_alternative<store::FenceLost>(world.complete("k", first.fence, "late")));
  world.complete("k", second.fence, "right");
  CHECK(*std::get<FinishedAnswer>(other.found.get()).bytes == "right");
}

TEST_CASE("an answer that was under way while the first finished is no reason to wait") {
  World world;
  const auto slow = std::make_shared<SlowPort>(world.port);
  world.kernel = Kernel::make(slow);
  const Fence fence = world.acquire("k");
  const Heard duplicate = world.wait_for("k");  // "in progress" is on its way
  world.complete("k", fence, "1");

  slow->let_go();

  REQUIRE(duplicate.is_there());
  CHECK(*std::get<FinishedAnswer>(duplicate.found.get()).bytes == "1");
}

TEST_CASE("a replay that was under way while the key was forgotten is not kept") {
  World world;
  const auto slow = std::make_shared<SlowPort>(world.port);
  world.kernel = Kernel::make(slow);
  world.complete("k", world.acquire("k"), "1");
  const Heard replay = world.wait_for("k");
  world.kernel->call(store::Forget{.id = ask("k").id}).value();
  slow->let_go();
  REQUIRE(replay.is_there());

  CHECK(std::holds_alternative<Acquired>(world.kernel->reserve(ask("k")).value()));
}

TEST_CASE("a hot answer comes from memory until it is forgotten or expires") {
  World world;
  world.complete("k", world.acquire("k"), "1");
  CHECK(world.replayed("k") == "1");
  CHECK(world.kernel->counters().cache_hits == 0);
  CHECK(world.replayed("k") == "1");
  CHECK(world.kernel->counters().cache_hits == 1);
  CHECK(std::holds_alternative<store::KeyReused>(world.kernel->reserve(ask("k", "g")).value()));

  world.pass(1h - 1ms);
  CHECK(world.replayed("k") == "1");
  world.pass(1ms);
  world.complete("k", world.acquire("k"), "2");
  CHECK(world.replayed("k") == "2");

  world.kernel->call(store::Forget{.id = ask("k").id}).value();
  world.complete("k", world.acquire("k"), "3");
  CHECK(world.replayed("k") == "3");
}

TEST_CASE("a clock that is set back brings no old answer back") {
  World world;
  world.complete("k", world.acquire("k"), "1");
  CHECK(world.replayed("k") == "1");
  world.pass(2h);
  const Fence second = world.acquire("k");
  world.pass(-2h);
  CHECK(std::holds_alternative<store::InProgress>(world.kernel->reserve(ask("k")).value()));
  world.complete("k", second, "2");
  CHECK(world.replayed("k") == "2");
}

TEST_CASE("without timers nobody waits") {
  World world;
  world.kernel = Kernel::make(world.port, {.has_timers = false});
  world.acquire("k");
  CHECK(world.wait_for("k").is_there());
  CHECK(world.kernel->keep(ask("k").id, 1, 1s) == nullptr);
}

TEST_CASE("those that wait can be sent away") {
  World world;
  world.acquire("k");
  const Heard waiting = world.wait_for("k");
  world.kernel->dismiss_waiters();
  REQUIRE(waiting.is_there());
  CHECK(std::holds_alternative<store::InProgress>(waiting.found.get()));
}

TEST_CASE("many threads, few keys: each key's work is done once, whoever fails and whoever waits") {
  const auto kernel = Kernel::make(make_memory_port(std::make_shared<base::SystemClock>()));
  constexpr int threads = 16;
  constexpr int rounds = 60;
  std::atomic<int> at_work{0};
  std::atomic<int> done{0};
  std::barrier together{threads};
  {
    std::vector<std::jthread> all;
    for (int thread = 0; thread < threads; ++thread) {
      all.emplace_back([&, thread] {
        base::SeededRandom random{static_cast<std::uint64_t>(thread) + 1};
        for (int round = 0; round < rounds; ++round) {
          together.arrive_and_wait();
          const std::string key = std::to_string(round);
          Heard heard;
          kernel->reserve(ask(key), {.wait = 1h}, heard.reply());
          const Found found = heard.found.get();
          if (const auto* mine = std::get_if<Acquired>(&found)) {
            CHECK(++at_work == 1);
            const bool fails = random.one_in(2);
            if (!fails) ++done;
            --at_work;
            if (fails) {
              kernel->call(store::Release{.id = ask(key).id, .fence = mine->fence}).value();
            } else {
              kernel->call(store::Complete{.id = ask(key).id, .fence = mine->fence, .answer = key})
                  .value();
            }
          } else {
            CHECK(*std::get<FinishedAnswer>(found).bytes == key);
          }
        }
      });
    }
  }
  // If all that asked for a key failed, nobody did its work.
  CHECK(done <= rounds);
  CHECK(done > rounds / 2);
}

}  // namespace semel::idempotency
