// SQLite on a disk that fails: what was answered is there, and nobody goes on as if nothing had happened.
#include "store/sqlite/sqlite_store.hpp"
#include "tests/contract/describe.hpp"
#include "tests/contract/faulty_disk.hpp"
#include "tests/contract/model_store.hpp"
#include "tests/contract/random_commands.hpp"
#include "tests/contract/stores.hpp"

#include <sqlite3.h>

#include <fstream>

namespace semel::store {
namespace {

std::unique_ptr<SqliteStore> opened(const SqliteOptions& options) {
  auto store = SqliteStore::open(options);
  REQUIRE_MESSAGE(store.has_value(), store.error().message);
  return *std::move(store);
}

base::Result<std::vector<Answer>> execute(Store& store, const Command& command) {
  return store.execute(std::vector<Command>{command});
}

/// All that can be seen of the runs up to `last`.
std::string state(Store& store, RunKey last) {
  std::vector<Command> looks{FindWork{}, FindDue{.now = TimePoint::max()}};
  for (RunKey key = 1; key <= last; ++key) looks.emplace_back(LoadRun{key});
  const auto answers = store.execute(looks);
  REQUIRE_MESSAGE(answers.has_value(), answers.error().message);
  std::string text;
  for (const Answer& answer : *answers) text += describe(answer) + "\n";
  return text;
}

TEST_CASE("a commit syncs the write-ahead log before it is answered") {
  FaultyDisk disk;
  TemporaryDirectory directory;
  const auto store = opened({.path = directory.file("store.db"), .vfs = disk.vfs()});

  for (RunKey key = 1; key <= 20; ++key) {
    const std::uint64_t before = disk.wal_syncs();
    REQUIRE(execute(*store, start(new_run(key))));
    CHECK(disk.wal_syncs() > before);
  }
  CHECK(store->commits() == 20);
}

TEST_CASE("a batch that only reads commits and syncs nothing") {
  FaultyDisk disk;
  TemporaryDirectory directory;
  const auto store = opened({.path = directory.file("store.db"), .vfs = disk.vfs()});
  const std::uint64_t before = disk.wal_syncs();

  REQUIRE(execute(*store, FindWork{}));

  CHECK(disk.wal_syncs() == before);
  CHECK(store->commits() == 0);
  CHECK(store->counters().batches == 1);
}

/// What a store shows that is opened on what a loss of power left.
std::string state_of_image(const std::map<std::string, std::string>& files, RunKey last) {
  TemporaryDirectory directory;
  for (const auto& [name, content] : files) {
    std::ofstream{directory.file(name), std::ios::binary} << content;
  }
  const auto store = opened({.path = directory.file("store.db")});
  return state(*store, last);
}

TEST_CASE(
    "a loss of power at any moment takes back nothing that was answered and leaves no half of a "
    "batch") {
  int torn = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    FaultyDisk disk;
    TemporaryDirectory directory;
    base::SeededRandom random{seed};
    // A small log, so that checkpoints are among the moments.
    const auto store =
        opened({.path = directory.file("store.db"), .checkpoint_pages = 40, .vfs = disk.vfs()});
    const auto model = std::make_shared<Model>();
    const auto specification = make_model_store(model);
    RandomCommands commands{seed, *model};

    for (int batch = 0; batch < 40; ++batch) {
      CAPTURE(batch);
      constexpr RunKey last = 40;
      const std::string before = state(*specification, last);
      std::map<std::string, std::string> image;
      disk.watch(1 + random.below(40), [&] { image = disk.after_power_loss(random); });

      const auto next = commands.next_batch();
      REQUIRE(store->execute(next));
      disk.unwatch();
      REQUIRE(specification->execute(next));

      const std::string after = state(*specification, last);
      CHECK(state_of_image(disk.after_power_loss(random), last) == after);
      if (!image.empty()) {
        const std::string left = state_of_image(image, last);
        CHECK((left == before || left == after));
        if (left != after) ++torn;
      }
    }
  }
  CHECK(torn > 10);  // the moments were not all behind the commit
}

struct Failure {
  FaultyDisk::Operation operation;
  int code;
};

TEST_CASE("a disk that fails during a commit stops the store, and nothing answered is lost") {
  for (const Failure failure : {Failure{FaultyDisk::Operation::write, SQLITE_FULL},
                                Failure{FaultyDisk::Operation::write, SQLITE_IOERR_WRITE},
                                Failure{FaultyDisk::Operation::sync, SQLITE_IOERR_FSYNC}}) {
    int failures = 0;
    for (std::uint64_t nth = 1; nth <= 12; ++nth) {
      CAPTURE(failure.code);
      CAPTURE(nth);
      FaultyDisk disk;
      TemporaryDirectory directory;
      const SqliteOptions options{.path = directory.file("store.db"), .vfs = disk.vfs()};
      auto store = opened(options);
      REQUIRE(execute(*store, start(new_run(1))));
      const std::string before = state(*store, 3);
      disk.fail(failure.operation, nth, failure.code, "-wal");

      const auto answers = execute(*store, start(keyed_run(2, "order-7")));

      if (!disk.has_failed()) {
        CHECK(answers.has_value());
        continue;
      }
      ++failures;
      REQUIRE_FALSE(answers);
      CHECK(answers.error().code == base::Errc::unavailable);
      disk.heal();
      const auto refused = execute(*store, FindWork{});
      REQUIRE_FALSE(refused);
      CHECK(refused.error().code == base::Errc::refused);

      store.reset();
      store = opened(options);
      const std::string after = state(*store, 3);
      const bool happened = std::holds_alternative<RunLoaded>(execute(*store, LoadRun{2})->front());
      if (!happened) CHECK(after == before);
      // Whichever it was, doing it again gives one run.
      const auto again = execute(*store, start(keyed_run(3, "order-7")));
      REQUIRE(again);
      CHECK(std::holds_alternative<RunExists>(again->front()) == happened);
    }
    CHECK(failures > 0);
  }
}

TEST_CASE("a disk that is full before the commit refuses the batch and the store goes on") {
  FaultyDisk disk;
  TemporaryDirectory directory;
  // So little cache that pages are written in the middle of a transaction.
  const auto store =
      opened({.path = directory.file("store.db"), .cache_kib = 40, .vfs = disk.vfs()});
  std::vector<Command> batch;
  for (RunKey key = 1; key <= 50; ++key) {
    NewRun run = new_run(key);
    run.input = std::string(10'000, 'x');
    batch.emplace_back(start(run));
  }
  disk.fail(FaultyDisk::Operation::write, 1, SQLITE_FULL, "-wal");

  const auto full = store->execute(batch);

  REQUIRE_FALSE(full);
  CHECK(full.error().code == base::Errc::refused);
  disk.heal();
  CHECK(std::holds_alternative<RunMissing>(execute(*store, LoadRun{1})->front()));
  const auto again = store->execute(batch);
  REQUIRE(again);
  CHECK(std::holds_alternative<RunStarted>(again->front()));
}

TEST_CASE(
    "a checkpoint that fails takes nothing back and stops the store until it is opened again") {
  for (const auto operation : {FaultyDisk::Operation::write, FaultyDisk::Operation::sync}) {
    FaultyDisk disk;
    TemporaryDirectory directory;
    const SqliteOptions options{
        .path = directory.file("store.db"), .checkpoint_pages = 1, .vfs = disk.vfs()};
    auto store = opened(options);
    disk.fail(operation, 1,
              operation == FaultyDisk::Operation::write ? SQLITE_IOERR_WRITE : SQLITE_IOERR_FSYNC,
              "store.db");

    CHECK(execute(*store, start(new_run(1))));
    CHECK(disk.has_failed());
    const auto refused = execute(*store, start(new_run(2)));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == base::Errc::refused);

    disk.heal();
    store.reset();
    store = opened(options);
    CHECK(std::holds_alternative<RunLoaded>(execute(*store, LoadRun{1})->front()));
    CHECK(std::holds_alternative<RunMissing>(execute(*store, LoadRun{2})->front()));
    CHECK(execute(*store, start(new_run(2))));
  }
}

TEST_CASE("a log that is long enough is checkpointed") {
  TemporaryDirectory directory;
  const auto store = opened({.path = directory.file("store.db"), .checkpoint_pages = 20});

  for (RunKey key = 1; key <= 20; ++key) REQUIRE(execute(*store, start(new_run(key))));

  CHECK(store->counters().checkpoints > 0);
  CHECK(store->counters().checkpoints < 20);
}

}  // namespace
}  // namespace semel::store
