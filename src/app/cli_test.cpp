// The command line, as a person and a script see it.
#include "app/cli.hpp"

#include "tests/support/api.hpp"

#include <boost/json.hpp>
#include <sqlite3.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace semel {

using namespace test;

namespace {

namespace json = boost::json;

struct Said {
  int code = 0;
  std::string out;
  std::string err;
};

Said semel(const Strings& arguments, const app::Workflows& workflows = {}) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = app::run_command(arguments, {out, err}, workflows);
  return {code, out.str(), err.str()};
}

Workflow<int> charge(int amount) {
  co_return co_await step("charge", [amount] { return amount * 2; });
}

Workflow<int> refuse(int amount) {
  co_await step("charge", [] { throw FatalError("the card was refused"); });
  co_return amount;
}

Workflow<int> wait_a_day(int amount) {
  co_await sleep(24h);
  co_return amount;
}

/// A directory with a store: a completed, a failed and a sleeping run.
class Shop {
 public:
  Shop() {
    Engine engine(url());
    add_workflows(engine);
    engine.start_workers();
    engine.start({.run_id = "paid"}, &charge, 21).run.result<int>();
    CHECK_THROWS_AS(engine.start({.run_id = "refused"}, &refuse, 7).run.result<int>(),
                    RunFailedError);
    engine.start({.run_id = "asleep"}, &wait_a_day, 1);
  }

  static void add_workflows(Engine& engine) {
    engine.add("charge", &charge);
    engine.add("refuse", &refuse);
    engine.add("wait_a_day", &wait_a_day);
  }

  std::string url() const { return directory_.url("shop.db"); }

  std::string file() const { return url().substr(std::string("sqlite:").size()); }

  /// Changes the file behind the engine's back.
  void sabotage(const char* sql) const {
    sqlite3* database = nullptr;
    REQUIRE(sqlite3_open(file().c_str(), &database) == SQLITE_OK);
    CHECK(sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(database);
  }

 private:
  TemporaryDirectory directory_;
};

Strings ids(const Said& listed) {
  Strings found;
  const json::value parsed = json::parse(listed.out);
  for (const json::value& run : parsed.at("items").as_array()) {
    found.emplace_back(std::string_view(run.at("id").as_string()));
  }
  std::ranges::sort(found);
  return found;
}

bool fits_a_screen(const std::string& text) {
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    if (line.size() > 110) return false;
  }
  return count <= 30;
}

}  // namespace

TEST_CASE("help fits a screen and every command comes with an example") {
  const std::vector<Strings> commands{{},
                                      {"proxy"},
                                      {"copy"},
                                      {"runs"},
                                      {"runs", "list"},
                                      {"runs", "show"},
                                      {"runs", "start"},
                                      {"runs", "cancel"},
                                      {"runs", "retry"},
                                      {"runs", "fork"},
                                      {"runs", "wake"},
                                      {"runs", "result"},
                                      {"runs", "tail"},
                                      {"hooks"},
                                      {"hooks", "list"},
                                      {"hooks", "show"},
                                      {"hooks", "resume"},
                                      {"hooks", "resume-or-start"},
                                      {"workflows"},
                                      {"nodes"},
                                      {"journal"},
                                      {"journal", "dump"},
                                      {"idempotency"},
                                      {"idempotency", "list"},
                                      {"idempotency", "show"},
                                      {"idempotency", "forget"},
                                      {"api-key"},
                                      {"api-key", "create"},
                                      {"api-key", "list"},
                                      {"api-key", "revoke"},
                                      {"serve"},
                                      {"verify"},
                                      {"doctor"},
                                      {"migrate"},
                                      {"bench"},
                                      {"completion"},
                                      {"man"}};
  for (Strings arguments : commands) {
    arguments.emplace_back("--help");
    CAPTURE(arguments.front());

    const Said said = semel(arguments);

    CHECK(said.code == 0);
    CHECK(contains(said.out, "Example:\n  semel "));
    CHECK(fits_a_screen(said.out));
  }
  CHECK(semel({"--version"}).out.starts_with("semel "));
}

TEST_CASE("a command that is not understood ends with 2 and says what is wrong") {
  const Shop shop;
  const std::vector<std::pair<Strings, std::string>> cases{
      {{}, "serve, proxy, runs, hooks, workflows, nodes, journal, idempotency, api-key, verify"},
      {{"frobnicate"}, "frobnicate"},
      {{"runs"}, "subcommand"},
      {{"runs", "start", "f", "--input", "{"}, "--input is not JSON"},
      {{"runs", "start", "f", "--attribute", "a"}, "NAME=VALUE"},
      {{"runs", "list", "--limit", "0"}, "--limit"},
      {{"completion", "csh"}, "fish"},
      {{"journal", "dump", "--store", shop.url()}, "RUN_ID"},
      {{"runs", "list", "--store", "shop.db"}, "sqlite:FILE"},
      {{"runs", "list", "--store", shop.url(), "--status", "sleepy"}, "waiting"},
      {{"runs", "list", "--store", shop.url(), "--limit", "many"}, "--limit"},
      {{"serve", "--store", "memory:", "--lease", "soon"}, "--lease soon"},
      {{"bench", "--only", "luck"}, "latency"},
      {{"bench", "--only", "nodes"}, "PostgreSQL"},
      {{"bench", "--store", "sqlite:shop.db"}, "postgres://"},
      {{"bench", "--runs", "0"}, "--runs"},
      {{"bench", "--dir", "/nowhere"}, "/nowhere"}};
  for (const auto& [arguments, reason] : cases) {
    const Said said = semel(arguments);

    CAPTURE(said.err);
    CHECK(said.code == 2);
    CHECK(contains(said.err, reason));
    CHECK(said.out.empty());
  }
}

TEST_CASE("a store that is not there is not made, and the message says which to give") {
  const Shop shop;
  const std::string missing = shop.file() + ".missing";
  for (const Strings& arguments : std::vector<Strings>{
           {"runs", "list"}, {"doctor"}, {"migrate"}, {"journal", "dump", "paid"}}) {
    Strings all = arguments;
    all.insert(all.end(), {"--store", "sqlite:" + missing});

    const Said said = semel(all);

    CHECK(said.code == 1);
    CHECK(contains(said.err, "there is no file " + missing));
    CHECK_FALSE(std::filesystem::exists(missing));
  }
}

TEST_CASE("runs are listed, by status and workflow, as a table and as JSON") {
  const Shop shop;
  const auto runs = [&](Strings arguments) {
    arguments.insert(arguments.begin(), {"runs", "list", "--store", shop.url()});
    return semel(arguments);
  };

  CHECK(ids(runs({"--json"})) == Strings{"asleep", "paid", "refused"});
  CHECK(ids(runs({"--json", "--status", "waiting"})) == Strings{"asleep"});
  CHECK(ids(runs({"--json", "--workflow", "refuse"})) == Strings{"refused"});
  CHECK(ids(runs({"--json", "--limit", "2"})).size() == 2);
  const Said table = runs({});
  CHECK(table.code == 0);
  CHECK(table.out.starts_with(
      "RUN      WORKFLOW    STATUS     STARTED (UTC)        WAITING FOR, OR WHY NOT\n"));
  CHECK(contains(table.out, "the card was refused"));
  CHECK(contains(runs({"--limit", "1"}).out, "--limit shows more"));
  CHECK(runs({"--workspace", "another"}).out == "no runs\n");
}

TEST_CASE("a journal is shown entry by entry") {
  const Shop shop;

  const Said table = semel({"journal", "dump", "--store", shop.url(), "paid"});
  const Said text = semel({"journal", "dump", "--store", shop.url(), "paid", "--json"});
  const Said missing = semel({"journal", "dump", "--store", shop.url(), "lost"});

  CHECK(table.out.starts_with("charge paid: completed\ninput [21]\n"));
  CHECK(contains(table.out, "started"));
  CHECK(contains(table.out, "step charge"));
  const json::value parsed = json::parse(text.out);
  CHECK(parsed.at("run").at("output") == json::value(42));
  CHECK(parsed.at("entries").as_array().size() == 2);
  CHECK(parsed.at("entries").at(1).at("kind") == json::value("step_completed"));
  CHECK(missing.code == 1);
  CHECK(contains(missing.err, "there is no run lost"));
}

TEST_CASE("journals are verified against the program's own workflows, and nothing is changed") {
  const Shop shop;
  const app::Workflows same{[](Engine& engine) { Shop::add_workflows(engine); }};
  const app::Workflows changed{[](Engine& engine) {
    engine.add("wait_a_day", [](int amount) -> Workflow<int> {
      co_await step("look first", [] {});
      co_await sleep(24h);
      co_return amount;
    });
  }};
  const Strings command{"verify", "--store", shop.url()};

  const Said fits = semel(command, same);
  const Said all = semel({"verify", "--store", shop.url(), "--all"}, same);
  const Said differs = semel(command, changed);
  const Said text = semel({"verify", "--store", shop.url(), "--all", "--json"}, changed);

  CHECK(fits.code == 0);
  CHECK(fits.out == "1 runs fit\n");
  CHECK(all.code == 0);
  CHECK(all.out == "3 runs fit\n");
  CHECK(differs.code == 1);
  CHECK(contains(differs.out, "asleep"));
  CHECK(contains(differs.out, "look first"));
  CHECK(text.code == 1);
  const json::value parsed = json::parse(text.out);
  CHECK(parsed.at("unknownWorkflow").to_number<int>() == 2);
  CHECK(parsed.at("misfits").at(0).at("runId") == json::value("asleep"));
  CHECK(ids(semel({"runs", "list", "--store", shop.url(), "--status", "waiting", "--json"})) ==
        Strings{"asleep"});
}

TEST_CASE("where no server answers, the message says where we looked and what to do") {
  const Said said = semel({"runs", "list", "--server", "http://127.0.0.1:1"});

  CHECK(said.code == 1);
  CHECK(contains(said.err, "http://127.0.0.1:1"));
  CHECK(contains(said.err, "semel serve"));
  CHECK(said.out.empty());
}

TEST_CASE("a store of this version has nothing to migrate") {
  const Shop shop;

  const Said said = semel({"migrate", "--store", shop.url()});

  CHECK(said.code == 0);
  CHECK(contains(said.out, "nothing to do"));
}

TEST_CASE("shells and the manual know every command and its options") {
  const std::string bash = semel({"completion", "bash"}).out;
  CHECK(contains(bash, R"("runs start") next=")"));
  CHECK(contains(bash, "--on-running"));
  CHECK_FALSE(contains(bash, "--child"));  // not for people
  CHECK(semel({"completion", "zsh"}).out.ends_with(bash));
  CHECK(
      contains(semel({"completion", "fish"}).out, "__fish_seen_subcommand_from hooks' -a resume"));
  const std::string manual = semel({"man"}).out;
  CHECK(manual.starts_with(".TH SEMEL 1"));
  CHECK(contains(manual, ".SS hooks resume\\-or\\-start\n"));
  CHECK(contains(manual, "\\-\\-payload"));
}

TEST_CASE("the nodes of a file are the process that has it") {
  const Shop shop;
  const Said closed = semel({"nodes", "--store", shop.url()});
  Engine engine(shop.url());
  Shop::add_workflows(engine);
  engine.start({}, &wait_a_day, 2);  // and so it is open

  const Said open = semel({"nodes", "--store", shop.url()});
  const Said text = semel({"nodes", "--store", shop.url(), "--json"});

  CHECK(closed.out == "no nodes\npartitions that nobody has: 1\n");
  CHECK(open.code == 0);
  CHECK(open.out.starts_with("NODE"));
  CHECK(json::parse(text.out).at("items").as_array().size() == 1);
  CHECK(json::parse(text.out).at("unownedPartitions") == json::value(0));
}

TEST_CASE("the doctor counts runs, also beside a running engine") {
  const Shop shop;
  Engine engine(shop.url());
  Shop::add_workflows(engine);
  engine.start_workers();

  const Said said = semel({"doctor", "--store", shop.url()});
  const Said text = semel({"doctor", "--store", shop.url(), "--json"});

  CHECK(said.code == 0);
  CHECK(contains(said.out, "Every unfinished run has a reason to wake."));
  const json::value parsed = json::parse(text.out);
  CHECK(parsed.at("well") == json::value(true));
  CHECK(parsed.at("runs").at("waiting").to_number<int>() == 1);
  CHECK(parsed.at("runs").at("completed").to_number<int>() == 1);
  CHECK(parsed.at("timers").to_number<int>() == 1);
}

TEST_CASE("the doctor finds a run that nothing will wake") {
  const Shop shop;
  shop.sabotage("DELETE FROM semel_timer");

  const Said said = semel({"doctor", "--store", shop.url()});
  const Said text = semel({"doctor", "--store", shop.url(), "--json"});

  CHECK(said.code == 1);
  CHECK(contains(said.out, "asleep"));
  CHECK(text.code == 1);
  CHECK(json::parse(text.out).at("orphans").at(0).at("id") == json::value("asleep"));
}

TEST_CASE("a file that is no store of ours, or of a newer program, is refused with the reason") {
  const Shop shop;
  shop.sabotage("INSERT INTO semel_schema_version (version) VALUES (999)");

  const Said newer = semel({"doctor", "--store", shop.url()});
  shop.sabotage("DROP TABLE semel_schema_version");
  const Said foreign = semel({"doctor", "--store", shop.url()});

  CHECK(newer.code == 1);
  CHECK(contains(newer.err, "written by a newer semel"));
  CHECK(foreign.code == 1);
  CHECK(contains(foreign.err, "is not a semel store"));
}

TEST_CASE("a proxy that is told nonsense says so and does not start") {
  struct Case {
    int number;
    Strings options;
    int code;
    std::string says;
  };

  const test::TemporaryDirectory directory;
  const std::string config = directory.url("proxy.json").substr(std::string("sqlite:").size());
  std::ofstream(config) << R"({"lifetim": "1d"})";
  const std::string upstream = "http://127.0.0.1:1";
  const std::vector<Case> cases{
      {1, {"--store", "memory:"}, 2, "--upstream"},
      {2, {"--upstream", upstream}, 2, "--store"},
      {3, {"--upstream", "127.0.0.1:1", "--store", "memory:"}, 2, "http"},
      {4, {"--upstream", "https://a", "--store", "memory:"}, 2, "https"},
      {5, {"--upstream", upstream, "--store", "keys.db"}, 2, "sqlite:FILE"},
      {6, {"--upstream", upstream, "--store", "memory:", "--preset", "strip"}, 2, "stripe"},
      {7, {"--upstream", upstream, "--store", "memory:", "--listen", "8080"}, 2, "HOST:PORT"},
      {8, {"--upstream", upstream, "--store", "memory:", "--listen", "a:99999"}, 2, "HOST:PORT"},
      {9, {"--upstream", upstream, "--store", "memory:", "--admin", "x"}, 2, "HOST:PORT"},
      {10, {"--upstream", upstream, "--store", "memory:", "--config", config}, 2, "/lifetim"},
      {11, {"--upstream", upstream, "--store", "memory:", "--config", config + "x"}, 2, config},
      {12,
       {"--upstream", upstream, "--store", "memory:", "--listen", "192.0.2.1:0"},
       1,
       "192.0.2.1"}};
  for (const Case& each : cases) {
    CAPTURE(each.number);
    Strings arguments{"proxy"};
    arguments.insert(arguments.end(), each.options.begin(), each.options.end());
    const Said said = semel(arguments);
    CAPTURE(said.err);
    CHECK(said.code == each.code);
    CHECK(said.err.find(each.says) != std::string::npos);
  }
}

}  // namespace semel
