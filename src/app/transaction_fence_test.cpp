// What only SQLite's statements could do to the engine's tables and transactions.
#include "tests/support/api.hpp"

#include <semel/semel.hpp>

#include <doctest/doctest.h>

namespace semel {

namespace {

using test::code_of;

void make_orders(Engine& engine) {
  engine.transaction([](sql::Transaction& tx) {
    tx.exec("CREATE TABLE orders (id TEXT PRIMARY KEY, cents INTEGER NOT NULL, note TEXT)");
  });
}

std::int64_t orders(Engine& engine) {
  return engine.transaction([](sql::Transaction& tx) {
    return tx.query<std::int64_t>("SELECT count(*) FROM orders").front();
  });
}

Workflow<std::string> greet(std::string name) { co_return "hello " + name; }

}  // namespace

TEST_CASE("what belongs to the engine is out of reach") {
  testing::Engine engine;
  make_orders(engine);
  engine.add("greet", greet);
  engine.start(greet, "you");
  for (const char* sql : {"COMMIT",
                          "ROLLBACK",
                          "BEGIN",
                          "SAVEPOINT x",
                          "RELEASE semel_unit",
                          "ROLLBACK TO semel_unit",
                          "PRAGMA journal_mode = DELETE",
                          "PRAGMA foreign_keys = OFF",
                          "ATTACH ':memory:' AS other",
                          "DETACH main",
                          "VACUUM",
                          "DELETE FROM semel_run",
                          "UPDATE semel_run SET status = 3",
                          "INSERT INTO Semel_Garbage VALUES (1)",
                          "DROP TABLE semel_journal",
                          "ALTER TABLE semel_run RENAME TO mine",
                          "ALTER TABLE semel_run ADD COLUMN mine",
                          "CREATE INDEX mine ON semel_run (status)",
                          "CREATE TRIGGER mine AFTER INSERT ON semel_run BEGIN SELECT 1; END",
                          "CREATE TEMP TRIGGER mine AFTER INSERT ON semel_run BEGIN SELECT 1; END",
                          "CREATE TABLE semel_mine (a)",
                          "CREATE VIEW semel_mine AS SELECT 1",
                          "INSERT INTO sqlite_dbpage (pgno, data) VALUES (1, zeroblob(4096))",
                          "DELETE FROM sqlite_sequence",
                          "DROP INDEX semel_journal_position"}) {
    CAPTURE(sql);
    CHECK(code_of([&] { engine.transaction([&](sql::Transaction& tx) { tx.exec(sql); }); }) ==
          "SQL_ERROR");
  }
  // A trigger of the program's own does what the program may do, and no more.
  CHECK(code_of([&] {
          engine.transaction([](sql::Transaction& tx) {
            tx.exec("CREATE TRIGGER wipe AFTER INSERT ON orders BEGIN DELETE FROM semel_run; END");
            tx.exec("INSERT INTO orders VALUES ('a', 1, NULL)");
          });
        }) == "SQL_ERROR");

  CHECK(engine.runs().size() == 1);
  CHECK(orders(engine) == 0);
  CHECK(engine.transaction([](sql::Transaction& tx) {
    return tx.query<std::int64_t>("SELECT count(*) FROM semel_run").front();
  }) == 1);
}

TEST_CASE("a statement that ends the transaction takes nobody else's work with it") {
  testing::Engine engine;
  make_orders(engine);
  engine.transaction(
      [](sql::Transaction& tx) { tx.exec("INSERT INTO orders VALUES ('a', 1, NULL)"); });
  engine.add("greet", greet);
  int times = 0;

  CHECK(code_of([&] {
          engine.transaction([&](sql::Transaction& tx) {
            ++times;
            tx.exec("INSERT INTO orders VALUES ('b', 1, NULL)");
            try {
              tx.exec("INSERT OR ROLLBACK INTO orders VALUES ('a', 2, NULL)");
            } catch (const sql::SqlError&) {
              // Whoever goes on as if nothing had happened would write outside of any transaction.
              tx.exec("INSERT INTO orders VALUES ('c', 1, NULL)");
            }
          });
        }) == "SQL_CONSTRAINT");

  CHECK(times == 1);
  CHECK(orders(engine) == 1);
  CHECK(engine.start(greet, "you").run.result<std::string>() == "hello you");
}

}  // namespace semel
