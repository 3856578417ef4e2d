// Who commits, and commands that go past the loop: they share its commits, and what happens to the store happens to both.
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
  std::atomic<int> commits = 0;          ///< with reservations or completions
  std::atomic<std::thread::id> starter;  ///< who committed the last start of a run
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

  base::Result<std::vector<store::Answer>> execute_growing(store::GrowingBatch& batch) override {
    const store::Model before = *disk_.model;
    std::vector<store::Answer> answers;
    bool is_about_keys = false;
    for (auto part = batch.next(); !part.empty(); part = batch.next()) {
      for (const store::Command& command : part) {
        is_about_keys = is_about_keys || std::holds_alternative<store::Reserve>(command) ||
                        std::holds_alternative<store::Complete>(command);
        if (std::holds_alternative<store::StartRun>(command))
          disk_.starter = std::this_thread::get_id();
        answers.push_back(store_->execute({&command, 1}).value().front());
        batch.executed(answers.back());
      }
    }
    ++disk_.commits_waiting;
    disk_.is_held.wait(true);
    --disk_.commits_waiting;
    disk_.largest = std::max<std::size_t>(disk_.largest, answers.size());
    const bool reserves = std::ranges::any_of(answers, [](const store::Answer& answer) {
      return std::holds_alternative<store::Acquired>(answer);
    });
    if (reserves && disk_.fails.exchange(false)) {
      *disk_.model = before;
      return base::Fault{base::Errc::unavailable, "the disk"};
    }
    if (is_about_keys) ++disk_.commits;
    return answers;
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

store::ReservationId id_of(const std::string& key) { return {"default", "test", "", key}; }

store::Command reserve(const std::string& key, bool begins_early = false,
                       const std::string& fingerprint = "") {
  store::Reserve ask;
  ask.id = id_of(key);
  ask.fingerprint = fingerprint;
  ask.lease = 30s;
  ask.ttl = 1h;
  ask.begins_early = begins_early;
  return ask;
}

store::Command complete(const std::string& key, store::Fence fence) {
  return store::Complete{.id = id_of(key), .fence = fence, .answer = "done"};
}

std::future<Answer> ask(ThreadedDriver& driver, store::Command command) {
  auto promise = std::make_shared<std::promise<Answer>>();
  auto future = promise->get_future();
  REQUIRE(driver.execute(std::move(command),
                         [promise](Answer answer) { promise->set_value(std::move(answer)); }));
  return future;
}

/// Until the store is there again.
Answer ask_until_answered(ThreadedDriver& driver, const store::Command& command) {
  Answer answer = ask(driver, command).get();
  while (!answer) answer = ask(driver, command).get();
  return answer;
}

store::Fence fence_of(const Answer& answer) { return std::get<store::Acquired>(*answer).fence; }

/// Commits wait from now on. What the loop does when it opens the store is over by then.
void hold(Disk& disk, ThreadedDriver& driver) {
  std::promise<void> on_loop;
  driver.post([&](Loop& loop, TimePoint now) {
    loop.reservation(reserve("loop"), [&](Answer) { on_loop.set_value(); }, now);
  });
  on_loop.get_future().get();
  disk.is_held = true;
}

void let_go(Disk& disk) {
  disk.is_held = false;
  disk.is_held.notify_all();
}

/// Returns once it is committed.
void start(ThreadedDriver& driver, const std::string& workflow) {
  std::promise<void> started;
  driver.post([&](Loop& loop, TimePoint now) {
    StartInput input;
    input.workflow = workflow;
    input.input = "[]";
    loop.start(input, [&](const auto&) { started.set_value(); }, now);
  });
  started.get_future().get();
}

bool is_acquired(std::future<Answer> answer) {
  const Answer came = answer.get();
  return came && std::holds_alternative<store::Acquired>(*came);
}

}  // namespace

TEST_CASE("the loop commits itself, unless it has something else to do: a body is at work") {
  Disk disk;
  Registry registry;
  std::promise<void> begun;
  std::promise<void> go_on;
  const auto rest = []() -> Workflow<> { co_await sleep(1h); };
  const auto work = [&]() -> Workflow<> {
    co_await step("body", [&] {
      begun.set_value();
      go_on.get_future().get();
    });
  };
  registry.add(detail::workflow_type("rest", rest, 1, rest));
  registry.add(detail::workflow_type("work", work, 1, work));
  const auto driver = open(disk, registry);
  driver->start_workers();
  std::promise<std::thread::id> loop_thread;
  driver->post([&](Loop&, TimePoint) { loop_thread.set_value(std::this_thread::get_id()); });
  const std::thread::id loop = loop_thread.get_future().get();

  const auto count_by_loop = [&] {
    int count = 0;
    for (int i = 0; i < 50; ++i) {
      start(*driver, "rest");
      if (disk.starter.load() == loop) ++count;
    }
    return count;
  };

  // Now and then it has to look for work or to reserve keys, too.
  const int idle = count_by_loop();
  start(*driver, "work");
  begun.get_future().get();
  const int busy = count_by_loop();
  go_on.set_value();

  CHECK(idle > 0);
  CHECK(busy == 0);
}

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

TEST_CASE(
    "who may begin early is told before the commit; who finds the key taken is told behind it") {
  Disk disk;
  const Registry registry;
  const auto driver = open(disk, registry);
  hold(disk, *driver);

  const Answer first = ask(*driver, reserve("a", true)).get();
  auto second = ask(*driver, reserve("a", true));
  while (disk.commits_waiting == 0) std::this_thread::yield();
  const bool was_told = second.wait_for(0s) == std::future_status::ready;
  let_go(disk);
  const Answer told = second.get();

  REQUIRE(first);
  CHECK(std::holds_alternative<store::Acquired>(*first));
  CHECK_FALSE(was_told);
  REQUIRE(told);
  CHECK(std::holds_alternative<store::InProgress>(*told));
}

TEST_CASE("who may not begin early is told behind the commit") {
  Disk disk;
  const Registry registry;
  const auto driver = open(disk, registry);
  hold(disk, *driver);

  auto asked = ask(*driver, reserve("a"));
  while (disk.commits_waiting == 0) std::this_thread::yield();
  const bool was_told = asked.wait_for(0s) == std::future_status::ready;
  let_go(disk);

  CHECK_FALSE(was_told);
  CHECK(is_acquired(std::move(asked)));
}

TEST_CASE("what comes of quick work is one commit with its reservation") {
  Disk disk;
  const Registry registry;
  const auto driver = open(disk, registry);
  // Behind the commit that opens the node: what joins one that is about to be made may be told before it, and finished behind.
  driver->counters();
  REQUIRE(is_acquired(ask(*driver, reserve("before"))));
  const int before = disk.commits;

  std::promise<Answer> done;
  REQUIRE(driver->execute(reserve("a", true), [&](const Answer& acquired) {
    driver->execute(complete("a", fence_of(acquired)),
                    [&](Answer answer) { done.set_value(std::move(answer)); });
  }));
  const Answer completed = done.get_future().get();

  REQUIRE(completed);
  CHECK(std::holds_alternative<store::Done>(*completed));
  CHECK(disk.commits == before + 1);
  CHECK(disk.model->reservations.at(id_of("a")).answer == "done");
}

TEST_CASE("a reservation whose owner began early is durable although nothing comes of it") {
  Disk disk;
  const Registry registry;
  const auto driver = open(disk, registry);
  const int before = disk.commits;

  REQUIRE(is_acquired(ask(*driver, reserve("a", true))));
  while (disk.commits == before) std::this_thread::yield();

  CHECK(disk.commits == before + 1);
}

TEST_CASE(
    "the commit fails behind those who began early: they have their keys again before anybody "
    "asks") {
  Disk disk;
  const Registry registry;
  const auto driver = open(disk, registry);
  disk.fails = true;

  const Answer begun = ask(*driver, reserve("a", true, "x")).get();
  REQUIRE(begun);
  while (disk.opened == 1) std::this_thread::yield();
  const Answer same = ask_until_answered(*driver, reserve("a", true, "x"));
  const Answer other = ask_until_answered(*driver, reserve("a", true, "y"));
  const Answer completed = ask_until_answered(*driver, complete("a", fence_of(begun)));
  const Answer replay = ask_until_answered(*driver, reserve("a", true, "x"));

  CHECK(std::holds_alternative<store::InProgress>(*same));
  CHECK(std::holds_alternative<store::KeyReused>(*other));
  CHECK(std::holds_alternative<store::Done>(*completed));
  CHECK(std::holds_alternative<store::Replay>(*replay));
}

TEST_CASE(
    "the commit fails behind work that was quick: its owner is told, and the key stays in "
    "progress") {
  Disk disk;
  const Registry registry;
  const auto driver = open(disk, registry);
  disk.fails = true;

  std::promise<Answer> done;
  REQUIRE(driver->execute(reserve("a", true), [&](const Answer& acquired) {
    driver->execute(complete("a", fence_of(acquired)),
                    [&](Answer answer) { done.set_value(std::move(answer)); });
  }));
  const Answer completed = done.get_future().get();
  const Answer after = ask_until_answered(*driver, reserve("a", true));

  CHECK_FALSE(completed);
  CHECK(std::holds_alternative<store::InProgress>(*after));
}

}  // namespace semel::engine
