// Values of every kind through a workflow: in as an argument, through a step, out as a result.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

#include <limits>
#include <list>
#include <unordered_map>

namespace semel {

using namespace test;

namespace {

enum class Colour { red, green, blue };
BOOST_DESCRIBE_ENUM(Colour, red, green, blue)

struct Point {
  int x = 0;
  int y = 0;

  bool operator==(const Point&) const = default;
};
BOOST_DESCRIBE_STRUCT(Point, (), (x, y))

struct Shape {
  std::string name;
  Colour colour = Colour::red;
  std::vector<Point> corners{};
  std::optional<Point> centre{};
  std::map<std::string, std::variant<int, std::string, Point>> labels{};
  Bytes picture{};

  bool operator==(const Shape&) const = default;
};
BOOST_DESCRIBE_STRUCT(Shape, (), (name, colour, corners, centre, labels, picture))

struct Empty {
  bool operator==(const Empty&) const = default;
};
BOOST_DESCRIBE_STRUCT(Empty, (), ())

/// A struct as it was, and as it is in the next version of the program.
struct Small {
  std::string name;
  int old = 1;
};
BOOST_DESCRIBE_STRUCT(Small, (), (name, old))

struct Grown {
  std::string name;
  int added = 7;
};
BOOST_DESCRIBE_STRUCT(Grown, (), (name, added))

/// Gives `value` on: argument, step argument, step result, result. Rests and crashes in between.
template <class T>
struct Relay {
  std::optional<T> in_step;

  Workflow<T> run(T value) {
    const T from_step = co_await step(
        "relay",
        [this](T bound) {
          in_step = bound;
          return bound;
        },
        value);
    co_await sleep(1h);
    co_return from_step;
  }
};

template <class T>
void check_round_trip(const T& value) {
  Relay<T> relay;
  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("relay", &Relay<T>::run, &relay), value).run;
  engine.run_until_idle();
  engine.crash();
  engine.advance(1h);

  const T result = run.template result<T>();

  CHECK(result == value);
  REQUIRE(relay.in_step);
  CHECK(*relay.in_step == value);
}

Bytes bytes(std::initializer_list<int> values) {
  Bytes made;
  for (const int value : values) made.push_back(static_cast<std::byte>(value));
  return made;
}

}  // namespace

TEST_CASE("numbers come through exactly") {
  for (const std::int64_t number :
       {std::int64_t{0}, std::int64_t{-1}, std::int64_t{9007199254740993},
        std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    CAPTURE(number);
    check_round_trip(number);
  }
  check_round_trip(std::numeric_limits<std::uint64_t>::max());
  for (const double number : {0.1, 1.0 / 3, 1e300, -5e-324, 123456789.123456789}) {
    CAPTURE(number);
    check_round_trip(number);
  }
  check_round_trip(true);
}

TEST_CASE("text and bytes come through unchanged") {
  check_round_trip(std::string());
  check_round_trip(std::string("Zürich ☃ \"quoted\" \\ \n\t"));
  check_round_trip(std::string("a\0b", 3));
  check_round_trip(Bytes{});
  check_round_trip(bytes({0, 255, 128, 10, 13}));
}

TEST_CASE("containers, optionals and variants come through, empty or not") {
  check_round_trip(std::vector<int>{});
  check_round_trip(std::vector<std::vector<std::string>>{{}, {"a"}, {"b", ""}});
  check_round_trip(std::list<bool>{true, false});
  check_round_trip(std::array<int, 3>{1, 2, 3});
  check_round_trip(std::map<std::string, int>{{"", 0}, {"key", 1}});
  check_round_trip(std::map<int, std::string>{{-1, "minus"}, {7, "seven"}});
  check_round_trip(std::unordered_map<std::string, int>{{"a", 1}, {"b", 2}});
  check_round_trip(std::set<Colour>{Colour::blue, Colour::red});
  check_round_trip(std::optional<int>{});
  check_round_trip(std::optional<int>{0});
  check_round_trip(std::pair{1, std::string("one")});
  check_round_trip(std::tuple{1, std::string("one"), true});
  check_round_trip(std::variant<int, std::string, Point>{"text"});
  check_round_trip(std::variant<int, std::string, Point>{Point{1, 2}});
  check_round_trip(std::variant<std::monostate, int>{});
}

TEST_CASE("enums, structs and times come through") {
  check_round_trip(Colour::green);
  check_round_trip(Empty{});
  check_round_trip(Point{-1, 2});
  check_round_trip(Shape{});
  check_round_trip(Shape{.name = "tree",
                         .colour = Colour::green,
                         .corners = {{0, 0}, {1, 5}},
                         .centre = Point{3, 4},
                         .labels = {{"a", 1}, {"b", "two"}, {"c", Point{3, 3}}},
                         .picture = bytes({1, 2, 3})});
  check_round_trip(TimePoint{std::chrono::sys_days{std::chrono::year{2026} / 2 / 28}} + 1ns);
  check_round_trip(std::chrono::milliseconds{1500});
  check_round_trip(Json{{"any", {1, "two", nullptr, {{"three", 3.5}}}}});
}

TEST_CASE("a workflow without result or arguments is fine, and so is a step") {
  struct Shop {
    int bodies = 0;

    Workflow<> run() {
      co_await step("nothing", [this] { ++bodies; });
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  run.result<void>();

  CHECK(shop.bodies == 1);
  CHECK(run.input() == Json(boost::json::array{}));
}

TEST_CASE("a workflow gets what is in the journal, the first time already") {
  struct Shop {
    Workflow<bool> run() {
      const Json before = {{"number", 1.0}};
      const Json after = co_await step("give", [before] { return before; });
      co_return after == before;
    }
  } shop;

  testing::FreshEngine engine;

  CHECK(engine.start(engine.add("run", &Shop::run, &shop)).run.result<bool>());
}

TEST_CASE("a step's result that is not UTF-8 fails the step with its path, once") {
  struct Shop {
    int bodies = 0;

    Workflow<std::string> run() {
      const auto outcome = co_await settled(step("bad", [this] {
        ++bodies;
        return std::vector<std::string>{"fine", "caf\xe9"};
      }));
      co_return outcome.message();
    }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  engine.advance(1h);

  const std::string message = run.result<std::string>();
  CHECK_MESSAGE(contains(message, "/1"), message);
  CHECK_MESSAGE(contains(message, "UTF-8"), message);
  CHECK(shop.bodies == 1);
}

TEST_CASE("a result, an argument or a number that cannot be written is refused with its path") {
  struct Shop {
    Workflow<Shape> bad_text() { co_return Shape{.name = "caf\xe9"}; }

    Workflow<std::vector<double>> bad_number() {
      co_return std::vector{1.0, std::numeric_limits<double>::quiet_NaN()};
    }
  } shop;

  testing::FreshEngine engine;
  Relay<Shape> relay;
  const auto relays = engine.add("relay", &Relay<Shape>::run, &relay);
  const Run text = engine.start(engine.add("text", &Shop::bad_text, &shop)).run;
  const Run number = engine.start(engine.add("number", &Shop::bad_number, &shop)).run;
  engine.run_until_idle();

  CHECK_MESSAGE(text.error().starts_with("VALIDATION_ERROR: /name"), text.error());
  CHECK_MESSAGE(number.error().starts_with("VALIDATION_ERROR: /1"), number.error());
  const auto refused =
      thrown<ValidationError>([&] { engine.start(relays, Shape{.labels = {{"l", "\xff"}}}); });
  CHECK_MESSAGE(refused.path == "/0/labels/l", refused.path);
}

TEST_CASE("the result of a run is read as the type asked for, or refused with the path") {
  struct Shop {
    Workflow<Small> run() { co_return Small{"name", 3}; }
  } shop;

  testing::FreshEngine engine;
  const Run run = engine.start(engine.add("run", &Shop::run, &shop)).run;

  CHECK(run.result<Small>().old == 3);
  CHECK(run.result<Json>() == Json{{"name", "name"}, {"old", 3}});
  CHECK(code_of([&] { run.result<int>(); }) == "VALIDATION_ERROR");
  run.result<void>();
}

TEST_CASE("a struct may grow and shrink while runs are under way") {
  struct Old {
    Workflow<std::string> run(Small small) {
      co_await step("make", [small] { return small; });
      co_await sleep(1h);
      co_return "old";
    }
  } old;

  struct New {
    Workflow<std::string> run(Grown grown) {
      const Grown made = co_await step("make", [grown] { return grown; });
      co_await sleep(1h);
      co_return made.name + std::to_string(made.added) + grown.name;
    }
  } renewed;

  TemporaryDirectory directory;
  std::string id;
  {
    Engine engine{directory.url()};
    const auto workflow = engine.add("run", &Old::run, &old);
    engine.start_workers();
    Run run = engine.start(workflow, Small{"box"}).run;
    id = run.id();
    while (run.status() != RunStatus::waiting) std::this_thread::yield();
  }

  Engine engine{directory.url()};
  engine.add("run", &New::run, &renewed);
  engine.start_workers();
  Run run = engine.run(id);
  while (run.wake() == 0) std::this_thread::yield();

  CHECK(run.result<std::string>(10s) == "box7box");
}

}  // namespace semel
