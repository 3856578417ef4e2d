// Commands that go past the loop: they share its commits, and what happens to the store happens to both.
#include "engine/threaded_driver.hpp"

#include "engine/registry.hpp"
#include "tests/contract/model_store.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <future>

namespace semel::engine {

namespace {

using namespace std::chrono_literals;
using Answer = base::Result<store::Answer>;

/// What the stores opened one after the other have in common.
struct Disk {
  std::shared_ptr<store::Model> model = std::make_shared<store::Model>();
  std::atomic<int> opened = 0;
  std::atomic<bool> fails = false;       ///< the next commit that reserves; then not any more
  std::atomic<bool> is_held = false;     ///< commits wait
  std::atomic<int> commits_waiting = 0;  ///< because of that
  std::atomic<std::size_t> largest = 0;  ///< batch so far
};

class DiskStore final : public store::Store {
 public:
  explicit DiskStore(Disk& disk) : disk_(disk), store_(store::make_model_store(disk.model)) {}

  base::Result<std::vector<store::Answer>> execute(std::span<const store::Command> batch) override {
    ++disk_.commits_waiting;
    disk_.is_held.wait(true);
    --disk_.commits_waiting;
    disk_.largest = std::max<std::size_t>(disk_.largest, batch.size());
    const bool reserves = std::ranges::any_of(batch, [](const store::Command& command) {
      return std::holds_alternative<store::Reserve>(command);
    });
    if (reserves && disk_.fails.exchange(false))
      return base::Fault{base::Errc::unavailable, "the disk"};
    return store_->execute(batch);
  }

 private:
  Disk& disk_;
  std::unique_ptr<store::Store> store_;
};

std::unique_ptr<ThreadedDriver> open(Disk& disk, const Registry& registry) {
  auto driver =
      ThreadedDriver::open(registry,
                           [&disk]() -> base::Result<OpenedStore> {
                             ++disk.opened;
                             return OpenedStore{std::make_unique<DiskStore>(disk), nullptr};
                           },
                           {}, {.step_threads = 1});
  REQUIRE(driver);
  return std::move(*driver);
}

store::Command reserve(const std::string& key) {
  store::Reserve ask;
  ask.id = {"default", "test", "", key};
  ask.lease = 30s;
  ask.ttl = 1h;
  return ask;
}

std::future<Answer> ask(ThreadedDriver& driver, store::Command command) {
  auto promise = std::make_shared<std::promise<Answer>>();
  auto future = promise->get_future();
  REQUIRE(driver.execute(std::move(command),
                         [promise](Answer answer) { promise->set_value(std::move(answer)); }));
  return future;
}

bool is_acquired(std::future<Answer> answer) {
  const Answer came = answer.get();
  return came && std::holds_alternative<store::Acquired>(*came);
}

}  // namespace

TEST_CASE("a command past the loop is executed at the time that is then, and answered once") {
  Disk disk;
  const Registry registry;
  const auto driver = open(disk, registry);

  const Answer first = ask(*driver, reserve("a")).get();
  const Answer again = ask(*driver, reserve("a")).get();

  REQUIRE(first);
  REQUIRE(std::holds_alternative<store::Acquired>(*first));
  const auto lease = std::get<store::Acquired>(*first).lease_until - driver->now();
  CHECK(lease > 20s);
  CHECK(lease <= 30s);
  REQUIRE(again);
  CHECK(std::holds_alternative<store::InProgress>(*again));
}

TEST_CASE("commands that come during a commit share the next one, those of the loop as well") {
  Disk disk;
  const Registry registry;
  const auto driver = open(disk, registry);
  REQUIRE(is_acquired(ask(*driver, reserve("before"))));
  disk.is_held = true;
  std::vector<std::future<Answer>> asked;
  asked.push_back(ask(*driver, reserve("first")));
  while (disk.commits_waiting == 0) std::this_thread::yield();

  for (int i = 0; i < 10; ++i) asked.push_back(ask(*driver, reserve(std::to_string(i))));
  std::promise<void> on_loop;
  driver->post([&](Loop& loop, TimePoint now) {
    loop.reservation(reserve("loop"), [&](Answer) { on_loop.set_value(); }, now);
  });
  disk.is_held = false;
  disk.is_held.notify_all();

  for (auto& each : asked) CHECK(is_acquired(std::move(each)));
  on_loop.get_future().get();
  CHECK(disk.largest >= 10);
  CHECK(disk.model->reservations.size() == 13);
}

TEST_CASE("a commit past the loop fails: its callers are told, and the store is opened anew") {
  Disk disk;
  const Registry registry;
  const auto driver = open(disk, registry);
  REQUIRE(is_acquired(ask(*driver, reserve("before"))));
  REQUIRE(disk.opened == 1);

  disk.fails = true;
  const Answer lost = ask(*driver, reserve("a")).get();
  // Whether or not the loop has anything of its own to commit.
  while (disk.opened == 1) std::this_thread::yield();
  Answer after = ask(*driver, reserve("a")).get();
  while (!after) after = ask(*driver, reserve("a")).get();

  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == base::Errc::unavailable);
  CHECK(std::holds_alternative<store::Acquired>(*after));
  CHECK(disk.opened == 2);
}

TEST_CASE("what was accepted before the driver stops is executed, and nothing is accepted after") {
  Disk disk;
  const Registry registry;
  const auto driver = open(disk, registry);
  std::vector<std::future<Answer>> asked;
  for (int i = 0; i < 50; ++i) asked.push_back(ask(*driver, reserve(std::to_string(i))));

  driver->stop();

  for (auto& each : asked) CHECK(is_acquired(std::move(each)));
  CHECK_FALSE(driver->execute(reserve("late"), [](const Answer&) { CHECK(false); }));
}

}  // namespace semel::engine
