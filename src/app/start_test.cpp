// Starting runs: what can be started and how, and the options of a start.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

struct Item {
  std::string name;
  int count = 1;
};
BOOST_DESCRIBE_STRUCT(Item, (), (name, count))

struct Order {
  std::string id;
  std::vector<Item> items{};
  std::optional<std::string> note{};
};
BOOST_DESCRIBE_STRUCT(Order, (), (id, items, note))

Workflow<std::string> describe(Order order, int copies) {
  std::string text = order.id;
  for (const Item& item : order.items) text += " " + item.name + std::to_string(item.count);
  co_return text + " x" + std::to_string(copies);
}

Workflow<std::string> echo(std::string text) { co_return text; }

Workflow<int> sum(std::vector<int> numbers) {
  co_return std::accumulate(numbers.begin(), numbers.end(), 0);
}

}  // namespace

TEST_CASE("arguments convert to the parameters' types at the call") {
  testing::FreshEngine engine;
  engine.add("describe", describe);
  engine.add("echo", echo);
  const auto sum_ref = engine.add("sum", sum);

  CHECK(engine.start(echo, "789").run.result<std::string>() == "789");
  CHECK(engine.start({}, echo, "789").run.result<std::string>() == "789");
  CHECK(engine.start({}, describe, {"o7", {{"box", 2}, {"bag"}}}, 3).run.result<std::string>() ==
        "o7 box2 bag1 x3");
  CHECK(engine.start({.key = "k"}, sum, {1, 2, 3}).run.result<int>() == 6);
  CHECK(engine.start(sum_ref, std::vector{4, 5}).run.result<int>() == 9);
}

TEST_CASE("a workflow may be a lambda, alone or through its reference") {
  testing::FreshEngine engine;
  const auto lambda = [](int number) -> Workflow<int> { co_return number + 1; };
  const auto reference = engine.add("lambda", lambda);

  CHECK(engine.start(lambda, 1).run.result<int>() == 2);
  CHECK(engine.start({.key = "k"}, lambda, 2).run.result<int>() == 3);
  CHECK(engine.start(reference, 3).run.result<int>() == 4);
  CHECK(engine.start({}, "lambda", 4).run.result<int>() == 5);
}

TEST_CASE("a workflow may be a member of an object, const or not") {
  struct Shop {
    int price = 5;

    Workflow<int> pay(int count) { co_return price* count; }

    Workflow<int> look() const { co_return price; }
  } shop;

  testing::FreshEngine engine;
  const auto pay = engine.add("pay", &Shop::pay, &shop);
  engine.add("look", &Shop::look, &shop);

  CHECK(engine.start(pay, 3).run.result<int>() == 15);
  CHECK(engine.start(&Shop::look).run.result<int>() == 5);
}

TEST_CASE("one function under two names is started through its references") {
  testing::FreshEngine engine;
  const auto one = engine.add("one", echo);
  const auto two = engine.add("two", echo);

  CHECK(engine.start(one, "a").run.result<std::string>() == "a");
  engine.start(two, "b");
  CHECK(engine.runs({.workflow = "two"}).size() == 1);
  CHECK(code_of([&] { engine.start(echo, "c"); }) == "WORKFLOW_NOT_FOUND");
}

TEST_CASE("a name is taken once") {
  testing::FreshEngine engine;
  engine.add("echo", echo);

  CHECK(code_of([&] { engine.add("echo", echo); }) == "WORKFLOW_EXISTS");
  CHECK(code_of([&] { engine.add("echo", sum); }) == "WORKFLOW_EXISTS");
  CHECK(code_of([&] { engine.add("", sum); }) == "VALIDATION_ERROR");
  CHECK(code_of([&] { engine.add(std::string(256, 'n'), sum); }) == "VALIDATION_ERROR");
  CHECK(engine.start(echo, "still there").run.result<std::string>() == "still there");
}

TEST_CASE("a workflow that nobody registered cannot be started") {
  testing::FreshEngine engine;

  CHECK(code_of([&] { engine.start(echo, "x"); }) == "WORKFLOW_NOT_FOUND");
  CHECK(code_of([&] { engine.start({}, "echo", "x"); }) == "WORKFLOW_NOT_FOUND");
  CHECK(engine.runs().empty());
}

TEST_CASE("by name: an array is the list of arguments, any other value the only one") {
  testing::FreshEngine engine;
  engine.add("describe", describe);
  engine.add("echo", echo);
  const auto start = [&](const std::string& name, const std::string& json) {
    return engine.start({}, name, boost::json::parse(json)).run.result<std::string>();
  };

  CHECK(start("echo", R"("text")") == "text");
  CHECK(start("echo", R"(["text"])") == "text");
  CHECK(start("describe", R"([{"id": "o7", "items": [{"name": "box", "count": 2}]}, 3])") ==
        "o7 box2 x3");
}

TEST_CASE("by name: what does not fit is refused with its path, and no run is made") {
  struct Case {
    std::string json;
    std::string message;
  };

  testing::FreshEngine engine;
  engine.add("describe", describe);
  const auto cases = std::to_array<Case>({
      {R"([{"id": "o7", "items": []}, "three"])", "/1"},
      {R"([{"id": 7, "items": []}, 3])", "/0/id"},
      {R"([{"id": "o7", "items": [{"name": "a", "count": 1}, {"name": "b", "count": "2"}]}, 3])",
       "/0/items/1/count"},
      {R"([{"id": "o7", "items": [], "extra": true}, 3])", "/0/extra"},
      {R"([{"items": []}, 3])", "/0"},
      {R"([{"id": "o7", "items": []}])", "/"},
      {R"([{"id": "o7", "items": []}, 3, 4])", "/"},
      {R"({"id": "o7"})", "/"},
      {R"([{"id": "o7", "items": []}, 3000000000])", "/1"},
  });
  for (const Case& c : cases) {
    CAPTURE(c.json);
    const auto error =
        thrown<ValidationError>([&] { engine.start({}, "describe", boost::json::parse(c.json)); });
    CHECK(error.code() == "VALIDATION_ERROR");
    CHECK_MESSAGE(std::string(error.what()).starts_with(c.message), error.what());
  }
  CHECK(engine.runs().empty());
}

TEST_CASE("a delayed run begins when its delay is over") {
  struct Shop {
    Workflow<TimePoint> run() { co_return co_await now(); }
  } shop;

  testing::FreshEngine engine;
  const TimePoint asked = engine.now();
  const Run run = engine.start({.delay = 1h}, engine.add("run", &Shop::run, &shop)).run;
  CHECK(run.status() == RunStatus::pending);
  CHECK(run.journal().empty());

  engine.advance(1h - 1ms);
  CHECK(run.status() == RunStatus::pending);
  engine.crash();
  engine.advance(1ms);

  CHECK(run.result<TimePoint>() == asked + 1h);
}

TEST_CASE("a delayed run holds its key and can be cancelled before it begins") {
  testing::FreshEngine engine;
  engine.add("echo", echo);
  Run run = engine.start({.key = "k", .delay = 1h}, echo, "x").run;

  CHECK_FALSE(engine.start({.key = "k"}, echo, "x").created);
  run.cancel();
  engine.advance(2h);

  CHECK(run.status() == RunStatus::cancelled);
}

TEST_CASE("a run that misses its deadline fails, also while it sleeps, rests or is delayed") {
  struct Shop {
    int bodies = 0;

    Workflow<> sleeps() { co_await sleep(24h); }

    Workflow<> rests() {
      co_await step("fails", {.retry = {.attempts = 100, .initial = 2h, .max = 2h}},
                    [] { throw std::runtime_error("no"); });
    }

    Workflow<> works() {
      co_await step("body", [this] { ++bodies; });
    }
  } shop;

  testing::FreshEngine engine;
  const auto sleeps = engine.add("sleeps", &Shop::sleeps, &shop);
  const auto rests = engine.add("rests", &Shop::rests, &shop);
  const auto works = engine.add("works", &Shop::works, &shop);
  const Run sleeping = engine.start({.deadline = 1h}, sleeps).run;
  const Run resting = engine.start({.deadline = 1h}, rests).run;
  const Run delayed = engine.start({.delay = 2h, .deadline = 1h}, works).run;
  const Run quick = engine.start({.deadline = 1h}, works).run;

  engine.advance(1h - 1ms);
  CHECK(sleeping.status() == RunStatus::waiting);
  engine.crash();
  engine.advance(1ms);

  for (const Run& late : {sleeping, resting, delayed}) {
    CHECK(late.status() == RunStatus::failed);
    CHECK_MESSAGE(late.error().starts_with("DEADLINE_EXCEEDED"), late.error());
    CHECK(code_of([&] { late.result<void>(); }) == "RUN_FAILED");
  }
  engine.advance(3h);
  CHECK(quick.status() == RunStatus::completed);
  CHECK(shop.bodies == 1);
}

TEST_CASE("attributes are given at the start") {
  testing::FreshEngine engine;
  engine.add("echo", echo);

  const Run run = engine.start({.attributes = {{"tenant", "t1"}, {"stage", ""}}}, echo, "x").run;

  CHECK(run.attributes() == std::map<std::string, std::string>{{"tenant", "t1"}, {"stage", ""}});
}

TEST_CASE("options that make no sense are refused") {
  testing::FreshEngine engine;
  engine.add("echo", echo);
  const auto code = [&](const StartOptions& options) {
    return code_of([&] { engine.start(options, echo, "x"); });
  };

  CHECK(code({.key_ttl = -1ms}) == "VALIDATION_ERROR");
  CHECK(code({.run_id = ""}) == "VALIDATION_ERROR");
  CHECK(code({.run_id = "no spaces"}) == "VALIDATION_ERROR");
  CHECK(code({.run_id = std::string(256, 'i')}) == "VALIDATION_ERROR");
  CHECK(code({.run_id = std::string(255, 'i')}) == "nothing");
  CHECK(code({.delay = -1ms}) == "VALIDATION_ERROR");
  CHECK(code({.deadline = 0ms}) == "VALIDATION_ERROR");
  CHECK(code({.attributes = {{"", "x"}}}) == "VALIDATION_ERROR");
  CHECK(code({.attributes = {{"x", std::string(1025, 'v')}}}) == "VALIDATION_ERROR");
}

TEST_CASE("a workflow's name and keys may be any text") {
  testing::FreshEngine engine;
  const auto reference = engine.add("Übung \"1\"/2 \\ \n", echo);

  const Run run = engine.start({.key = "schlüssel\t'\"\n"}, reference, "x").run;

  CHECK(run.result<std::string>() == "x");
  CHECK(engine.runs({.workflow = "Übung \"1\"/2 \\ \n"}).size() == 1);
  CHECK(engine.runs({.key = "schlüssel\t'\"\n"}).size() == 1);
}

}  // namespace semel
