// When reservations are swept from a SQLite store: one entry says it for all that a transaction made.
#include "store/sqlite/database.hpp"
#include "store/sqlite/sqlite_store.hpp"
#include "store/unit_of_work.hpp"
#include "tests/contract/stores.hpp"

namespace semel::store {
namespace {

Reserve reserve(const std::string& key, std::chrono::nanoseconds ttl = 24h) {
  return {.id = {.ns = "orders", .key = key}, .lease = 30s, .ttl = ttl, .now = at()};
}

/// A store in memory.
class Shop {
 public:
  Shop() {
    auto opened = SqliteStore::open(database_);
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message);
    store_ = *std::move(opened);
  }

  std::vector<Answer> execute(const std::vector<Command>& batch) {
    auto answers = store_->execute(batch);
    REQUIRE_MESSAGE(answers.has_value(), answers.error().message);
    return *std::move(answers);
  }

  Fence reserved(const Reserve& command) {
    const auto answers = execute({command});
    REQUIRE(std::holds_alternative<Acquired>(answers.front()));
    return std::get<Acquired>(answers.front()).fence;
  }

  Swept sweep(TimePoint now, std::int64_t limit = 1000) {
    return std::get<Swept>(execute({Sweep{.now = now, .limit = limit}}).front());
  }

  std::int64_t swept(TimePoint now, std::int64_t limit = 1000) {
    return sweep(now, limit).reservations;
  }

  std::int64_t number(const std::string& sql) {
    sqlite::Statement statement{*database_, sql.c_str()};
    sqlite::Rows rows = statement.select();
    REQUIRE(rows.next());
    return rows.integer(0);
  }

  void run(const char* sql) { database_->run(sql); }

  std::int64_t reservations() { return number("SELECT count(*) FROM semel_reservation"); }

  std::int64_t entries() { return number("SELECT count(*) FROM semel_reservation_sweep"); }

  Store& store() { return *store_; }

 private:
  std::shared_ptr<sqlite::Database> database_ = make_memory_database();
  std::unique_ptr<SqliteStore> store_;
};

/// Reserves a key; and then takes it back, or not.
class Reserving final : public Work {
 public:
  Reserving(Reserve command, bool fails) : command_(std::move(command)), fails_(fails) {}

  std::string run(UnitOfWork& unit) override {
    unit.execute(command_);
    if (fails_) throw std::runtime_error("no");
    return "null";
  }

 private:
  const Reserve command_;
  const bool fails_;
};

Transact in_unit(const Reserve& command, bool fails) {
  return {.work = std::make_shared<Reserving>(command, fails), .step = {}, .now = at()};
}

}  // namespace

TEST_CASE("what a transaction makes and expires together has one entry") {
  Shop shop;
  shop.execute({reserve("a"), reserve("b", 1h), reserve("c"), reserve("a"), reserve("d")});
  CHECK(shop.entries() == 2);

  CHECK(shop.swept(at(1h + 30s) - 1ns) == 0);
  CHECK(shop.swept(at(1h + 30s)) == 1);
  CHECK(shop.swept(at(24h + 30s) - 1ns) == 0);
  CHECK(shop.swept(at(24h + 30s)) == 3);

  CHECK(shop.reservations() == 0);
  CHECK(shop.entries() == 0);
}

TEST_CASE("a reservation is swept at the last moment it was given, and its neighbours at theirs") {
  Shop shop;
  shop.execute({reserve("before"), reserve("k"), reserve("behind")});
  const Fence fence = 2;

  SUBCASE("by being renewed") {
    shop.execute({Renew{.id = reserve("k").id, .fence = fence, .lease = 2h, .now = at(10s)}});
  }
  SUBCASE("by being completed late") {
    shop.execute({Renew{.id = reserve("k").id, .fence = fence, .lease = 1h, .now = at(10s)},
                  Complete{.id = reserve("k").id, .fence = fence, .now = at(2h + 10s)}});
  }

  CHECK(shop.swept(at(24h + 30s)) == 2);
  CHECK(shop.swept(at(26h + 10s) - 1ns) == 0);
  CHECK(shop.swept(at(26h + 10s)) == 1);
  CHECK(shop.reservations() == 0);
  CHECK(shop.entries() == 0);
}

TEST_CASE("who takes a key over is swept at its own moment") {
  Shop shop;
  shop.reserved(reserve("k"));
  Reserve late = reserve("k");
  late.now = at(1h);
  shop.reserved(late);

  CHECK(shop.swept(at(25h + 30s) - 1ns) == 0);
  CHECK(shop.swept(at(25h + 30s)) == 1);
  CHECK(shop.entries() == 0);
}

TEST_CASE("what was undone within a transaction takes nobody's entry with it") {
  Shop shop;
  shop.execute({reserve("a"), in_unit(reserve("undone", 1h), true), reserve("b", 1h),
                in_unit(reserve("undone"), true), reserve("c"),
                in_unit(reserve("kept", 1h), false)});
  CHECK(shop.reservations() == 4);

  CHECK(shop.swept(at(1h + 30s)) == 2);
  CHECK(shop.swept(at(24h + 30s)) == 2);
  CHECK(shop.entries() == 0);
}

TEST_CASE("what was entered in a transaction that failed is not entered by the next") {
  Shop shop;
  shop.execute({start(new_run(1))});
  shop.run("UPDATE semel_run SET status = 99");
  const auto failed = shop.store().execute(std::vector<Command>{reserve("a"), LoadRun{1}});
  REQUIRE_FALSE(failed.has_value());

  shop.execute({reserve("b", 1h)});

  CHECK(shop.entries() == 1);
  CHECK(shop.swept(at(1h + 30s)) == 1);
}

TEST_CASE(
    "a sweep of a few rows goes on where the last one stopped, and passes over what is gone") {
  Shop shop;
  std::vector<Command> batch;
  for (int i = 0; i < 10; ++i) batch.emplace_back(reserve("k" + std::to_string(i)));
  shop.execute(batch);
  for (Fence fence = 1; fence <= 5; ++fence) {
    const std::string key = "k" + std::to_string(fence - 1);
    shop.execute({Release{.id = reserve(key).id, .fence = fence, .now = at(1s)}});
  }

  CHECK(shop.swept(at(24h + 30s), 3) == 3);
  CHECK(shop.entries() == 1);
  CHECK(shop.swept(at(24h + 30s), 3) == 2);
  CHECK(shop.entries() == 0);
}

TEST_CASE("a sweep that passed over many entries without rows says that there are more") {
  Shop shop;
  for (Fence fence = 1; fence <= 1100; ++fence) {
    const Reserve command = reserve("k", 1h + std::chrono::seconds{fence});
    CHECK(shop.reserved(command) == fence);
    shop.execute({Release{.id = command.id, .fence = fence, .now = at()}});
  }
  shop.reserved(reserve("behind"));
  REQUIRE(shop.entries() == 1101);

  const Swept first = shop.sweep(at(25h), 10);
  CHECK(first.reservations == 0);
  CHECK(first.more);

  const Swept second = shop.sweep(at(25h), 10);
  CHECK(second.reservations == 1);
  CHECK_FALSE(second.more);
}

TEST_CASE("a sweep in the transaction that made a reservation finds it") {
  Shop shop;
  const auto answers = shop.execute({reserve("a"), Sweep{.now = at(25h)}, reserve("b")});

  CHECK(std::get<Swept>(answers[1]).reservations == 1);
  CHECK(shop.swept(at(25h)) == 1);
  CHECK(shop.entries() == 0);
}

}  // namespace semel::store
