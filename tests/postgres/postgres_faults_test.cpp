// What becomes of commits whose answer does not arrive, of writers that meet, of owners that are replaced.
#include "store/postgres/postgres_store.hpp"
#include "tests/contract/stores.hpp"
#include "tests/support/postgres_proxy.hpp"
#include "tests/support/postgres_server.hpp"

#include <libpq-fe.h>

#include <array>
#include <latch>
#include <thread>

namespace semel::store {
namespace {

using semel::testing::Fate;
using semel::testing::PostgresProxy;
using semel::testing::PostgresServer;

std::unique_ptr<PostgresStore> open(const PostgresOptions& options) {
  auto opened = PostgresStore::open(options);
  REQUIRE_MESSAGE(opened.has_value(), opened.error().message);
  return *std::move(opened);
}

/// A server without a store.
PostgresServer& empty_server() {
  PostgresServer& server = PostgresServer::shared();
  server.clear();
  return server;
}

template <class Expected>
Expected expect(Store& store, const Command& command) {
  auto answers = store.execute(std::array{command});
  REQUIRE_MESSAGE(answers.has_value(), answers.error().message);
  REQUIRE(std::holds_alternative<Expected>(answers->front()));
  return std::get<Expected>(std::move(answers->front()));
}

/// Appends entries and delivers payloads, one batch each, whatever becomes of the connection.
class Writer {
 public:
  explicit Writer(PostgresProxy& proxy, bool delivers = true, std::chrono::seconds patience = 30s)
      : options_{.url = proxy.url(), .patience = patience}, delivers_(delivers) {
    reopen();
    NewRun run = new_run(1);
    run.hooks = {{.token = "t"}};
    expect<RunStarted>(*store_, start(run));
  }

  /// One more entry and, if it delivers, one more payload, by one batch. Where nobody says what came of it, it is looked for.
  void write() {
    const auto answers = store_->execute(batch());
    if (answers) {
      REQUIRE(std::holds_alternative<Advanced>(answers->front()));
      ++written_;
      return;
    }
    reopen();
    const Seq version = *expect<RunLoaded>(*store_, LoadRun{1}).run.version;
    if (answers.error().code == base::Errc::unavailable) {
      // All or nothing, and both are possible.
      REQUIRE((version == written_ || version == written_ + 1));
      ++(version == written_ ? unknown_undone : unknown_done);
    } else {
      REQUIRE(version == written_);
      ++known_undone;
    }
    written_ = version;
  }

  Seq written() const { return written_; }

  void check() {
    const RunLoaded loaded = expect<RunLoaded>(*store_, LoadRun{1});
    REQUIRE(loaded.entries.size() == written_ + 1);
    for (Seq seq = 1; seq <= written_; ++seq) REQUIRE(loaded.entries[seq] == entry(name(seq)));
    auto reader = store_->reader();
    REQUIRE(reader);
    REQUIRE((*reader)->hook("default", "t").value()->waiting == (delivers_ ? written_ : 0));
  }

  int known_undone = 0;
  int unknown_undone = 0;
  int unknown_done = 0;

 private:
  static std::string name(Seq seq) { return "entry " + std::to_string(seq); }

  std::vector<Command> batch() const {
    const Seq next = written_ + 1;
    if (!delivers_) return {advance(1, next, name(next))};
    return {advance(1, next, name(next)), Deliver{.token = "t",
                                                  .payload = std::to_string(next),
                                                  .resume_id = std::to_string(next),
                                                  .fingerprint = "same",
                                                  .now = at()}};
  }

  void reopen() {
    store_.reset();
    store_ = open(options_);
    expect<NodeOpened>(*store_, OpenNode{.now = at(), .keys_count = 1});
  }

  PostgresOptions options_;
  bool delivers_;
  std::unique_ptr<PostgresStore> store_;
  Seq written_ = 0;
};

TEST_CASE("a commit whose answer is lost happened once or not at all") {
  PostgresServer& server = empty_server();
  PostgresProxy proxy{server.port()};
  Writer writer{proxy};
  constexpr std::array fates{Fate::cut_before, Fate::cut_after, Fate::cut_at_once};

  for (int cut = 0; cut < 300; ++cut) {
    proxy.next_commit(fates.at(static_cast<std::size_t>(cut) % fates.size()));
    writer.write();
    if (cut % 10 == 0) writer.write();  // in peace
  }

  CHECK(proxy.interfered() == 300);
  writer.check();
  MESSAGE("not sent " << writer.known_undone << ", unknown and undone " << writer.unknown_undone
                      << ", unknown and done " << writer.unknown_done);
  CHECK(writer.unknown_done >= 100);
  CHECK(writer.unknown_undone >= 100);
}

TEST_CASE("so it is with entries that are committed without being told to") {
  PostgresServer& server = empty_server();
  PostgresProxy proxy{server.port()};
  Writer writer{proxy, false};
  constexpr std::array fates{Fate::cut_before, Fate::cut_after, Fate::cut_at_once};

  for (int cut = 0; cut < 60; ++cut) {
    writer.write();  // in peace: then the store knows the run
    proxy.next_commit(fates.at(static_cast<std::size_t>(cut) % fates.size()));
    writer.write();
  }

  CHECK(proxy.interfered_alone() == 60);
  writer.check();
  CHECK(writer.unknown_done >= 20);
  CHECK(writer.unknown_undone >= 20);
}

TEST_CASE("a commit whose answer is late is only late") {
  PostgresServer& server = empty_server();
  PostgresProxy proxy{server.port()};
  Writer writer{proxy};

  proxy.next_commit(Fate::delayed);
  writer.write();

  CHECK(proxy.interfered() == 1);
  CHECK(writer.written() == 1);
  CHECK(writer.unknown_done == 0);
}

TEST_CASE("a server that does not answer a commit is given up, and the outcome looked for") {
  PostgresServer& server = empty_server();
  PostgresProxy proxy{server.port()};
  Writer writer{proxy, true, 5s};

  proxy.next_commit(Fate::stalled);
  writer.write();

  CHECK(writer.unknown_done == 1);
  writer.check();
}

TEST_CASE("a server that stops because it cannot flush a commit may have done it") {
  PostgresServer& server = empty_server();
  PostgresProxy proxy{server.port()};
  Writer writer{proxy};

  proxy.next_commit(Fate::panicked);
  writer.write();

  CHECK(proxy.interfered() == 1);
  CHECK(writer.unknown_done == 1);
  writer.check();
}

TEST_CASE("who reads hears of a failure, also where the connection is lost over it") {
  PostgresServer& server = empty_server();
  PostgresProxy proxy{server.port()};
  const auto store = open({.url = proxy.url()});
  expect<RunStarted>(*store, start(new_run(1)));
  const auto reader = *store->reader();

  server.run("ALTER TABLE semel.workspace RENAME TO elsewhere");
  proxy.cut_next_rollback();
  const auto failed = reader->find("default", "run-1");
  server.run("ALTER TABLE semel.elsewhere RENAME TO workspace");

  CHECK_FALSE(failed.has_value());
  CHECK(reader->find("default", "run-1").value().has_value());
}

TEST_CASE("an older program refuses a newer schema") {
  PostgresServer& server = empty_server();
  open({.url = server.url()}).reset();
  server.run("INSERT INTO semel.schema_version (version) VALUES (99)");

  const auto opened = PostgresStore::open({.url = server.url()});

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == base::Errc::refused);
  CHECK(opened.error().message.find("newer semel") != std::string::npos);
}

/// `count` threads with a store each, which begin together.
template <class Act>
void at_once(const PostgresServer& server, int count, const Act& act) {
  std::latch ready{count};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      ready.arrive_and_wait();
      const auto store = open({.url = server.url()});
      act(*store, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("of many that open an empty database at once one makes the tables") {
  for (int round = 0; round < 10; ++round) {
    PostgresServer& server = empty_server();
    at_once(server, 6, [](PostgresStore& store, int) { REQUIRE(store.reader()); });
  }
}

TEST_CASE("of many writers that claim one token or one key at once one gets it") {
  PostgresServer& server = empty_server();
  open({.url = server.url()}).reset();
  constexpr int writers = 6;
  constexpr int rounds = 40;
  std::array<std::atomic<int>, rounds> got_token{};
  std::array<std::atomic<int>, rounds> got_key{};

  at_once(server, writers, [&](PostgresStore& store, int writer) {
    for (int round = 0; round < rounds; ++round) {
      const RunKey key = 1 + (round * writers + writer) * 2;
      NewRun with_token = new_run(key);
      with_token.hooks = {{.token = "token " + std::to_string(round)}};
      NewRun with_key = keyed_run(key + 1, "key " + std::to_string(round));
      const std::array<Command, 2> batch{start(with_token), start(with_key)};
      const auto answers = store.execute(batch);
      REQUIRE_MESSAGE(answers.has_value(), answers.error().message);
      const auto index = static_cast<std::size_t>(round);
      if (std::holds_alternative<RunStarted>((*answers)[0])) {
        ++got_token[index];
      } else {
        REQUIRE(std::holds_alternative<StartRefused>((*answers)[0]));
      }
      if (std::holds_alternative<RunStarted>((*answers)[1])) {
        ++got_key[index];
      } else {
        REQUIRE(std::holds_alternative<RunExists>((*answers)[1]));
      }
    }
  });

  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    CHECK(got_token[static_cast<std::size_t>(round)] == 1);
    CHECK(got_key[static_cast<std::size_t>(round)] == 1);
  }
}

/// A transaction that a test holds open.
class Rival {
 public:
  explicit Rival(const PostgresServer& server) : connection_{PQconnectdb(server.url().c_str())} {
    run("BEGIN");
  }

  void run(const char* sql) {
    PGresult* result = PQexec(connection_, sql);
    const ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    REQUIRE_MESSAGE(status == PGRES_COMMAND_OK, PQerrorMessage(connection_));
  }

  Rival(const Rival&) = delete;
  Rival& operator=(const Rival&) = delete;

  ~Rival() { PQfinish(connection_); }

 private:
  PGconn* connection_;
};

TEST_CASE("a token whose claim by somebody else nobody can see yet is decided by the index") {
  PostgresServer& server = empty_server();
  const auto store = open({.url = server.url()});
  NewRun other = new_run(1);
  other.hooks = {{.token = "other"}};
  expect<RunStarted>(*store, start(other));
  Rival rival{server};
  rival.run(
      "WITH claimed AS (DELETE FROM semel.hook RETURNING *) "
      "INSERT INTO semel.hook SELECT hook + 1000, workspace, run, since, active, at_end, fed, "
      "webhook, "
      "'wanted'::bytea, op, shape FROM claimed");

  NewRun wanting = new_run(2);
  wanting.hooks = {{.token = "wanted"}};
  std::thread claim{[&] { expect<StartRefused>(*store, start(wanting)); }};
  server.run(
      "DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted) LOOP "
      "PERFORM pg_sleep(0.001); END LOOP; END $$");
  rival.run("COMMIT");
  claim.join();

  CHECK(store->counters().batches_redone == 1);
}

TEST_CASE("payloads that many writers deliver to a run that ends are read or refused, never lost") {
  PostgresServer& server = empty_server();
  constexpr int writers = 4;
  constexpr int rounds = 40;
  {
    const auto store = open({.url = server.url()});
    for (int round = 0; round < rounds; ++round) {
      NewRun run = new_run(1 + round);
      run.hooks = {{.token = "token " + std::to_string(round)}};
      expect<RunStarted>(*store, start(run));
    }
  }
  std::atomic<int> delivered = 0;

  at_once(server, writers, [&](PostgresStore& store, int writer) {
    for (int round = 0; round < rounds; ++round) {
      if (writer == 0) {
        expect<Advanced>(store, finish(1 + round, 1));
        continue;
      }
      const auto answers = store.execute(std::array<Command, 1>{
          Deliver{.token = "token " + std::to_string(round), .payload = "1", .now = at()}});
      REQUIRE_MESSAGE(answers.has_value(), answers.error().message);
      if (std::holds_alternative<Delivered>(answers->front())) ++delivered;
    }
  });

  const auto store = open({.url = server.url()});
  const auto reader = *store->reader();
  int kept = 0;
  for (int round = 0; round < rounds; ++round)
    kept += static_cast<int>(reader->undelivered(1 + round).value().size());
  CHECK(kept == delivered);
}

}  // namespace
}  // namespace semel::store
