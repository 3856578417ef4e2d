// A shape accepts what decoding at a boundary accepts, and refuses the rest with the same words.
#include "base/shape.hpp"

#include <semel/shape.hpp>

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <unordered_map>

namespace semel::base {
namespace {

enum class Colour { red, green };
BOOST_DESCRIBE_ENUM(Colour, red, green)

struct Point {
  std::int8_t x = 0;
  std::uint16_t y = 0;
  std::optional<std::string> label;
};
BOOST_DESCRIBE_STRUCT(Point, (), (x, y, label))

struct Tree {
  std::string name;
  std::vector<Tree> below;
};
BOOST_DESCRIBE_STRUCT(Tree, (), (name, below))

struct Everything {
  bool flag = false;
  double ratio = 0;
  Bytes raw;
  TimePoint at{};
  std::chrono::seconds wait{};
  Colour colour = Colour::red;
  std::variant<std::int32_t, std::string> either;
  std::tuple<int, bool> both;
  std::array<int, 2> two{};
  std::map<std::string, Point> named;
  std::map<int, std::string> numbered;
  std::set<int> distinct;
  Json anything;
};
BOOST_DESCRIBE_STRUCT(Everything, (),
                      (flag, ratio, raw, at, wait, colour, either, both, two, named, numbered,
                       distinct, anything))

/// Both ways of looking at a text must agree.
template <class T>
void compare(const std::string& json) {
  CAPTURE(json);
  ShapeChecker checker;
  T decoded{};
  CHECK(checker.check(type<T>().shape, json) ==
        value::try_decode(json, decoded, value::Mode::boundary));
}

TEST_CASE("a shape refuses what the type refuses, at the same place") {
  for (const char* json :
       {R"({"x":1,"y":2})", R"({"x":1,"y":2,"label":"a"})", R"({"x":1,"y":2,"label":null})",
        R"({"x":128,"y":2})", R"({"x":1,"y":-1})", R"({"x":1})", R"({"x":1,"y":2,"z":3})",
        R"({"x":1,"x":1,"y":2})", R"({"x":"1","y":2})", R"([])", R"(null)", R"({"x":1,"y":2)",
        R"({"x":1,"y":2} )", R"({"x":1,"y":2}x)", R"({"x":1.5,"y":2})", ""}) {
    compare<Point>(json);
  }
  for (const char* json :
       {R"({"name":"a","below":[{"name":"b","below":[]}]})",
        R"({"name":"a","below":[{"name":"b","below":[{"name":7,"below":[]}]}]})"}) {
    compare<Tree>(json);
  }
  for (const char* json : {"1", "\"x\"", "null", R"({"$alternative":1,"value":"x"})",
                           R"({"$alternative":2,"value":"x"})", "[]"}) {
    compare<std::variant<std::int32_t, std::string>>(json);
    compare<std::optional<std::optional<int>>>(json);
    compare<std::vector<int>>(json);
    compare<int>(json);
    compare<std::string>(json);
    compare<std::monostate>(json);
  }
}

TEST_CASE("every kind of value is checked inside a struct") {
  const std::string good =
      R"({"flag":true,"ratio":0.5,"raw":"AAE=","at":"2030-01-01T00:00:00Z","wait":5,)"
      R"("colour":"green","either":"x","both":[1,false],"two":[1,2],)"
      R"("named":{"p":{"x":1,"y":2}},"numbered":[[1,"a"],[2,"b"]],"distinct":[1,2],)"
      R"("anything":{"a":[1,2.5,null]}})";
  compare<Everything>(good);
  const std::vector<std::pair<std::string, std::string>> spoilt{
      {"true", "1"},
      {"0.5", "\"0.5\""},
      {"\"AAE=\"", "\"A\""},
      {"2030-01-01T00:00:00Z", "soon"},
      {"\"wait\":5", "\"wait\":5.5"},
      {"green", "blue"},
      {"\"either\":\"x\"", "\"either\":[]"},
      {"[1,false]", "[1]"},
      {"[1,false]", "[1,false,2]"},
      {"\"two\":[1,2]", "\"two\":[1]"},
      {"\"two\":[1,2]", "\"two\":[1,2,3]"},
      {"\"y\":2", "\"y\":\"2\""},
      {"[2,\"b\"]", "[1,\"b\"]"},
      {"[2,\"b\"]", "[2]"},
      {"\"distinct\":[1,2]", "\"distinct\":[1,1]"},
      {"\"flag\":true,", ""}};
  for (const auto& [from, to] : spoilt) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    ShapeChecker checker;
    CHECK(checker.check(type<Everything>().shape, bad));
    compare<Everything>(bad);
  }
}

TEST_CASE("no shape accepts anything, and so does one that nobody can read") {
  ShapeChecker checker;

  CHECK_FALSE(checker.check("", "whatever"));
  CHECK_FALSE(checker.check(R"({"shape":{"is":"something new"}})", "1"));
}

}  // namespace
}  // namespace semel::base
