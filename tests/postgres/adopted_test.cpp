// Runs and payloads in a transaction on a connection of the program's own.
#include "tests/support/api.hpp"
#include "tests/support/fresh_store.hpp"
#include "tests/support/postgres_server.hpp"

#include <semel/semel.hpp>

#include <doctest/doctest.h>
#include <libpq-fe.h>

namespace semel {
namespace {

using namespace std::chrono_literals;

/// The program's own connection.
class Own {
 public:
  explicit Own(const std::string& url) : handle_(PQconnectdb(url.c_str())) {
    REQUIRE(PQstatus(handle_) == CONNECTION_OK);
  }

  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;

  ~Own() { PQfinish(handle_); }

  void run(const char* sql) {
    PGresult* result = PQexec(handle_, sql);
    const bool is_done = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    REQUIRE_MESSAGE(is_done, PQerrorMessage(handle_));
  }

  std::string ask(const char* sql) {
    PGresult* result = PQexec(handle_, sql);
    REQUIRE_MESSAGE(PQresultStatus(result) == PGRES_TUPLES_OK, PQerrorMessage(handle_));
    std::string value = PQgetvalue(result, 0, 0);
    PQclear(result);
    return value;
  }

  PGconn* handle() { return handle_; }

 private:
  PGconn* handle_;
};

using test::code_of;

Workflow<std::string> greet(std::string name) { co_return "hello " + name; }

Workflow<int> listen() {
  auto numbers = hook<int>("numbers");
  co_return co_await numbers;
}

struct Shop {
  Shop() {
    engine.add("greet", greet);
    engine.add("listen", listen);
    engine.start_workers();
    own.run("CREATE TABLE public.orders (id text PRIMARY KEY)");
  }

  std::string url = testing::fresh_store();
  testing::Engine engine{url};
  Own own{url};
};

TEST_CASE("a run of the program's own transaction exists if and only if that is committed") {
  Shop shop;
  std::string undone;

  shop.own.run("BEGIN");
  {
    auto tx = shop.engine.adopt(shop.own.handle());
    undone = shop.engine.start_in(tx, {.key = "k"}, greet, "nobody").run.id();
  }
  shop.own.run("INSERT INTO public.orders VALUES ('a')");
  shop.own.run("ROLLBACK");
  shop.engine.run_until_idle();
  CHECK_THROWS_AS(shop.engine.run(undone), RunNotFoundError);

  shop.own.run("BEGIN");
  auto tx = shop.engine.adopt(shop.own.handle());
  const Started started = shop.engine.start_in(tx, {.key = "k"}, greet, "you");
  shop.own.run("INSERT INTO public.orders VALUES ('a')");
  const Started again = shop.engine.start_in(tx, {.key = "k"}, greet, "you");
  CHECK(started.created);
  CHECK_FALSE(again.created);
  CHECK(again.run.id() == started.run.id());
  CHECK_THROWS_AS(shop.engine.run(started.run.id()), RunNotFoundError);
  shop.own.run("COMMIT");
  shop.engine.run_until_idle();

  CHECK(started.run.result<std::string>() == "hello you");
  CHECK(shop.own.ask("SELECT count(*) FROM public.orders") == "1");
  CHECK(shop.own.ask("SELECT count(*) FROM semel.hint") == "0");
}

TEST_CASE("a payload of the program's own transaction is sent if and only if that is committed") {
  Shop shop;
  const Run run = shop.engine.start(listen).run;
  shop.engine.run_until_idle();

  shop.own.run("BEGIN");
  {
    auto tx = shop.engine.adopt(shop.own.handle());
    CHECK(shop.engine.resume_in(tx, "numbers", 1).run_id == run.id());
  }
  shop.own.run("ROLLBACK");
  shop.engine.run_until_idle();
  CHECK(run.status() == RunStatus::waiting);

  shop.own.run("BEGIN");
  auto tx = shop.engine.adopt(shop.own.handle());
  shop.engine.resume_in(tx, "numbers", 2);
  shop.own.run("COMMIT");
  shop.engine.run_until_idle();
  CHECK(run.result<int>() == 2);
}

TEST_CASE("what is refused leaves the program's transaction as it was") {
  Shop shop;
  shop.engine.start({.key = "k"}, greet, "you");

  shop.own.run("BEGIN");
  shop.own.run("INSERT INTO public.orders VALUES ('a')");
  auto tx = shop.engine.adopt(shop.own.handle());
  CHECK(code_of([&] { shop.engine.start_in(tx, {.key = "k"}, greet, "them"); }) ==
        "IDEMPOTENCY_CONFLICT");
  CHECK(code_of([&] { shop.engine.resume_in(tx, "nobody's", 1); }) == "HOOK_NOT_FOUND");
  CHECK(code_of([&] { tx.exec("INSERT INTO public.orders VALUES ('a')"); }) == "SQL_CONSTRAINT");
  CHECK(code_of([&] { tx.exec("DELETE FROM semel.run"); }) == "SQL_ERROR");
  tx.exec("INSERT INTO public.orders VALUES (?1)", "b");
  shop.own.run("COMMIT");

  CHECK(shop.own.ask("SELECT count(*) FROM public.orders") == "2");
}

TEST_CASE("a stored answer is the program's to commit, too") {
  Shop shop;
  int executed = 0;
  const auto place = [&](const char* end) {
    shop.own.run("BEGIN");
    auto tx = shop.engine.adopt(shop.own.handle());
    const auto answer = run_idempotently(tx.idempotency(), {.ns = "orders", .key = "k"},
                                         [&] { return ++executed; });
    shop.own.run(end);
    return answer;
  };

  CHECK(place("ROLLBACK") == 1);
  CHECK(place("COMMIT") == 2);
  CHECK(place("COMMIT") == 2);
  CHECK(executed == 2);
}

TEST_CASE("a run that is superseded by the program's own transaction is over for the engine") {
  Shop shop;
  const Run first = shop.engine.start({.key = "k"}, listen).run;
  shop.engine.run_until_idle();

  shop.own.run("BEGIN");
  auto tx = shop.engine.adopt(shop.own.handle());
  const Run second =
      shop.engine.start_in(tx, {.key = "k", .on_running = OnRunning::supersede}, listen).run;
  shop.own.run("COMMIT");
  shop.engine.run_until_idle();

  CHECK(first.status() == RunStatus::cancelled);
  shop.engine.resume("numbers", 7);
  CHECK(second.result<int>() == 7);
}

TEST_CASE("a connection that is not fit is refused in words") {
  Shop shop;
  auto outside = shop.engine.adopt(shop.own.handle());
  CHECK(code_of([&] { shop.engine.start_in(outside, {}, greet, "you"); }) == "VALIDATION_ERROR");

  shop.own.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
  auto strict = shop.engine.adopt(shop.own.handle());
  CHECK(code_of([&] { shop.engine.start_in(strict, {}, greet, "you"); }) == "VALIDATION_ERROR");
  shop.own.run("ROLLBACK");

  testing::Engine other;
  CHECK(code_of([&] { other.adopt(shop.own.handle()); }) == "VALIDATION_ERROR");
}

TEST_CASE("an engine in production finds by itself what was committed") {
  const std::string url = testing::fresh_store();
  Engine engine{url};
  engine.add("greet", greet);
  engine.start_workers();
  Own own{url};

  own.run("BEGIN");
  auto tx = engine.adopt(own.handle());
  const Run run = engine.start_in(tx, {}, greet, "you").run;
  const Run later = engine.start_in(tx, {.delay = 1ms}, greet, "later").run;
  own.run("COMMIT");

  CHECK(run.result<std::string>() == "hello you");
  CHECK(later.result<std::string>() == "hello later");
}

TEST_CASE("what was committed is found, also where word of it was lost") {
  Shop shop;
  const Run run = shop.engine.start(listen).run;
  shop.engine.run_until_idle();

  shop.own.run("BEGIN");
  auto tx = shop.engine.adopt(shop.own.handle());
  shop.engine.resume_in(tx, "numbers", 2);
  const Run fresh = shop.engine.start_in(tx, {}, greet, "you").run;
  const Run later = shop.engine.start_in(tx, {.delay = 1ms}, greet, "later").run;
  // As if the engine had taken them and its connection had been lost before they were there.
  shop.own.run("DELETE FROM semel.hint");
  shop.own.run("COMMIT");
  shop.own.ask(
      "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
      " WHERE query LIKE 'DELETE FROM semel.hint h%' AND pid <> pg_backend_pid()");
  shop.engine.run_until_idle();
  CHECK(run.status() == RunStatus::waiting);
  shop.engine.run_until_idle();
  shop.engine.advance(1s);

  CHECK(run.status() == RunStatus::completed);
  CHECK(fresh.status() == RunStatus::completed);
  CHECK(later.status() == RunStatus::completed);
}

TEST_CASE("two connections that start one key make one run") {
  Shop shop;
  Own other{shop.url};
  std::optional<Started> theirs;

  shop.own.run("BEGIN");
  auto tx = shop.engine.adopt(shop.own.handle());
  const Started mine = shop.engine.start_in(tx, {.key = "k"}, greet, "you");
  other.run("BEGIN");
  auto tx2 = shop.engine.adopt(other.handle());
  // It has to wait for what becomes of ours.
  std::jthread waits([&] { theirs = shop.engine.start_in(tx2, {.key = "k"}, greet, "you"); });
  while (shop.own.ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") ==
         "0") {
    shop.own.ask("SELECT pg_stat_clear_snapshot()");
  }
  shop.own.run("COMMIT");
  waits.join();
  other.run("COMMIT");

  REQUIRE(theirs);
  CHECK(mine.created);
  CHECK_FALSE(theirs->created);
  CHECK(theirs->run.id() == mine.run.id());
}

}  // namespace
}  // namespace semel
