// Several servers behind one URL, and commits that wait for another server. (A whole cluster is tests/process/failover_test.)
#include "store/postgres/postgres_store.hpp"
#include "tests/contract/stores.hpp"
#include "tests/support/postgres_server.hpp"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <array>
#include <thread>

namespace semel::store {
namespace {

using semel::testing::PostgresServer;

std::unique_ptr<PostgresStore> open(const std::string& url) {
  auto opened = PostgresStore::open({.url = url});
  REQUIRE_MESSAGE(opened.has_value(), opened.error().message);
  return *std::move(opened);
}

/// What all sessions go by from now on, or a moment later. Alone, as ALTER SYSTEM wants it.
void set_for_all(const PostgresServer& server, const char* sql) {
  PGconn* connection = PQconnectdb(server.url().c_str());
  for (const char* each : {sql, "DO $$ BEGIN PERFORM pg_reload_conf(); END $$"}) {
    PGresult* result = PQexec(connection, each);
    CHECK_MESSAGE(PQresultStatus(result) == PGRES_COMMAND_OK, PQerrorMessage(connection));
    PQclear(result);
  }
  PQfinish(connection);
}

/// Two servers: the one that is named first can only be read, as a standby can.
struct Hosts {
  Hosts() {
    standby.run("ALTER ROLE semel SET default_transaction_read_only = on");
    primary.clear();
  }

  std::string url() const {
    return fmt::format("postgres://semel@127.0.0.1:{},127.0.0.1:{}/postgres", standby.port(),
                       primary.port());
  }

  PostgresServer standby;
  PostgresServer& primary = PostgresServer::shared();
};

TEST_CASE("who reads asks the server that is written to, whichever is named first") {
  const Hosts hosts;
  const auto store = open(hosts.url());
  REQUIRE(store->execute(std::array<Command, 1>{start(new_run(1))}));

  const auto reader = store->reader();

  REQUIRE_MESSAGE(reader.has_value(), reader.error().message);
  CHECK((*reader)->find("default", "run-1").value().has_value());
}

TEST_CASE("where no server can be written to, it is said of each why") {
  const Hosts hosts;

  const auto opened =
      PostgresStore::open({.url = fmt::format("postgres://semel@127.0.0.1:1,127.0.0.1:{}/postgres",
                                              hosts.standby.port())});

  REQUIRE_FALSE(opened);
  CHECK(opened.error().message.find("port 1 failed: Connection refused") != std::string::npos);
  CHECK(opened.error().message.find(fmt::format("port {} failed: session is read-only",
                                                hosts.standby.port())) != std::string::npos);
}

TEST_CASE("a commit whose wait for a standby was cut short is unknown, and is looked for") {
  const PostgresServer server;
  auto store = open(server.url());
  REQUIRE(store->execute(std::array<Command, 1>{start(new_run(1))}));
  set_for_all(server, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");

  Seq written = 0;
  base::Fault fault;
  std::thread writer{[&] {
    for (;;) {
      const Seq next = written + 1;
      const auto answers =
          store->execute(std::array<Command, 1>{advance(1, next, "entry " + std::to_string(next))});
      if (!answers) {
        fault = answers.error();
        return;
      }
      written = next;
    }
  }};
  server.run(
      "DO $$ BEGIN LOOP PERFORM pg_stat_clear_snapshot(); EXIT WHEN (SELECT"
      " count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep') > 0;"
      " PERFORM pg_sleep(0.001); END LOOP; END $$");
  writer.join();
  set_for_all(server, "ALTER SYSTEM RESET synchronous_standby_names");

  CHECK_MESSAGE(fault.code == base::Errc::unavailable, fault.message);
  store = open(server.url());
  const auto loaded = store->execute(std::array<Command, 1>{LoadRun{1}});
  REQUIRE_MESSAGE(loaded.has_value(), loaded.error().message);
  CHECK(std::get<RunLoaded>(loaded->front()).run.version == written + 1);
}

}  // namespace
}  // namespace semel::store
