// The file: who may open it, who may look, what is in it.
#include "store/sqlite/sqlite_store.hpp"
#include "tests/contract/stores.hpp"

#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

namespace semel::store {
namespace {

std::unique_ptr<SqliteStore> opened(const SqliteOptions& options) {
  auto store = SqliteStore::open(options);
  REQUIRE_MESSAGE(store.has_value(), store.error().message);
  return *std::move(store);
}

Answer execute(Store& store, const Command& command) {
  const auto answers = store.execute(std::vector<Command>{command});
  REQUIRE_MESSAGE(answers.has_value(), answers.error().message);
  return answers->front();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Another program's connection to the file.
class Foreign {
 public:
  explicit Foreign(const std::string& path) {
    REQUIRE(sqlite3_open(path.c_str(), &handle_) == SQLITE_OK);
  }

  ~Foreign() { sqlite3_close(handle_); }

  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;

  std::int64_t count(const std::string& table) {
    std::int64_t rows = -1;
    const auto read = [](void* out, int, char** columns, char**) {
      *static_cast<std::int64_t*>(out) = std::strtoll(columns[0], nullptr, 10);
      return 0;
    };
    const std::string sql = "SELECT count(*) FROM " + table;
    REQUIRE(sqlite3_exec(handle_, sql.c_str(), read, &rows, nullptr) == SQLITE_OK);
    return rows;
  }

  void run(const char* sql) {
    REQUIRE(sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  }

 private:
  sqlite3* handle_ = nullptr;
};

TEST_CASE("one process owns a file, and the next one is told which") {
  TemporaryDirectory directory;
  const std::string path = directory.file("store.db");
  int owns[2];
  int may_go[2];
  REQUIRE(::pipe(owns) == 0);
  REQUIRE(::pipe(may_go) == 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    const auto store = SqliteStore::open({.path = path});
    char byte = store ? 'y' : 'n';
    static_cast<void>(::write(owns[1], &byte, 1) == 1);
    static_cast<void>(::read(may_go[0], &byte, 1) == 1);
    ::_exit(0);
  }
  char answer = '?';
  REQUIRE(::read(owns[0], &answer, 1) == 1);
  CHECK(answer == 'y');

  const auto second = SqliteStore::open({.path = path});

  REQUIRE_FALSE(second);
  CHECK(second.error().code == base::Errc::refused);
  CHECK(contains(second.error().message, path));
  CHECK(contains(second.error().message, "process " + std::to_string(owner)));
  REQUIRE(::write(may_go[1], &answer, 1) == 1);
  REQUIRE(::waitpid(owner, nullptr, 0) == owner);
  opened({.path = path});
  for (const int descriptor : {owns[0], owns[1], may_go[0], may_go[1]}) ::close(descriptor);
}

TEST_CASE("the same process cannot open a file twice either") {
  TemporaryDirectory directory;
  auto store = opened({.path = directory.file("store.db")});

  CHECK_FALSE(SqliteStore::open({.path = directory.file("store.db")}));
  store.reset();

  opened({.path = directory.file("store.db")});
}

TEST_CASE("a file of a newer program is refused, and both versions are named") {
  TemporaryDirectory directory;
  const std::string path = directory.file("store.db");
  opened({.path = path});
  Foreign{path}.run("INSERT INTO semel_schema_version (version) VALUES (99)");

  const auto store = SqliteStore::open({.path = path});
  const auto reader = open_reader(path);

  for (const auto& message : {store.error(), reader.error()}) {
    CHECK(message.code == base::Errc::refused);
    CHECK(contains(message.message, "version 99"));
    CHECK(contains(message.message, "up to 8"));
  }
}

TEST_CASE("a file of an older program is brought up to date and keeps what is in it") {
  TemporaryDirectory directory;
  const std::string path = directory.file("store.db");
  execute(*opened({.path = path}), start(keyed_run(1, "order-7")));
  Foreign{path}.run(
      "DROP TABLE semel_reservation; DROP TABLE semel_reservation_sweep;"
      "DROP TABLE semel_api_key; DROP TABLE semel_audit;"
      "DROP INDEX semel_hook_public; DROP TABLE semel_move; DROP TABLE semel_key_era;"
      "DROP INDEX semel_run_key; ALTER TABLE semel_run DROP COLUMN key_era;"
      "CREATE UNIQUE INDEX semel_run_key ON semel_run (workspace, idempotency_key, holds_key)"
      " WHERE idempotency_key IS NOT NULL;"
      "DELETE FROM semel_schema_version WHERE version > 2");

  CHECK(contains(open_reader(path).error().message, "schema version 2"));
  const auto store = opened({.path = path});

  const Reserve reserve{.id = {.ns = "n", .key = "k"}, .now = at()};
  CHECK(std::holds_alternative<Acquired>(execute(*store, reserve)));
  CHECK(std::holds_alternative<InProgress>(execute(*store, reserve)));
  CHECK(std::holds_alternative<RunExists>(execute(*store, start(keyed_run(2, "order-7")))));
  CHECK(open_reader(path).value()->find("default", "run-1").value()->status == Status::running);
}

TEST_CASE("reservations of a file of an older program are found and swept") {
  TemporaryDirectory directory;
  const std::string path = directory.file("store.db");
  const Reserve reserve{.id = {.ns = "n", .key = "k"}, .lease = 30s, .ttl = 24h, .now = at()};
  execute(*opened({.path = path}), reserve);
  Foreign{path}.run(
      "DROP INDEX semel_reservation_id; DROP TABLE semel_reservation_sweep;"
      "CREATE UNIQUE INDEX semel_reservation_id ON semel_reservation (workspace, ns, scope, key);"
      "CREATE INDEX semel_reservation_sweep ON semel_reservation (sweep_at);"
      "DELETE FROM semel_schema_version WHERE version > 7");

  const auto store = opened({.path = path});

  CHECK(std::holds_alternative<InProgress>(execute(*store, reserve)));
  CHECK(std::get<Swept>(execute(*store, Sweep{.now = at(24h + 30s)})).reservations == 1);
}

TEST_CASE("a reader looks into a file beside its owner and sees what is committed") {
  TemporaryDirectory directory;
  const std::string path = directory.file("store.db");
  const auto store = opened({.path = path});
  const auto reader = open_reader(path);
  REQUIRE_MESSAGE(reader.has_value(), reader.error().message);

  CHECK((*reader)->list({}).value().empty());
  execute(*store, start(new_run(1)));

  CHECK((*reader)->list({}).value().size() == 1);
  CHECK((*reader)->find("default", "run-1").value()->status == Status::running);
}

TEST_CASE("a reader can look at a file nobody owns, also after a crash, and changes nothing") {
  TemporaryDirectory directory;
  const std::string path = directory.file("store.db");
  execute(*opened({.path = path}), start(new_run(1)));
  {
    const auto reader = open_reader(path);
    REQUIRE_MESSAGE(reader.has_value(), reader.error().message);
    CHECK((*reader)->list({}).value().size() == 1);
  }
  // The owner dies without closing: what it committed is in the log only.
  const pid_t owner = ::fork();
  if (owner == 0) {
    auto store = SqliteStore::open({.path = path});
    const std::vector<Command> batch{start(new_run(2))};
    ::_exit(store && (*store)->execute(batch) ? 0 : 1);
  }
  int status = 1;
  REQUIRE(::waitpid(owner, &status, 0) == owner);
  REQUIRE(status == 0);
  const auto log_size = std::filesystem::file_size(path + "-wal");
  REQUIRE(log_size > 0);
  {
    const auto reader = open_reader(path);
    REQUIRE_MESSAGE(reader.has_value(), reader.error().message);
    CHECK((*reader)->list({}).value().size() == 2);
  }
  CHECK(std::filesystem::file_size(path + "-wal") == log_size);
  CHECK(std::holds_alternative<RunLoaded>(execute(*opened({.path = path}), LoadRun{2})));
}

TEST_CASE("a reader in another thread never sees half a batch") {
  TemporaryDirectory directory;
  for (const std::string& path : {std::string{}, directory.file("store.db")}) {
    CAPTURE(path);
    const auto store = opened({.path = path});
    const auto reader = store->reader();
    REQUIRE(reader);
    std::atomic<bool> done = false;
    std::atomic<int> torn = 0;
    std::jthread looking{[&] {
      while (!done) {
        const auto found = (*reader)->list({.limit = 1000});
        if (!found || found->size() % 2 != 0) ++torn;
      }
    }};

    for (RunKey key = 1; key <= 200; key += 2) {
      REQUIRE(store->execute(std::vector<Command>{start(new_run(key)), start(new_run(key + 1))}));
    }
    done = true;
    looking.join();

    CHECK(torn == 0);
    CHECK((*reader)->list({.limit = 1000}).value().size() == 200);
  }
}

TEST_CASE("a reader may outlive its store") {
  TemporaryDirectory directory;
  auto store = opened({.path = directory.file("store.db")});
  const auto reader = store->reader();
  REQUIRE(reader);
  execute(*store, start(new_run(1)));

  store.reset();

  CHECK((*reader)->list({}).value().size() == 1);
  store = opened({.path = directory.file("store.db")});
  execute(*store, start(new_run(2)));
  CHECK((*reader)->list({}).value().size() == 2);
}

TEST_CASE("where there is no store a reader says so and makes none") {
  TemporaryDirectory directory;
  const std::string path = directory.file("store.db");

  const auto missing = open_reader(path);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == base::Errc::refused);
  CHECK(contains(missing.error().message, "there is no store at " + path));
  CHECK_FALSE(std::filesystem::exists(path));

  Foreign{path}.run("CREATE TABLE something_else (x)");
  const auto foreign = open_reader(path);
  REQUIRE_FALSE(foreign);
  CHECK(foreign.error().code == base::Errc::refused);
  CHECK(contains(foreign.error().message, "is not a semel store"));
}

TEST_CASE("a run that was swept leaves no row behind, in no table") {
  TemporaryDirectory directory;
  const std::string path = directory.file("store.db");
  const auto store = opened({.path = path});
  NewRun run = keyed_run(1, "order-7");
  run.attributes = {{"stage", "new"}};
  run.deadline = at(1h);
  StartRun command = start(run);
  command.changes = {.timers_set = {{.run = 1, .op = "1", .due = at(1h)}},
                     .attributes = {{"who", "ann"}},
                     .children = {{.op = "2", .run = new_run(2)}}};
  execute(*store, command);
  execute(*store, SaveProgress{.run = 1, .op = "3", .value = "50"});
  execute(*store, CancelRun{.id = "run-1", .grace_until = at(1s), .now = at()});
  execute(*store, CancelRun{.id = "run-1", .now = at()});

  execute(*store, Sweep{.now = at(100'000h)});

  Foreign foreign{path};
  for (const char* table : {"semel_run", "semel_journal", "semel_timer", "semel_inbox",
                            "semel_waiter", "semel_attribute", "semel_progress", "semel_garbage"}) {
    CAPTURE(table);
    CHECK(foreign.count(table) == 0);
  }
}

TEST_CASE("a file that is no database is called corrupt") {
  TemporaryDirectory directory;
  const std::string path = directory.file("store.db");
  std::ofstream{path} << std::string(8192, 'x');

  CHECK(SqliteStore::open({.path = path}).error().code == base::Errc::corrupt);
  CHECK(open_reader(path).error().code == base::Errc::corrupt);
}

TEST_CASE("a directory that is not there is refused by name") {
  const auto store = SqliteStore::open({.path = "/nowhere/store.db"});

  REQUIRE_FALSE(store);
  CHECK(store.error().code == base::Errc::refused);
  CHECK(contains(store.error().message, "/nowhere/store.db"));
}

TEST_CASE("rows that cannot be are reported as corrupt and change nothing else") {
  TemporaryDirectory directory;
  const std::string path = directory.file("store.db");
  const auto store = opened({.path = path});
  execute(*store, start(new_run(1)));
  execute(*store, start(new_run(2)));
  Foreign{path}.run(
      "UPDATE semel_run SET status = 77 WHERE run = 1; UPDATE semel_run SET failure = x'ff' WHERE "
      "run = 2");

  for (const RunKey key : {1, 2}) {
    const auto answers = store->execute(std::vector<Command>{LoadRun{key}});
    REQUIRE_FALSE(answers);
    CHECK(answers.error().code == base::Errc::corrupt);
  }
  execute(*store, start(new_run(3)));
}

TEST_CASE("a foreign program in the middle of writing makes a batch wait, then be refused whole") {
  TemporaryDirectory directory;
  const std::string path = directory.file("store.db");
  const auto store = opened({.path = path, .busy_timeout = std::chrono::milliseconds{1}});
  Foreign foreign{path};
  foreign.run("BEGIN IMMEDIATE");

  const auto refused = store->execute(std::vector<Command>{start(new_run(1))});

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == base::Errc::refused);
  foreign.run("ROLLBACK");
  CHECK(std::holds_alternative<RunStarted>(execute(*store, start(new_run(1)))));
}

TEST_CASE("each guard is counted when it refuses") {
  const auto store = opened({});
  execute(*store, start(keyed_run(1, "order-7")));
  execute(*store, start(keyed_run(2, "order-7")));
  NewRun rejecting = keyed_run(3, "order-7");
  rejecting.on_running = OnRunning::reject;
  execute(*store, start(rejecting));
  execute(*store, advance(1, 7, "gap"));
  execute(*store, CancelRun{.id = "run-1", .expected_version = 7});
  execute(*store, finish(1, 1));
  execute(*store, CancelRun{.id = "run-1"});

  const SqliteCounters& counters = store->counters();
  CHECK(counters.batches == 7);
  CHECK(counters.commits == 7);
  CHECK(counters.claims_held == 2);
  CHECK(counters.starts_refused == 1);
  CHECK(counters.stale == 1);
  CHECK(counters.versions_moved == 1);
  CHECK(counters.not_active == 1);
}

}  // namespace
}  // namespace semel::store
