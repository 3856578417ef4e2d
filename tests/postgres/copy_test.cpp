// A workspace moves from a file to PostgreSQL with everything in it, and goes on there.
#include "app/copy.hpp"

#include "app/cli.hpp"
#include "tests/support/api.hpp"
#include "tests/support/postgres_server.hpp"

#include <boost/json.hpp>
#include <sqlite3.h>

#include <map>
#include <sstream>

namespace semel {

using namespace test;

namespace {

using semel::testing::PostgresServer;

struct Killed : std::runtime_error {
  Killed() : std::runtime_error("killed") {}
};

/// What happened outside, by step id.
std::map<std::string, int>& effects() {
  static std::map<std::string, int> all;
  return all;
}

int effect(const StepContext& step) { return ++effects()[step.id]; }

Workflow<std::string> charged(std::string order) {
  co_await set_attribute("order", order);
  co_await emit("progress", std::string("charging"));
  co_await step("charge", effect);
  co_return "charged " + order;
}

bool is_mended = false;

Workflow<std::string> fragile() {
  co_await step("before", effect);
  co_await step("try", {.retry = {.attempts = 1}}, [] {
    if (!is_mended) throw FatalError("broken");
  });
  co_return "mended";
}

Workflow<std::string> sleeper() {
  co_await step("before", effect);
  co_await sleep(1h);
  co_await step("after", effect);
  co_return "awake";
}

/// Reads two payloads, but not before an hour is over.
Workflow<std::string> reader(std::string token) {
  auto messages = hook<std::string>(token);
  co_await messages.open();
  co_await sleep(1h);
  const std::string one = co_await messages;
  const std::string two = co_await messages;
  co_await step("after", effect);
  co_return one + two;
}

Workflow<std::string> family() {
  const auto said = co_await child({}, reader, "child");
  co_await step("after", effect);
  co_return "it said " + said;
}

Workflow<std::string> follower(std::string run) {
  co_return "then " + co_await result_of<std::string>(run);
}

/// Reads one payload and leaves, after an hour.
Workflow<std::string> hasty(std::string token) {
  auto messages = hook<std::string>(token);
  const std::string one = co_await messages;
  co_await sleep(1h);
  co_return one;
}

Workflow<std::string> counter(int n) {
  if (n == 2) {
    co_await sleep(1h);
    co_await step("count", effect);
    co_return "2";
  }
  co_await step("count", effect);
  co_await continue_as_new(n + 1);
  co_return "";
}

void add_workflows(Engine& engine) {
  engine.add("charged", charged);
  engine.add("fragile", fragile);
  engine.add("sleeper", sleeper);
  engine.add("reader", reader);
  engine.add("family", family);
  engine.add("follower", follower);
  engine.add("hasty", hasty);
  engine.add("counter", counter);
}

std::string paid(Engine& engine, const std::string& key, const std::string& answer) {
  return run_idempotently(engine.idempotency(), {.ns = "pay", .key = key}, [&] { return answer; });
}

/// A file with a run in every state there is a way to.
class File {
 public:
  File() {
    effects().clear();
    is_mended = false;
    testing::Engine engine{url()};
    add_workflows(engine);
    engine.start({.key = "order-1", .run_id = "done"}, charged, "1");
    engine.start({.run_id = "failed"}, fragile);
    engine.start({.run_id = "asleep"}, sleeper);
    engine.start({.run_id = "reads", .token = "letters"}, reader, "letters");
    engine.start({.run_id = "family"}, family);
    engine.start({.run_id = "follows"}, follower, "asleep");
    engine.start({.run_id = "later", .delay = 1h}, charged, "2");
    engine.start({.run_id = "counts"}, counter, 0);
    engine.start({.run_id = "cancelled", .token = "lost"}, reader, "lost");
    engine.resume_or_start("hasty", std::string("a"), hasty, "hasty");
    engine.run_until_idle();
    engine.resume("letters", "a", {.resume_id = "first"});
    engine.resume("child", "c");
    engine.resume("lost", "never read");
    engine.resume_or_start("hasty", std::string("b"), hasty, "hasty");
    engine.run("cancelled").cancel();
    engine.run_until_idle();
    engine.start({.run_id = "begun"}, charged, "3");
    CHECK(paid(engine, "finished", "receipt") == "receipt");
    paid(engine, "cut off", "nobody heard it");
    engine.workspace("other").start({.run_id = "elsewhere"}, charged, "4");
  }

  std::string url() const { return directory_.url("shop.db"); }

  void run(const char* sql) const {
    sqlite3* database = nullptr;
    REQUIRE(sqlite3_open(url().substr(7).c_str(), &database) == SQLITE_OK);
    CHECK(sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(database);
  }

 private:
  TemporaryDirectory directory_;
};

app::CopyOptions options_of(const File& file) {
  return {.from = file.url(), .to = PostgresServer::shared().url(), .rows_per_commit = 1};
}

/// Everything goes on as if it had never moved.
void check_all_finish() {
  is_mended = true;
  testing::Engine engine{PostgresServer::shared().url()};
  add_workflows(engine);
  const auto result = [&](const char* id) { return engine.run(id).result<std::string>(); };

  CHECK(result("done") == "charged 1");
  CHECK(engine.run("done").stream<std::string>("progress") == Strings{"charging"});
  CHECK_FALSE(engine.start({.key = "order-1"}, charged, "1").created);
  CHECK(engine.run("cancelled").status() == RunStatus::cancelled);
  CHECK(engine.run("failed").status() == RunStatus::failed);
  engine.run("failed").retry();
  // The first of them is a duplicate.
  CHECK(engine.resume("letters", "a", {.resume_id = "first"}).run_id == "reads");
  engine.resume("letters", "b");
  engine.resume("child", "d");
  engine.advance(2h);

  CHECK(result("failed") == "mended");
  CHECK(result("asleep") == "awake");
  CHECK(result("reads") == "ab");
  CHECK(result("family") == "it said cd");
  CHECK(result("follows") == "then awake");
  CHECK(result("later") == "charged 2");
  CHECK(result("begun") == "charged 3");
  CHECK(result("counts") == "2");
  CHECK(paid(engine, "finished", "another") == "receipt");
  CHECK(paid(engine, "cut off", "done again") == "done again");
  // The payload that was left over started a run of its own.
  engine.advance(2h);
  Strings heard;
  for (const Run& run : engine.runs({.workflow = "hasty"}))
    heard.push_back(run.result<std::string>());
  CHECK(heard == Strings{"b", "a"});
  CHECK(engine.workspace("other").runs({}).empty());
  for (const auto& [id, times] : effects()) {
    CAPTURE(id);
    CHECK(times == 1);
  }
  // 3 charges; before and after sleeping; of the reader, the child, the parent, the failed one; 3 generations.
  CHECK(effects().size() == 12);
}

void cut_off(const File& file) {
  file.run("UPDATE semel_reservation SET state = 0, answer = '' WHERE key = 'cut off'");
}

struct Said {
  int code = 0;
  std::string out;
  std::string err;
};

Said semel(const Strings& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = app::run_command(arguments, {out, err}, {});
  return {code, out.str(), err.str()};
}

}  // namespace

TEST_CASE("a workspace moves with runs in every state, and all of them finish, each effect once") {
  PostgresServer::shared().clear();
  const File file;
  cut_off(file);
  const app::Copied copied = app::copy_workspace(options_of(file));

  CHECK(copied.runs == 12);
  CHECK(copied.payloads == 4);
  CHECK(copied.reservations == 2);
  CHECK(copied.left_over == Strings{"other"});
  check_all_finish();
}

TEST_CASE("killed behind every commit, the same command goes on, and nothing is there twice") {
  PostgresServer::shared().clear();
  const File file;
  cut_off(file);
  int kills = 0;
  for (bool is_done = false; !is_done;) {
    app::CopyOptions options = options_of(file);
    options.progress = [](const app::CopyProgress&) { throw Killed(); };
    try {
      app::copy_workspace(options);
      is_done = true;
    } catch (const Killed&) {
      ++kills;
      // Until the last commit nobody there sees any of it, and nobody drives the file.
      CHECK(code_of([&] { const Engine engine{file.url()}; }) == "STORE_UNAVAILABLE");
    }
  }
  // The mark, 12 runs, a resume id, 2 reservations, the end.
  CHECK(kills == 17);
  CHECK(app::copy_workspace(options_of(file)).was_done);
  check_all_finish();
}

TEST_CASE("before the last commit the target has no such workspace") {
  PostgresServer::shared().clear();
  const File file;
  app::CopyOptions options = options_of(file);
  options.progress = [](const app::CopyProgress& now) {
    if (now.done == 5) throw Killed();
  };
  CHECK_THROWS_AS(app::copy_workspace(options), Killed);

  {
    testing::Engine engine{options.to};
    add_workflows(engine);
    effects().clear();
    engine.advance(24h);
    CHECK(engine.runs({}).empty());
    CHECK(effects().empty());
    engine.stop();
  }
}

TEST_CASE("a move that was not finished can be taken back, one that was cannot") {
  PostgresServer::shared().clear();
  const File file;
  app::CopyOptions killed = options_of(file);
  killed.progress = [](const app::CopyProgress& now) {
    if (now.done == 5) throw Killed();
  };
  CHECK_THROWS_AS(app::copy_workspace(killed), Killed);

  app::undo_copy(options_of(file));
  app::undo_copy(options_of(file));

  {
    const Engine engine{file.url()};
  }
  CHECK(app::copy_workspace(options_of(file)).runs == 12);
  CHECK(code_of([&] { app::undo_copy(options_of(file)); }) == "STORE_UNAVAILABLE");
}

TEST_CASE("what cannot be moved is refused with what to do") {
  PostgresServer::shared().clear();
  const std::string target = PostgresServer::shared().url();
  const File file;
  const Strings command{"copy", "--from", file.url(), "--to", target};
  const auto with = [](Strings words, const Strings& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };

  CHECK(semel({"copy", "--from", "shop.db", "--to", target}).code == 2);
  CHECK(semel({"copy", "--from", file.url(), "--to", "shop.db"}).code == 2);
  CHECK(semel({"copy", "--from", file.url() + "x", "--to", target}).code == 1);
  CHECK(contains(semel(with(command, {"--workspace", "nobody"})).err, "no workspace nobody"));
  {
    const Engine engine{file.url()};
    const Said said = semel(command);
    CHECK(said.code == 1);
    CHECK(contains(said.err, "stop it"));
  }
  {
    Engine engine{target};
    // Whatever goes through its loop is done behind the commit that says who it is.
    CHECK(code_of([&] { engine.resume("nobody", 1); }) == "HOOK_NOT_FOUND");
    const Said said = semel(command);
    CHECK(said.code == 1);
    CHECK(contains(said.err, "engines have the target open"));
  }
  {
    Engine engine{target};
    engine.add("charged", charged);
    engine.start({}, charged, "9");
  }
  const Said taken = semel(command);
  CHECK(taken.code == 1);
  CHECK(contains(taken.err, "another database"));
  // Nothing was begun: the file is as it was.
  {
    const Engine engine{file.url()};
  }

  const Said moved = semel(with(command, {"--workspace", "other", "--json"}));
  CHECK(moved.code == 0);
  CHECK(boost::json::parse(moved.out).at("runs").as_int64() == 1);
  const Said other_target = semel(
      {"copy", "--from", file.url(), "--to", "postgres://elsewhere/semel", "--workspace", "other"});
  CHECK(other_target.code == 2);
  CHECK(contains(other_target.err, "as it was given"));
}

}  // namespace semel
