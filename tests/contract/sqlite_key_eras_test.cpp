// Keys of runs lie in their index by eras: whoever has a key has it in all of them.
#include "store/sqlite/database.hpp"
#include "store/sqlite/sqlite_store.hpp"
#include "tests/contract/stores.hpp"

namespace semel::store {
namespace {

constexpr std::int64_t keys_per_era = 3;

std::string order(RunKey number) { return "order-" + std::to_string(number); }

/// A store in memory whose eras are short.
class Shop {
 public:
  Shop() { reopen(); }

  void reopen() {
    store_.reset();
    auto opened = SqliteStore::open(database_, nullptr, keys_per_era);
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message);
    store_ = *std::move(opened);
  }

  Answer execute(const Command& command) {
    auto answers = store_->execute(std::vector<Command>{command});
    REQUIRE_MESSAGE(answers.has_value(), answers.error().message);
    return std::move(answers->front());
  }

  /// Starts a run under each key from the first to the last; their numbers are the same.
  void start_orders(RunKey first, RunKey last) {
    for (RunKey run = first; run <= last; ++run)
      REQUIRE(std::holds_alternative<RunStarted>(execute(start(keyed_run(run, order(run))))));
  }

  /// The run that a start under the key is handed; 0: it is a run of its own.
  RunKey holder(const std::string& key) {
    const Answer answer = execute(start(keyed_run(++newcomer_, key)));
    const auto* exists = std::get_if<RunExists>(&answer);
    return exists == nullptr ? 0 : exists->run.key;
  }

  std::int64_t number(const char* sql) {
    sqlite::Statement statement{*database_, sql};
    sqlite::Rows rows = statement.select();
    REQUIRE(rows.next());
    return rows.integer(0);
  }

  /// In one transaction.
  bool starts_and_reads(const NewRun& run, RunKey other) {
    return store_->execute(std::vector<Command>{start(run), LoadRun{other}}).has_value();
  }

  void run(const char* sql) { database_->run(sql); }

  std::int64_t eras() { return number("SELECT count(*) FROM semel_key_era"); }

  std::unique_ptr<Reader> reader() { return store_->reader().value(); }

 private:
  std::shared_ptr<sqlite::Database> database_ = make_memory_database();
  std::unique_ptr<SqliteStore> store_;
  RunKey newcomer_ = 1000;
};

}  // namespace

TEST_CASE("a key has one holder, whatever era it was taken in") {
  Shop shop;
  shop.start_orders(1, 10);
  CHECK(shop.eras() == 4);

  SUBCASE("in the process that took it") {}
  SUBCASE("in the next one, which has to look what is there") { shop.reopen(); }

  for (RunKey run = 1; run <= 10; ++run) CHECK(shop.holder(order(run)) == run);
  CHECK(shop.number("SELECT count(*) FROM semel_run") == 10);
}

TEST_CASE("the newest era goes on where the process before left it") {
  Shop shop;
  shop.start_orders(1, 4);

  shop.reopen();
  shop.start_orders(5, 6);

  CHECK(shop.eras() == 2);
  CHECK(shop.number("SELECT count(*) FROM semel_run WHERE key_era = 1") == 3);
}

TEST_CASE("runs without a key are of no era") {
  Shop shop;

  for (RunKey run = 1; run <= 10; ++run) shop.execute(start(new_run(run)));

  CHECK(shop.eras() == 1);
}

TEST_CASE("a key that was given back in an older era is free") {
  Shop shop;
  NewRun first = keyed_run(1, "order-1");
  first.key_ttl = 1h;
  shop.execute(start(first));
  shop.execute(finish(1, 1));
  shop.start_orders(2, 7);

  shop.execute(Sweep{.now = at(1h)});
  const auto started = shop.execute(start(keyed_run(8, "order-1")));

  CHECK(std::holds_alternative<RunStarted>(started));
  CHECK(shop.holder("order-1") == 8);
}

TEST_CASE("a run of an older era takes its key again unless one of a newer era has it") {
  Shop shop;
  for (RunKey run : {1, 2}) {
    NewRun order_of = keyed_run(run, order(run));
    order_of.key_ttl = 1h;
    order_of.retention = 100h;
    shop.execute(start(order_of));
    shop.execute(finish(run, 1, failed()));
  }
  shop.start_orders(3, 7);
  shop.execute(Sweep{.now = at(1h)});
  NewRun second = keyed_run(8, "order-1");
  shop.execute(start(second));

  const auto reopen = [&](RunKey run) {
    return shop.execute(
        ReopenRun{.run = run, .seq = 2, .entries = {entry("reopened")}, .now = at(2h)});
  };
  const auto refused = reopen(1);
  const auto reopened = reopen(2);

  REQUIRE(std::holds_alternative<StartRefused>(refused));
  CHECK(std::get<StartRefused>(refused).why == StartRefused::Why::run_active);
  CHECK(std::holds_alternative<Advanced>(reopened));
  CHECK(shop.holder("order-1") == 8);
  CHECK(shop.holder("order-2") == 2);
}

TEST_CASE("a list by key finds runs of all eras") {
  Shop shop;
  shop.start_orders(1, 10);

  const auto found = shop.reader()->list({.idempotency_key = "order-2"}).value();

  REQUIRE(found.size() == 1);
  CHECK(found.front().key == 2);
}

TEST_CASE("an era whose runs were all swept is forgotten when the next begins") {
  Shop shop;
  for (RunKey run = 1; run <= 3; ++run) {
    NewRun short_lived = keyed_run(run, order(run));
    short_lived.key_ttl = 1h;
    short_lived.retention = 1h;
    shop.execute(start(short_lived));
    shop.execute(finish(run, 1));
  }
  shop.execute(Sweep{.now = at(2h)});

  shop.start_orders(4, 6);
  CHECK(shop.eras() == 1);
  shop.start_orders(7, 10);

  CHECK(shop.number("SELECT min(key_era) FROM semel_run") == 1);
  CHECK(shop.eras() == 3);
}

TEST_CASE("a start that was rolled back leaves its era as it was") {
  Shop shop;
  shop.start_orders(1, 3);
  shop.run("UPDATE semel_run SET status = 99 WHERE run = 1");

  CHECK_FALSE(shop.starts_and_reads(keyed_run(4, "order-4"), 1));
  CHECK(shop.eras() == 1);
  shop.run("UPDATE semel_run SET status = 1 WHERE run = 1");
  shop.start_orders(4, 6);

  CHECK(shop.eras() == 2);
  CHECK(shop.number("SELECT count(*) FROM semel_run WHERE key_era = 1") == 3);
}

}  // namespace semel::store
