// What only PostgreSQL's statements could do to the engine's tables and transactions, and what its types are in C++.
#include "tests/support/api.hpp"
#include "tests/support/fresh_store.hpp"
#include "tests/support/postgres_server.hpp"

#include <semel/semel.hpp>

#include <doctest/doctest.h>

namespace semel {

namespace {

using test::code_of;

void exec(Engine& engine, const char* sql) {
  engine.transaction([&](sql::Transaction& tx) { tx.exec(sql); });
}

std::int64_t count(Engine& engine, const char* sql) {
  return engine.transaction(
      [&](sql::Transaction& tx) { return tx.query<std::int64_t>(sql).front(); });
}

Workflow<std::string> greet(std::string name) { co_return "hello " + name; }

}  // namespace

TEST_CASE("what belongs to the engine is out of reach on PostgreSQL") {
  testing::Engine engine{testing::fresh_store()};
  exec(engine, "CREATE TABLE orders (id text PRIMARY KEY)");
  engine.add("greet", greet);
  engine.start(greet, "you");
  engine.run_until_idle();
  for (const char* sql : {"COMMIT",
                          "END",
                          "ROLLBACK",
                          "ABORT",
                          "BEGIN",
                          "START TRANSACTION",
                          "SAVEPOINT x",
                          "RELEASE semel_unit",
                          "ROLLBACK TO semel_unit",
                          "PREPARE TRANSACTION 'x'",
                          "SELECT 1; COMMIT; SELECT 2",
                          "/* harmless */ commit",
                          "SET synchronous_commit = off",
                          "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
                          "RESET ALL",
                          "DISCARD ALL",
                          "DEALLOCATE ALL",
                          "LISTEN x",
                          "COPY orders FROM STDIN",
                          "DO $$ BEGIN COMMIT; END $$",
                          "DELETE FROM semel.run",
                          "UPDATE semel.run SET status = 3",
                          "INSERT INTO Semel.Garbage VALUES (1)",
                          "WITH gone AS (DELETE FROM semel.journal RETURNING 1) SELECT * FROM gone",
                          "EXPLAIN ANALYZE DELETE FROM semel.run",
                          "DO $$ BEGIN DELETE FROM semel.run; END $$",
                          "DO $$ BEGIN EXECUTE 'DROP TABLE sem' || 'el.journal'; END $$",
                          "DO $$ BEGIN EXECUTE 'TRUNCATE sem' || 'el.run'; END $$",
                          "DROP TABLE semel.journal",
                          "DROP SCHEMA \"semel\" CASCADE",
                          "TRUNCATE semel.run",
                          "ALTER TABLE semel.run ADD COLUMN mine int",
                          "CREATE INDEX mine ON semel.run (status)",
                          "CREATE TABLE semel.mine (a int)",
                          "LOCK TABLE semel.run"}) {
    CAPTURE(sql);
    CHECK(code_of([&] { exec(engine, sql); }) == "SQL_ERROR");
  }
  // A trigger of the program's own does what the program may do, and no more; also one that waits for the end.
  exec(engine,
       "CREATE FUNCTION wipe() RETURNS trigger LANGUAGE plpgsql AS"
       " $$ BEGIN DELETE FROM semel.run; RETURN NULL; END $$");
  for (const char* sql :
       {"CREATE TRIGGER wipe AFTER INSERT ON orders EXECUTE FUNCTION wipe();"
        "INSERT INTO orders VALUES ('a')",
        "CREATE CONSTRAINT TRIGGER wipe AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION wipe(); INSERT INTO orders VALUES ('a')"}) {
    CAPTURE(sql);
    CHECK(code_of([&] { exec(engine, sql); }) == "SQL_ERROR");
  }

  CHECK(engine.runs().size() == 1);
  CHECK(count(engine, "SELECT count(*) FROM orders") == 0);
  CHECK(count(engine, "SELECT count(*) FROM semel.run") == 1);
  CHECK(engine.start(greet, "them").run.result<std::string>() == "hello them");
}

TEST_CASE("what is refused takes nothing with it that was done before") {
  testing::Engine engine{testing::fresh_store()};
  exec(engine, "CREATE TABLE orders (id text PRIMARY KEY)");

  engine.transaction([](sql::Transaction& tx) {
    tx.exec("INSERT INTO orders VALUES ('a')");
    CHECK_THROWS_AS(tx.exec("DELETE FROM semel.counter"), sql::SqlError);
    CHECK_THROWS_AS(tx.exec("COMMIT"), sql::SqlError);
    CHECK_THROWS_AS(tx.exec("SELECT no_such_function()"), sql::SqlError);
    tx.exec("INSERT INTO orders VALUES ('b')");
  });

  CHECK(count(engine, "SELECT count(*) FROM orders") == 2);
}

TEST_CASE(
    "what the engine's commits rest on is as it was, whatever a function of the program's sets") {
  testing::Engine engine{testing::fresh_store()};

  exec(engine,
       "SELECT set_config('synchronous_commit', 'off', false),"
       " set_config('default_transaction_isolation', 'serializable', false)");

  CHECK(
      count(
          engine,
          "SELECT count(*) FROM pg_settings WHERE (name, setting) IN"
          " (('synchronous_commit', 'on'), ('default_transaction_isolation', 'read committed'))") ==
      2);
}

TEST_CASE("so it is where a trigger that waits for the end sets it") {
  testing::Engine engine{testing::fresh_store()};
  const auto settings = [&] {
    return engine.transaction([](sql::Transaction& tx) {
      return tx
          .query<std::string>(
              "SELECT string_agg(name || ' = ' || setting, ', ' ORDER BY name) FROM pg_settings"
              " WHERE name IN ('synchronous_commit', 'default_transaction_isolation',"
              " 'default_transaction_read_only', 'lock_timeout', 'statement_timeout',"
              " 'idle_in_transaction_session_timeout')")
          .front();
    });
  };
  exec(engine,
       "CREATE TABLE orders (id text PRIMARY KEY);"
       "CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
       " PERFORM set_config('synchronous_commit', 'off', false),"
       "  set_config('default_transaction_isolation', 'serializable', false),"
       "  set_config('default_transaction_read_only', 'on', false),"
       "  set_config('lock_timeout', '0', false), set_config('statement_timeout', '1h', false),"
       "  set_config('idle_in_transaction_session_timeout', '0', false);"
       " RETURN NULL; END $$;"
       "CREATE CONSTRAINT TRIGGER meddle AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED"
       " FOR EACH ROW EXECUTE FUNCTION meddle()");
  const std::string before = settings();

  exec(engine, "INSERT INTO orders VALUES ('a')");

  CHECK(settings() == before);
}

TEST_CASE("the program's statements are planned as PostgreSQL does it by itself") {
  testing::Engine engine{testing::fresh_store()};

  const auto planned = [&] {
    return count(engine,
                 "SELECT count(*) FROM pg_settings WHERE (name = 'plan_cache_mode'"
                 " AND setting = 'auto') OR (name = 'jit' AND setting = reset_val)");
  };

  CHECK(planned() == 2);
  exec(engine, "SELECT set_config('plan_cache_mode', 'force_custom_plan', false)");
  CHECK(planned() == 2);
}

TEST_CASE("PostgreSQL's types come out as what C++ has for them") {
  testing::Engine engine{testing::fresh_store()};
  exec(engine,
       "CREATE TABLE kinds (flag boolean, small smallint, price numeric(10, 2), real double "
       "precision, id uuid, document jsonb, data bytea, at timestamptz)");

  engine.transaction([](sql::Transaction& tx) {
    const std::string id = "6b1e4b58-6f4d-4c0c-8f0a-0f4bb1d9b1a1";
    const Bytes bytes{std::byte{0}, std::byte{92}, std::byte{255}};
    tx.exec("INSERT INTO kinds VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, to_timestamp(?8))", true, 7,
            12.5, 0.1, id, R"({"a":1})", bytes, 0);
    CHECK(tx.query<bool>("SELECT flag FROM kinds WHERE small = $1", 7) == std::vector{true});
    CHECK(tx.query<std::string>("SELECT price FROM kinds") == std::vector<std::string>{"12.50"});
    CHECK(tx.query<double>("SELECT price::float8 FROM kinds WHERE price = ?1", 12.5) ==
          std::vector{12.5});
    CHECK(tx.query<double>("SELECT real FROM kinds") == std::vector{0.1});
    CHECK(tx.query<std::string>("SELECT id FROM kinds WHERE id = ?1", id) == std::vector{id});
    CHECK(tx.query<std::string>("SELECT document ->> 'a' FROM kinds WHERE document ? 'a'") ==
          std::vector<std::string>{"1"});
    CHECK(tx.query<Bytes>("SELECT data FROM kinds").front() == bytes);
    CHECK(tx.query<std::int64_t>("SELECT sum(small::bigint) FROM kinds") == std::vector{7L});
    CHECK(tx.query<std::optional<std::string>>("SELECT ?1::text", std::nullopt).front() ==
          std::nullopt);
  });
}

TEST_CASE("a message about a value does not show it") {
  testing::Engine engine{testing::fresh_store()};
  const auto message = [&](const std::string& value) {
    try {
      engine.transaction([&](sql::Transaction& tx) { tx.exec("SELECT ?1::int", value); });
    } catch (const sql::SqlError& error) {
      return std::string(error.what());
    }
    return std::string();
  };

  CHECK(message("secret") == "invalid input syntax for type integer");
  CHECK(message(std::string("1\0secret", 8)) == "PostgreSQL's text cannot hold a NUL");
}

TEST_CASE("a statement goes on working when its tables have changed") {
  testing::Engine engine{testing::fresh_store()};
  exec(engine, "CREATE TABLE orders (id text)");
  const auto read = [&] { return code_of([&] { exec(engine, "SELECT * FROM orders"); }); };

  CHECK(read() == "nothing");
  semel::testing::PostgresServer::shared().run("ALTER TABLE orders ADD COLUMN note text");
  static_cast<void>(read());  // PostgreSQL refuses it once: its columns are not what they were

  CHECK(read() == "nothing");
}

}  // namespace semel
