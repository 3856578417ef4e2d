// Who commits, and commands that go past the loop: they share its commits, and what happens to the store happens to both.
#include "engine/threaded_driver.hpp"

#include "engine/registry.hpp"
#include "tests/contract/model_store.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <future>
#include <type_traits>

namespace semel::engine {

namespace {

using namespace std::chrono_literals;
using Answer = base::Result<store::Answer>;

/// What the stores opened one after the other have in common.
struct Disk {
  std::shared_ptr<store::Model> model = std::make_shared<store::Model>();
  std::atomic<int> opened = 0;
  std::shared_ptr<store::KeyClaims> claims = std::make_shared<store::KeyClaims>();
  std::atomic<bool> fails = false;       ///< the next commit that reserves; then not any more
  std::atomic<bool> lands = false;       ///< although it fails
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
    const auto has = [batch]<class Command>(std::type_identity<Command>) {
      return std::ranges::any_of(batch, [](const store::Command& command) {
        return std::holds_alternative<Command>(command);
      });
    };
    if (has(std::type_identity<store::StartRun>{})) disk_.starter = std::this_thread::get_id();
    ++disk_.commits_waiting;
    disk_.is_held.wait(true);
    --disk_.commits_waiting;
    disk_.largest = std::max<std::size_t>(disk_.largest, batch.size());
    const bool reserves = has(std::type_identity<store::Reserve>{});
    if (reserves && disk_.fails.exchange(false)) {
      if (disk_.lands) static_cast<void>(store_->execute(batch));
      return base::Fault{base::Errc::unavailable, "the disk"};
    }
    if (reserves || has(std::type_identity<store::Complete>{})) ++disk_.commits;
    return store_->execute(batch);
  }

 private:
  Disk& disk_;
  std::unique_ptr<store::Store> store_;
};

std::unique_ptr<ThreadedDriver> open(Disk& disk, const Registry& registry) {
  auto driver = ThreadedDriver::open(registry,
                                     [&disk]() -> base::Result<OpenedStore> {
                                       ++disk.opened;
                                       return OpenedStore{std::make_unique<DiskStore>(disk),
                                                          nullptr, disk.claims};
                                     },
                                     {}, {.step_threads = 1});
  REQUIRE(driver);
  return std::move(*driver);
}

store::ReservationId id_of(const std::string& key) { return {"default", "test", "", key}; }

store::Reserve reserve(const std::string& key, const std::string& fingerprint = "") {
  store::Reserve ask;
  ask.id = id_of(key);
  ask.fingerprint = fingerprint;
  ask.lease = 30s;
  ask.ttl = 1h;
  return ask;
}

/// Claims the key and asks for it to be stored.
store::Reserve claimed(Disk& disk, store::Reserve ask) {
  REQUIRE(disk.claims->claim(ask) == store::KeyClaims::Claimed::yes);
  ask.is_claimed = true;
  return ask;
}

/// The same with what came of the work.
store::Reserve claimed_and_done(Disk& disk, store::Reserve ask) {
  ask = claimed(disk, std::move(ask));
  ask.outcome = store::Reserve::Outcome{.answer = "done"};
  return ask;
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

TEST_CASE("who reserves a key is told behind the commit") {
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

TEST_CASE("a key that was claimed and what came of the work are one commit") {
  Disk disk;
  disk.claims->begin_anew({}, store::KeyClaims::Fill::empty);
  const Registry registry;
  const auto driver = open(disk, registry);
  REQUIRE(driver->claims() == disk.claims.get());
  const int before = disk.commits;

  CHECK(is_acquired(ask(*driver, claimed_and_done(disk, reserve("a")))));

  CHECK(disk.commits == before + 1);
  CHECK(disk.model->reservations.at(id_of("a")).answer == "done");
}

TEST_CASE("an errand comes back with its command") {
  struct Noted final : idempotency::Errand {
    void done(Answer answer) override { told.set_value(std::move(answer)); }

    std::promise<Answer> told;
  };

  Disk disk;
  const Registry registry;
  const auto driver = open(disk, registry);
  Noted errand;
  errand.command = reserve("a");

  REQUIRE(driver->execute(errand));

  CHECK(is_acquired(errand.told.get_future()));
  CHECK(std::get<store::Reserve>(errand.command).id == id_of("a"));
}

TEST_CASE("a desk goes on once with all of its errands that one commit was about") {
  struct Noting final : idempotency::Desk {
    void go_on(std::vector<idempotency::Errand*> errands) override { told.set_value(errands); }

    std::promise<std::vector<idempotency::Errand*>> told;
  };

  struct Noted final : idempotency::Errand {
    void done(Answer came) override { answer = std::move(came); }

    Answer answer = store::Answer{};
  };

  Disk disk;
  const Registry registry;
  const auto driver = open(disk, registry);
  const auto desk = std::make_shared<Noting>();
  std::array<Noted, 2> errands;
  for (Noted& errand : errands) {
    errand.command = reserve("a");
    errand.desk = desk;
  }
  hold(disk, *driver);
  auto before = ask(*driver, reserve("before"));
  while (disk.commits_waiting == 0) std::this_thread::yield();

  for (Noted& errand : errands) REQUIRE(driver->execute(errand));
  let_go(disk);
  const auto told = desk->told.get_future().get();

  CHECK(is_acquired(std::move(before)));
  REQUIRE(told.size() == 2);
  CHECK(told[0] == &errands[0]);
  CHECK(told[1] == &errands[1]);
  CHECK(std::holds_alternative<store::Acquired>(*errands[0].answer));
  CHECK(std::holds_alternative<store::InProgress>(*errands[1].answer));
}

TEST_CASE("the commit of what was claimed fails: the key is reserved before anybody asks for it") {
  Disk disk;
  disk.claims->begin_anew({}, store::KeyClaims::Fill::empty);
  const Registry registry;
  const auto driver = open(disk, registry);
  disk.fails = true;

  const Answer lost = ask(*driver, claimed_and_done(disk, reserve("a", "x"))).get();
  CHECK_FALSE(lost);
  const Answer same = ask_until_answered(*driver, reserve("a", "x"));
  const Answer other = ask_until_answered(*driver, reserve("a", "y"));

  CHECK(std::holds_alternative<store::InProgress>(*same));
  CHECK(std::holds_alternative<store::KeyReused>(*other));
  CHECK_FALSE(disk.claims->meet(id_of("a")));
}

TEST_CASE("the commit of what was claimed fails while its work goes on: it stays claimed") {
  Disk disk;
  disk.claims->begin_anew({}, store::KeyClaims::Fill::empty);
  const Registry registry;
  const auto driver = open(disk, registry);
  disk.fails = true;

  const Answer lost = ask(*driver, claimed(disk, reserve("a", "x"))).get();
  static_cast<void>(ask_until_answered(*driver, reserve("b")));

  CHECK_FALSE(lost);
  CHECK(disk.claims->meet(id_of("a")));
  CHECK_FALSE(disk.model->reservations.contains(id_of("a")));
}

TEST_CASE("nothing is claimed from a failed commit until the store is opened anew") {
  Disk disk;
  disk.claims->begin_anew({}, store::KeyClaims::Fill::empty);
  const Registry registry;
  const auto driver = open(disk, registry);
  disk.fails = true;

  CHECK_FALSE(ask(*driver, reserve("a")).get());

  CHECK(disk.claims->claim(reserve("b")) == store::KeyClaims::Claimed::no);
}

TEST_CASE("nothing is claimed from an engine that has stopped") {
  Disk disk;
  disk.claims->begin_anew({}, store::KeyClaims::Fill::empty);
  const Registry registry;
  const auto driver = open(disk, registry);

  driver->stop();

  CHECK(disk.claims->claim(reserve("b")) == store::KeyClaims::Claimed::no);
}

TEST_CASE("the commit of what was claimed landed although it failed: what came of the work stays") {
  Disk disk;
  disk.claims->begin_anew({}, store::KeyClaims::Fill::empty);
  const Registry registry;
  const auto driver = open(disk, registry);
  disk.lands = true;
  disk.fails = true;

  const Answer unknown = ask(*driver, claimed_and_done(disk, reserve("a"))).get();
  const Answer after = ask_until_answered(*driver, reserve("a"));

  CHECK_FALSE(unknown);
  REQUIRE(std::holds_alternative<store::Replay>(*after));
  CHECK(std::get<store::Replay>(*after).answer == "done");
  CHECK_FALSE(disk.claims->meet(id_of("a")));
}

TEST_CASE("what was claimed when the store was lost already is reserved as well") {
  Disk disk;
  disk.claims->begin_anew({}, store::KeyClaims::Fill::empty);
  const Registry registry;
  const auto driver = open(disk, registry);
  hold(disk, *driver);
  disk.fails = true;
  auto first = ask(*driver, reserve("first"));
  while (disk.commits_waiting == 0) std::this_thread::yield();
  auto second = ask(*driver, claimed_and_done(disk, reserve("a")));
  let_go(disk);

  CHECK_FALSE(first.get());
  const Answer lost = second.get();
  const Answer after = ask_until_answered(*driver, reserve("a"));

  // It may have come when the store was open again.
  CHECK((std::holds_alternative<store::InProgress>(*after) ||
         (lost && std::holds_alternative<store::Replay>(*after))));
  CHECK((lost || !disk.claims->meet(id_of("a"))));
}

}  // namespace semel::engine
