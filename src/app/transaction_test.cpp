// SQL of the program's own in the engine's commits. Also compiled for PostgreSQL (tests/postgres).
#include "tests/support/api.hpp"
#include "tests/support/fresh_store.hpp"

#include <semel/semel.hpp>

#include <doctest/doctest.h>

namespace semel {

namespace {

using namespace std::chrono_literals;

struct Order {
  std::string id;
  std::int64_t cents = 0;
  std::optional<std::string> note{};

  bool operator==(const Order&) const = default;
};
BOOST_DESCRIBE_STRUCT(Order, (), (id, cents, note))

using test::code_of;

void make_orders(Engine& engine) {
  engine.transaction([](sql::Transaction& tx) {
    tx.exec(
        "CREATE TABLE orders (id TEXT PRIMARY KEY, cents INTEGER NOT NULL, note TEXT);"
        "CREATE TABLE lines (order_id TEXT REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)");
  });
}

std::int64_t orders(Engine& engine) {
  return engine.transaction([](sql::Transaction& tx) {
    return tx.query<std::int64_t>("SELECT count(*) FROM orders").front();
  });
}

Workflow<std::string> greet(std::string name) { co_return "hello " + name; }

Workflow<std::int64_t> save(std::string id) {
  const auto cents = co_await transaction("save", [id](sql::Transaction& tx) {
    tx.exec("INSERT INTO orders (id, cents) VALUES (?1, ?2)", id, 250);
    return tx.query<std::int64_t>("SELECT cents FROM orders WHERE id = ?1", id).front();
  });
  const auto doubled = co_await step("double", [cents] { return cents * 2; });
  co_await transaction("raise", [id, doubled](sql::Transaction& tx) {
    tx.exec("UPDATE orders SET cents = cents + ?2 WHERE id = ?1", id, doubled);
  });
  co_return doubled;
}

}  // namespace

TEST_CASE("values go in and come out as they were") {
  testing::Engine engine{testing::fresh_store()};
  make_orders(engine);
  const Order first{"a", 100, "fragile"};
  const Order second{"b", -5, std::nullopt};
  engine.transaction([&](sql::Transaction& tx) {
    for (const Order& order : {first, second}) {
      tx.exec("INSERT INTO orders VALUES (?1, ?2, ?3)", order.id, order.cents, order.note);
    }
  });

  engine.transaction([&](sql::Transaction& tx) {
    CHECK(tx.query<Order>("SELECT note, cents, id FROM orders ORDER BY id") ==
          std::vector{first, second});
    CHECK(tx.query<std::tuple<std::string, int>>("SELECT id, cents FROM orders WHERE cents < ?1",
                                                 0) ==
          std::vector{std::tuple{std::string("b"), -5}});
    CHECK(tx.query<std::optional<std::string>>("SELECT note FROM orders WHERE id = 'b'") ==
          std::vector{std::optional<std::string>{}});
    const Bytes bytes{std::byte{0}, std::byte{255}};
    CHECK(tx.query<Bytes>("SELECT ?1", bytes).front() == bytes);
    CHECK(tx.query<double>("SELECT ?1", 0.1) == std::vector{0.1});
    CHECK(tx.query<bool>("SELECT ?1", true) == std::vector{true});
    CHECK(tx.query<std::int64_t>("SELECT ?1", INT64_MIN) == std::vector{INT64_MIN});
    CHECK(tx.query<int>("SELECT 1 WHERE false").empty());
    CHECK(tx.query<std::string>("INSERT INTO orders VALUES ('c', 1, NULL) RETURNING id") ==
          std::vector{std::string("c")});
  });
}

TEST_CASE("what does not fit says where") {
  testing::Engine engine{testing::fresh_store()};
  make_orders(engine);
  const auto message = [&](const std::function<void(sql::Transaction&)>& action) {
    try {
      engine.transaction(action);
    } catch (const sql::SqlError& error) {
      return std::string(error.what());
    }
    return std::string();
  };

  CHECK(message([](auto& tx) { tx.template query<int>("SELECT 'x' AS a"); }) ==
        "column a: expected an integer, found text");
  CHECK(message([](auto& tx) { tx.template query<int>("SELECT NULL AS a"); }) ==
        "column a: expected an integer, found NULL");
  CHECK(message([](auto& tx) { tx.template query<std::int8_t>("SELECT 200 AS a"); }) ==
        "column a: the number does not fit its type");
  CHECK(message([](auto& tx) { tx.template query<std::uint64_t>("SELECT -1 AS a"); }) ==
        "column a: the number does not fit its type");
  CHECK(message([](auto& tx) { tx.template query<std::tuple<int>>("SELECT 1, 2"); }) ==
        "the rows have 2 columns, 1 expected");
  CHECK(message([](auto& tx) { tx.template query<Order>("SELECT 'a' AS id, 1 AS cents"); }) ==
        "the rows have no column note");
  CHECK(message([](auto& tx) { tx.exec("INSERT INTO orders VALUES (?1, ?2, ?3)", "a"); }) ==
        "the statement has 3 parameters, 1 was given");
  CHECK(message([](auto& tx) { tx.exec("SELECT ?1; SELECT ?1", 1); }) ==
        "parameters go with one statement, not with several");
  CHECK(message([](auto& tx) { tx.exec("SELEC 1"); }).find("syntax error") != std::string::npos);
  CHECK(code_of([&] {
          engine.transaction(
              [](sql::Transaction& tx) { tx.exec("INSERT INTO orders VALUES ('a', NULL, NULL)"); });
        }) == "SQL_CONSTRAINT");
}

TEST_CASE("what throws leaves nothing") {
  testing::Engine engine{testing::fresh_store()};
  make_orders(engine);

  CHECK_THROWS_AS(engine.transaction([](sql::Transaction& tx) {
    tx.exec("INSERT INTO orders VALUES ('a', 1, NULL)");
    throw std::runtime_error("no");
  }),
                  std::runtime_error);

  CHECK(orders(engine) == 0);
}

TEST_CASE("a statement that fails leaves what was done before it, if it is caught") {
  testing::Engine engine{testing::fresh_store()};
  make_orders(engine);

  engine.transaction([](sql::Transaction& tx) {
    tx.exec("INSERT INTO orders VALUES ('a', 1, NULL)");
    CHECK_THROWS_AS(tx.exec("INSERT INTO orders VALUES ('a', 2, NULL)"), sql::SqlError);
  });

  CHECK(orders(engine) == 1);
}

TEST_CASE("foreign keys that are put off are looked at before the commit") {
  testing::Engine engine{testing::fresh_store()};
  make_orders(engine);

  CHECK(code_of([&] {
          engine.transaction(
              [](sql::Transaction& tx) { tx.exec("INSERT INTO lines VALUES ('nobody')"); });
        }) == "SQL_CONSTRAINT");
  engine.transaction([](sql::Transaction& tx) {
    tx.exec("INSERT INTO lines VALUES ('a'); INSERT INTO orders VALUES ('a', 1, NULL)");
  });

  CHECK(orders(engine) == 1);
}

TEST_CASE("a run is started if and only if the transaction is committed") {
  testing::Engine engine{testing::fresh_store()};
  make_orders(engine);
  engine.add("greet", greet);
  engine.start_workers();
  std::optional<Run> started;

  CHECK_THROWS_AS(engine.transaction([&](sql::Transaction& tx) {
    started = engine.start_in(tx, {.key = "k"}, greet, "nobody").run;
    throw std::runtime_error("no");
  }),
                  std::runtime_error);
  CHECK_THROWS_AS(engine.run(started->id()), RunNotFoundError);
  const Started mine = engine.transaction([&](sql::Transaction& tx) {
    tx.exec("INSERT INTO orders VALUES ('a', 1, NULL)");
    return engine.start_in(tx, {.key = "k"}, greet, "you");
  });
  const Started again = engine.transaction(
      [&](sql::Transaction& tx) { return engine.start_in(tx, {.key = "k"}, greet, "you"); });

  CHECK(mine.created);
  CHECK_FALSE(again.created);
  CHECK(again.run.id() == mine.run.id());
  CHECK(mine.run.result<std::string>() == "hello you");
  CHECK(code_of([&] {
          engine.transaction([&](sql::Transaction& tx) {
            engine.start_in(tx, {.key = "k"}, greet, "somebody else");
          });
        }) == "IDEMPOTENCY_CONFLICT");
}

TEST_CASE("a delayed run of a transaction begins when it is due") {
  testing::Engine engine{testing::fresh_store()};
  engine.add("greet", greet);
  engine.start_workers();

  const Run run = engine
                      .transaction([&](sql::Transaction& tx) {
                        return engine.start_in(tx, {.delay = 1h}, greet, "you");
                      })
                      .run;
  engine.run_until_idle();
  CHECK(run.status() == RunStatus::pending);
  engine.advance(1h);

  CHECK(run.status() == RunStatus::completed);
}

Workflow<int> listen() {
  auto numbers = hook<int>("numbers");
  co_return co_await numbers;
}

TEST_CASE("a payload is sent if and only if the transaction is committed") {
  testing::Engine engine{testing::fresh_store()};
  engine.add("listen", listen);
  engine.start_workers();
  const Run run = engine.start(listen).run;
  engine.run_until_idle();

  CHECK_THROWS_AS(engine.transaction([&](sql::Transaction& tx) {
    engine.resume_in(tx, "numbers", 1);
    throw std::runtime_error("no");
  }),
                  std::runtime_error);
  engine.run_until_idle();
  CHECK(run.status() == RunStatus::waiting);
  const Resumed resumed =
      engine.transaction([&](sql::Transaction& tx) { return engine.resume_in(tx, "numbers", 2); });

  CHECK(resumed.run_id == run.id());
  CHECK(run.result<int>() == 2);
  CHECK(code_of([&] {
          engine.transaction([&](sql::Transaction& tx) { engine.resume_in(tx, "numbers", 3); });
        }) == "HOOK_NOT_FOUND");
}

TEST_CASE("engine calls that would wait for a commit are refused inside one") {
  testing::Engine engine{testing::fresh_store()};
  engine.add("greet", greet);
  engine.start_workers();
  const Run run = engine.start(greet, "you").run;
  const auto inside = [&](const std::function<void()>& action) {
    return code_of([&] { engine.transaction([&](sql::Transaction&) { action(); }); });
  };

  CHECK(inside([&] { engine.start(greet, "you"); }) == "CALL_INSIDE_TRANSACTION");
  CHECK(inside([&] { run.result<std::string>(); }) == "CALL_INSIDE_TRANSACTION");
  CHECK(inside([&] { engine.runs(); }) == "CALL_INSIDE_TRANSACTION");
  CHECK(inside([&] { engine.transaction([](sql::Transaction&) {}); }) == "CALL_INSIDE_TRANSACTION");
}

TEST_CASE("the stored answer of a key and the rows are one") {
  testing::Engine engine{testing::fresh_store()};
  make_orders(engine);
  int executed = 0;
  const auto place = [&](bool fails) {
    return engine.transaction([&](sql::Transaction& tx) {
      const auto id = run_idempotently(tx.idempotency(), {.ns = "orders", .key = "k"}, [&] {
        ++executed;
        tx.exec("INSERT INTO orders VALUES (?1, 1, NULL)", "order-" + std::to_string(executed));
        return "order-" + std::to_string(executed);
      });
      if (fails) throw std::runtime_error("no");
      return id;
    });
  };

  CHECK_THROWS_AS(place(true), std::runtime_error);
  CHECK(orders(engine) == 0);
  CHECK(place(false) == "order-2");
  CHECK(place(false) == "order-2");
  CHECK(executed == 2);
  CHECK(orders(engine) == 1);
  // Outside of a transaction it is the same key.
  CHECK(run_idempotently(engine.idempotency(), {.ns = "orders", .key = "k"},
                         [] { return std::string("never"); }) == "order-2");
}

TEST_CASE("a transactional step happens once, whenever the process is killed") {
  for (int crash_after = 0; crash_after < 12; ++crash_after) {
    CAPTURE(crash_after);
    testing::Engine engine{testing::fresh_store()};
    make_orders(engine);
    engine.add("save", save);
    engine.start_workers();
    const Run run = engine.start({.key = "once"}, save, "a").run;
    for (int i = 0; i < crash_after; ++i) engine.crash();

    CHECK(run.result<std::int64_t>() == 500);
    engine.transaction([](sql::Transaction& tx) {
      CHECK(tx.query<std::tuple<std::string, int>>("SELECT id, cents FROM orders") ==
            std::vector{std::tuple{std::string("a"), 750}});
    });
  }
}

TEST_CASE("a transactional step that throws is tried again and leaves nothing of what failed") {
  testing::Engine engine{testing::fresh_store()};
  make_orders(engine);
  auto attempts = std::make_shared<int>(0);
  static std::shared_ptr<int> counted;
  counted = attempts;
  const auto workflow = []() -> Workflow<int> {
    co_return co_await transaction("save", {.retry = {.attempts = 3, .initial = 1s}},
                                   [](sql::Transaction& tx) {
                                     tx.exec("INSERT INTO orders VALUES ('a', 1, NULL)");
                                     if (++*counted < 3) throw std::runtime_error("not yet");
                                     return *counted;
                                   });
  };
  engine.add("flaky", workflow);
  engine.start_workers();

  const Run run = engine.start(workflow).run;
  engine.advance(1min);

  CHECK(run.result<int>() == 3);
  CHECK(orders(engine) == 1);
}

TEST_CASE("a transactional step that fails for good throws out of co_await") {
  testing::Engine engine{testing::fresh_store()};
  make_orders(engine);
  const auto workflow = []() -> Workflow<std::string> {
    const auto done = co_await settled(transaction("save", [](sql::Transaction& tx) {
      tx.exec("INSERT INTO orders VALUES ('a', 1, NULL)");
      throw FatalError("never");
    }));
    co_return done.message();
  };
  engine.add("hopeless", workflow);
  engine.start_workers();

  CHECK(engine.start(workflow).run.result<std::string>().find("never") != std::string::npos);
  CHECK(orders(engine) == 0);
}

TEST_CASE("many transactional steps at once") {
  testing::Engine engine{testing::fresh_store()};
  make_orders(engine);
  const auto workflow = []() -> Workflow<int> {
    std::vector<Op<int>> all_of_them;
    for (int i = 0; i < 5; ++i) {
      all_of_them.push_back(transaction("save", [i](sql::Transaction& tx) {
        tx.exec("INSERT INTO orders VALUES (?1, ?2, NULL)", std::to_string(i), i);
        return i;
      }));
    }
    int sum = 0;
    for (const int each : co_await all(std::move(all_of_them))) sum += each;
    co_return sum;
  };
  engine.add("many", workflow);
  engine.start_workers();

  CHECK(engine.start(workflow).run.result<int>() == 10);
  CHECK(orders(engine) == 5);
}

TEST_CASE("threads and transactions: every one happens once") {
  Engine engine{testing::fresh_store()};
  make_orders(engine);
  engine.add("save", save);
  engine.start_workers();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&engine, i] {
      for (int j = 0; j < 20; ++j) {
        const std::string id = std::to_string(i) + "-" + std::to_string(j);
        const Run run = engine
                            .transaction([&](sql::Transaction& tx) {
                              return engine.start_in(tx, {.key = id}, save, id);
                            })
                            .run;
        CHECK(run.result<std::int64_t>() == 500);
      }
    });
  }
  threads.clear();

  CHECK(orders(engine) == 160);
  CHECK(engine.transaction([](sql::Transaction& tx) {
    return tx.query<std::int64_t>("SELECT sum(cents) FROM orders").front();
  }) == 160 * 750);
}

}  // namespace semel
