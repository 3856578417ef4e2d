#include "base/base64.hpp"
#include "base/json_text.hpp"
#include "base/utf8.hpp"

#include <semel/value.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace shop {

enum class Status { pending, paid };
BOOST_DESCRIBE_ENUM(Status, pending, paid)

enum class Priority : std::int8_t {};

struct Item {
  std::string sku;
  int qty = 1;
  std::optional<double> price;

  bool operator==(const Item&) const = default;
};
BOOST_DESCRIBE_STRUCT(Item, (), (sku, qty, price))

struct Owned {
  std::string tenant;

  bool operator==(const Owned&) const = default;
};
BOOST_DESCRIBE_STRUCT(Owned, (), (tenant))

struct Order : Owned {
  std::vector<Item> items;
  Status status = Status::pending;
  std::map<std::string, int> notes;
  std::variant<std::int64_t, std::string> reference;

  bool operator==(const Order&) const = default;
};
BOOST_DESCRIBE_STRUCT(Order, (Owned), (items, status, notes, reference))

struct Nothing {
  bool operator==(const Nothing&) const = default;
};
BOOST_DESCRIBE_STRUCT(Nothing, (), ())

class Account {
 public:
  Account() = default;

  explicit Account(int balance) : balance_(balance) {}

  bool operator==(const Account&) const = default;

 private:
  int balance_ = 0;
  BOOST_DESCRIBE_CLASS(Account, (), (), (), (balance_))
};

struct Limits {
  std::optional<int> attempts = 3;
  int seconds = 60;
  Item sample{.sku = "sample", .qty = 7, .price = 2.5};

  bool operator==(const Limits&) const = default;
};
BOOST_DESCRIBE_STRUCT(Limits, (), (attempts, seconds, sample))

struct Tree {
  std::vector<Tree> children;

  bool operator==(const Tree&) const = default;
};
BOOST_DESCRIBE_STRUCT(Tree, (), (children))

struct Approved {
  std::string by;

  bool operator==(const Approved&) const = default;
};
BOOST_DESCRIBE_STRUCT(Approved, (), (by))

struct Rejected {
  std::string by;
  std::string reason;

  bool operator==(const Rejected&) const = default;
};
BOOST_DESCRIBE_STRUCT(Rejected, (), (by, reason))

struct Leaf {
  int size = 0;

  bool operator==(const Leaf&) const = default;
};
BOOST_DESCRIBE_STRUCT(Leaf, (), (size))

struct Fork {
  std::vector<std::variant<Fork, Leaf>> arms;
  int end = 0;

  friend bool operator==(const Fork& a, const Fork& b) {
    return a.arms == b.arms && a.end == b.end;
  }
};
BOOST_DESCRIBE_STRUCT(Fork, (), (arms, end))

struct Twin {
  std::vector<std::variant<Twin, Twin>> both;
};
BOOST_DESCRIBE_STRUCT(Twin, (), (both))

struct Undescribed {
  int x = 0;
};

}  // namespace shop

namespace semel {
namespace {

using shop::Account;
using shop::Approved;
using shop::Fork;
using shop::Item;
using shop::Leaf;
using shop::Limits;
using shop::Nothing;
using shop::Order;
using shop::Owned;
using shop::Priority;
using shop::Rejected;
using shop::Status;
using shop::Tree;
using shop::Twin;
using value::Misfit;
using value::Mode;

using namespace std::chrono_literals;
using namespace std::string_literals;

constexpr auto modes = std::to_array({Mode::boundary, Mode::journal});

/// `value` has exactly this text, and the text gives it back in both modes.
template <class T>
void check_text(const T& value, const std::string& text) {
  CAPTURE(text);
  CHECK(value::encode(value) == text);
  for (const Mode mode : modes) CHECK(value::decode<T>(text, mode) == value);
}

template <class T>
void check_round_trip(const T& value) {
  check_text(value, value::encode(value));
}

template <class T>
std::string refusal(std::string_view json, Mode mode = Mode::boundary) {
  T out{};
  const auto misfit = value::try_decode(json, out, mode);
  return misfit ? misfit->path + ": " + misfit->message : "accepted";
}

template <class T>
std::string write_refusal(const T& value) {
  std::string out = "before";
  try {
    value::encode_to(out, value);
  } catch (const ValidationError& error) {
    CHECK(out == "before");
    return error.what();
  }
  return "written";
}

std::string repeated(std::string_view text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

std::string nested(std::size_t depth) { return repeated("[", depth) + repeated("]", depth); }

}  // namespace

TEST_CASE("every supported type has a text that reads back as the same value") {
  check_text(true, "true");
  check_text(-42, "-42");
  check_text(static_cast<unsigned char>(200), "200");
  check_text(1.5, "1.5");
  check_text(0.1F, "0.1");
  check_text("text"s, R"("text")");
  check_text(Bytes{std::byte{0}, std::byte{255}}, R"("AP8=")");
  check_text(std::optional<int>{}, "null");
  check_text(std::optional<int>{3}, "3");
  check_text(std::vector<int>{1, 2}, "[1,2]");
  check_text(std::vector<bool>{true, false}, "[true,false]");
  check_text(std::array<int, 2>{1, 2}, "[1,2]");
  check_text(std::array<int, 0>{}, "[]");
  check_text(std::deque<int>{1, 2}, "[1,2]");
  check_text(std::list<std::string>{"a"}, R"(["a"])");
  check_text(std::set<int>{2, 1}, "[1,2]");
  check_text(std::unordered_set<int>{3, 1, 2}, "[1,2,3]");
  check_text(std::map<std::string, int>{{"b", 2}, {"a", 1}}, R"({"a":1,"b":2})");
  check_text(std::unordered_map<std::string, int>{{"b", 2}, {"a", 1}}, R"({"a":1,"b":2})");
  check_text(std::map<int, std::string>{{10, "b"}, {9, "a"}}, R"([[9,"a"],[10,"b"]])");
  check_text(std::unordered_map<int, int>{{2, 20}, {1, 10}}, "[[1,10],[2,20]]");
  check_text(std::pair{1, "a"s}, R"([1,"a"])");
  check_text(std::tuple{1, 2.0, true}, "[1,2.0,true]");
  check_text(std::tuple<>{}, "[]");
  check_text(Status::paid, R"("paid")");
  check_text(Priority{-3}, "-3");
  check_text(std::byte{7}, "7");
  check_text(std::monostate{}, "null");
  check_text(nullptr, "null");
  check_text(Nothing{}, "{}");
  check_text(Account{5}, R"({"balance_":5})");
  check_text(90s, "90");
  check_text(std::chrono::duration<double>{0.5}, "0.5");
  check_text(Json(1), "1");
  check_text(Tree{{Tree{}, Tree{}}}, R"({"children":[{"children":[]},{"children":[]}]})");

  Order order;
  order.tenant = "t1";
  order.items = {{.sku = "a", .qty = 1, .price = {}}, {.sku = "b", .qty = 2, .price = 1.5}};
  order.status = Status::paid;
  order.notes = {{"k", 7}};
  order.reference = "x";
  check_text(order,
             R"({"tenant":"t1","items":[{"sku":"a","qty":1},{"sku":"b","qty":2,"price":1.5}],)"
             R"("status":"paid","notes":{"k":7},"reference":"x"})");
}

TEST_CASE("types without a JSON form are known as such") {
  static_assert(value::Serialisable<Order> && value::Serialisable<std::vector<Order>>);
  static_assert(!value::Serialisable<shop::Undescribed>);
  static_assert(!value::Serialisable<std::vector<shop::Undescribed>>);
  static_assert(!value::Serialisable<std::map<std::string, shop::Undescribed>>);
  static_assert(!value::Serialisable<std::optional<shop::Undescribed>>);
  static_assert(!value::Serialisable<std::variant<int, shop::Undescribed>>);
  static_assert(!value::Serialisable<std::tuple<int, shop::Undescribed>>);
  static_assert(!value::Serialisable<char> && !value::Serialisable<wchar_t>);
  static_assert(!value::Serialisable<long double>);
  static_assert(!value::Serialisable<const char*> && !value::Serialisable<std::string_view>);
  static_assert(!value::Serialisable<std::wstring> && !value::Serialisable<std::span<int>>);
  static_assert(!value::Serialisable<int&> && !value::Serialisable<const int>);
  static_assert(!value::Serialisable<int*> && !value::Serialisable<std::unique_ptr<int>>);
  static_assert(!value::Serialisable<void>);
}

TEST_CASE("64-bit integers are exact") {
  check_text(std::numeric_limits<std::int64_t>::min(), "-9223372036854775808");
  check_text(std::numeric_limits<std::int64_t>::max(), "9223372036854775807");
  check_text(std::numeric_limits<std::uint64_t>::max(), "18446744073709551615");
  check_text(std::int64_t{9007199254740993}, "9007199254740993");

  std::mt19937_64 random{1};
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t bits = random() >> (random() % 64);
    REQUIRE(value::decode<std::uint64_t>(value::encode(bits), Mode::journal) == bits);
    const auto number = static_cast<std::int64_t>(bits);
    REQUIRE(value::decode<std::int64_t>(value::encode(number), Mode::journal) == number);
    REQUIRE(value::from_text(value::to_text(Json(number))).as_int64() == number);
  }
}

TEST_CASE("an integer has to be in the range of its type") {
  CHECK(refusal<std::int8_t>("128") == ": not in range of int8");
  CHECK(refusal<std::int8_t>("-129") == ": not in range of int8");
  CHECK(refusal<std::int8_t>("-128") == "accepted");
  CHECK(refusal<std::uint8_t>("256") == ": not in range of uint8");
  CHECK(refusal<std::uint8_t>("-1") == ": not in range of uint8");
  CHECK(refusal<std::uint8_t>("-0") == "accepted");
  CHECK(refusal<std::int64_t>("9223372036854775808") == ": not in range of int64");
  CHECK(refusal<std::int64_t>("-9223372036854775809") == ": not in range of int64");
  CHECK(refusal<std::uint64_t>("18446744073709551616") == ": not in range of uint64");
  CHECK(refusal<std::uint64_t>("1e20") == ": not in range of uint64");
  CHECK(refusal<std::int64_t>("1e999999999999") == ": not in range of int64");
  CHECK(refusal<Priority>("1000") == ": not in range of int8");
}

TEST_CASE("a number with a fraction or an exponent is an integer only if it is integral") {
  CHECK(value::decode<int>("1.0", Mode::boundary) == 1);
  CHECK(value::decode<int>("1e3", Mode::boundary) == 1000);
  CHECK(value::decode<int>("-12.50e1", Mode::boundary) == -125);
  CHECK(value::decode<int>("0e-5", Mode::boundary) == 0);
  CHECK(value::decode<int>("0e99999999999999999999", Mode::boundary) == 0);
  CHECK(value::decode<std::uint64_t>("1844674407370955161.5e1", Mode::boundary) ==
        18446744073709551615U);
  CHECK(refusal<int>("1.5") == ": expected an integer");
  CHECK(refusal<int>("1e-1") == ": expected an integer");
  CHECK(refusal<int>("1e-99999999999999999999") == ": expected an integer");
}

TEST_CASE("a double keeps every bit") {
  check_text(1.0, "1.0");
  check_text(-0.0, "-0.0");
  CHECK(std::signbit(value::decode<double>("-0.0", Mode::journal)));
  check_text(1e30, "1e+30");
  check_text(5e-324, "5e-324");
  check_text(std::numeric_limits<double>::max(), "1.7976931348623157e+308");

  std::mt19937_64 random{2};
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) {
    const std::uint64_t bits = random();
    const auto number = std::bit_cast<double>(bits);
    if (!std::isfinite(number)) continue;
    text.clear();
    value::encode_to(text, number);
    REQUIRE(std::bit_cast<std::uint64_t>(value::decode<double>(text, Mode::journal)) == bits);
    const Json json = value::from_text(value::to_text(Json(number)));
    REQUIRE(json.is_double());
    REQUIRE(std::bit_cast<std::uint64_t>(json.get_double()) == bits);
  }
}

TEST_CASE("a float keeps every bit") {
  std::mt19937_64 random{3};
  for (int i = 0; i < 100'000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    const auto number = std::bit_cast<float>(bits);
    if (!std::isfinite(number)) continue;
    const auto back = value::decode<float>(value::encode(number), Mode::journal);
    REQUIRE(std::bit_cast<std::uint32_t>(back) == bits);
  }
}

TEST_CASE("a number beyond a double is refused, one too small for it is zero") {
  CHECK(refusal<double>("1e400") == ": not in range of a double");
  CHECK(refusal<double>("1e99999999999999999999") == ": not in range of a double");
  CHECK(refusal<double>(repeated("9", 400)) == ": not in range of a double");
  CHECK(refusal<float>("1e39") == ": not in range of a float");
  CHECK(refusal<Json>("-1e400") == ": not in range of a double");
  CHECK(value::decode<double>("1e-400", Mode::boundary) == 0.0);
  CHECK(value::decode<double>("1e-99999999999999999999", Mode::boundary) == 0.0);
  CHECK(std::signbit(value::decode<double>("-1e-400", Mode::boundary)));
}

TEST_CASE("NaN and infinity are refused with their path") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string why = "NaN and infinity have no JSON form";

  CHECK(write_refusal(nan) == "/: " + why);
  CHECK(write_refusal(-std::numeric_limits<float>::infinity()) == "/: " + why);
  CHECK(write_refusal(std::vector<Item>{{}, {.sku = "a", .qty = 1, .price = nan}}) ==
        "/1/price: " + why);
  CHECK(write_refusal(std::map<std::string, double>{{"a/b~c", nan}}) == "/a~1b~0c: " + why);
  CHECK(write_refusal(Json{{"a", {1, nan}}}) == "/a/1: " + why);
}

TEST_CASE("a string is UTF-8, whatever else it holds") {
  check_text("\0\x01\x1f\x7f\b\f\n\r\t\"\\/"s, R"("\u0000\u0001\u001f\u007f\b\f\n\r\t\"\\/")");
  check_text("\u00e9\u4e16\U0001F600"s, "\"\u00e9\u4e16\U0001F600\"");
  check_text(std::string(1000, 'x') + "\n" + std::string(1000, 'y'),
             '"' + std::string(1000, 'x') + "\\n" + std::string(1000, 'y') + '"');
  CHECK(value::decode<std::string>(R"("\u0041\/\ud83d\ude00\u00E9")", Mode::boundary) ==
        "A/\U0001F600\u00e9");
}

TEST_CASE("a string that is not UTF-8 is refused both ways") {
  const auto bad = std::to_array<std::string>({
      "\x80",              // a continuation alone
      "\xC3",              // a character cut short
      "\xC0\xAF",          // overlong
      "\xE0\x80\xAF",      // overlong
      "\xF0\x80\x80\x80",  // overlong
      "\xED\xA0\x80",      // a surrogate
      "\xF4\x90\x80\x80",  // above U+10FFFF
      "\xF5\x80\x80\x80",
      "\xFF",
      "\xE4\xB8",
      "\xE4\xB8\x41",
  });
  for (const std::string& each : bad) {
    CAPTURE(each);
    for (const std::string& text : {each, "plain text before" + each, each + "and after"}) {
      CHECK(!base::is_utf8(text));
      CHECK(write_refusal(std::vector{"fine"s, text}) ==
            "/1: not UTF-8; binary data belongs in semel::Bytes");
      CHECK(write_refusal(Json(text)) == "/: not UTF-8; binary data belongs in semel::Bytes");
      CHECK(write_refusal(std::map<std::string, int>{{text, 1}}) != "written");
      CHECK(refusal<std::string>('"' + text + '"').find("not UTF-8") != std::string::npos);
    }
  }
}

TEST_CASE("a character is accepted exactly if it is one") {
  for (char32_t point = 0; point <= 0x10FFFF; point += point < 0x3000 ? 1 : 61) {
    if (point >= 0xD800 && point <= 0xDFFF) continue;
    std::string text;
    base::append_utf8(text, point);
    REQUIRE(base::utf8_length(text) == text.size());
    REQUIRE(value::decode<std::string>(value::encode(text), Mode::boundary) == text);
  }
}

TEST_CASE("bytes have one text only") {
  std::mt19937_64 random{4};
  for (std::size_t size = 0; size < 100; ++size) {
    Bytes bytes(size);
    for (std::byte& each : bytes) each = static_cast<std::byte>(random());
    check_round_trip(bytes);
  }
  for (const std::string_view text : {"A", "AA", "AAA", "AA=A", "=AAA", "AA==AAAA",
                                      "A===", "====", "AB==", "AAB=", "AA-_", "AA A"}) {
    CAPTURE(text);
    CHECK(refusal<Bytes>('"' + std::string(text) + '"') == ": expected base64");
  }
  CHECK(refusal<Bytes>("[1]") == ": expected a string");
}

TEST_CASE("a misfit says where and what") {
  const auto order = [](std::string_view items, std::string_view rest) {
    return R"({"tenant":"t","items":)" + std::string(items) + std::string(rest) + "}";
  };
  const std::string rest = R"(,"status":"paid","notes":{},"reference":1)";

  CHECK(refusal<Order>(order("[]", rest)) == "accepted");
  CHECK(refusal<Order>(order(R"([{"sku":"a","qty":1},{"sku":"b","qty":1,"price":"x"}])", rest)) ==
        "/items/1/price: expected a number");
  CHECK(refusal<Order>(order(R"([{"sku":"a"}])", rest)) == "/items/0/qty: required");
  CHECK(refusal<Order>(order(R"([{"sku":"a","qty":"many"}])", rest)) ==
        "/items/0/qty: expected an integer");
  CHECK(refusal<Order>(order(R"([{"sku":"a","qty":1,"colour":2}])", rest)) ==
        "/items/0/colour: unexpected member");
  CHECK(refusal<Order>(order(R"([{"sku":"a","qty":1,"a~b\/c":2}])", rest)) ==
        "/items/0/a~0b~1c: unexpected member");
  CHECK(refusal<Order>(order(R"([{"sku":"a","qty":1,"qty":1}])", rest)) ==
        "/items/0/qty: member repeated");
  CHECK(refusal<Order>(order("[]", R"(,"status":"x","notes":{},"reference":1)")) ==
        "/status: unknown value \"x\"");
  CHECK(refusal<Order>(order("[]", R"(,"status":"paid","notes":{"a":1,"a":2},"reference":1)")) ==
        "/notes/a: member repeated");
  CHECK(refusal<Order>(order("[]", R"(,"status":"paid","notes":{"x/y":null},"reference":1)")) ==
        "/notes/x~1y: expected an integer");
  CHECK(refusal<Order>(order("[]", R"(,"status":"paid","notes":{},"reference":[])")) ==
        "/reference: matches no alternative");
  CHECK(refusal<Order>("[]") == ": expected an object");
  CHECK(refusal<std::vector<int>>("{}") == ": expected an array");
  CHECK(refusal<bool>("1") == ": expected true or false");
  CHECK(refusal<std::string>("1") == ": expected a string");
  CHECK(refusal<std::monostate>("1") == ": expected null");
  CHECK(refusal<std::pair<int, int>>("[1]") == ": expected an array of 2");
  CHECK(refusal<std::pair<int, int>>("[1,2,3]") == ": expected an array of 2");
  CHECK(refusal<std::array<int, 2>>("[]") == ": expected an array of 2");
  CHECK(refusal<std::tuple<>>("[1]") == ": expected an array of 0");
  CHECK(refusal<std::tuple<int, bool>>("[1,2]") == "/1: expected true or false");
  CHECK(refusal<std::set<int>>("[1,2,1]") == "/2: repeated");
  CHECK(refusal<std::map<int, int>>("[[1,2],[1,3]]") == "/1: repeated");
  CHECK(refusal<std::map<int, int>>("[[1,2],[2,true]]") == "/1/1: expected an integer");
  CHECK(refusal<Json>(R"({"a":[{"b":1,"b":2}]})") == "/a/0/b: member repeated");
  CHECK(refusal<Status>('"' + std::string(100, 'x') + '"') ==
        ": unknown value \"" + std::string(60, 'x') + "...\"");
}

TEST_CASE("a refused value throws a ValidationError that names the path") {
  try {
    value::decode<std::vector<Item>>(R"([{"sku":"a","qty":1,"price":true}])", Mode::boundary);
    FAIL("accepted");
  } catch (const ValidationError& error) {
    CHECK(error.path == "/0/price");
    CHECK(error.what() == "/0/price: expected a number"s);
  }
}

TEST_CASE("a text that does not fit leaves the value as it was") {
  std::vector<int> values{1, 2};

  const auto misfit = value::try_decode("[3,4,true]", values, Mode::boundary);

  CHECK(misfit == Misfit{"/2", "expected an integer"});
  CHECK(values == std::vector{1, 2});
}

TEST_CASE("a struct may grow: journals ignore unknown members and keep initial values") {
  const auto item = value::decode<Item>(R"({"old":[1,{"x":null}],"sku":"a"})", Mode::journal);
  CHECK(item == Item{.sku = "a", .qty = 1, .price = {}});
  CHECK(value::decode<Limits>("{}", Mode::journal) == Limits{});
  CHECK(value::decode<Limits>(R"({"sample":{"qty":8}})", Mode::journal).sample ==
        Item{.sku = "sample", .qty = 8, .price = {}});
  CHECK(refusal<Limits>("{}") == "/seconds: required");
  CHECK(refusal<Item>(R"({"old":[1,}],"sku":"a"})", Mode::journal) ==
        ": not JSON at byte 10: expected a value");
  CHECK(refusal<Item>(R"({"sku":"a","sku":"b"})", Mode::journal) == "/sku: member repeated");
}

TEST_CASE("an optional member may be null or absent") {
  for (const Mode mode : modes) {
    CHECK(value::decode<Item>(R"({"sku":"a","qty":1,"price":null})", mode).price == std::nullopt);
    CHECK(value::decode<Item>(R"({"sku":"a","qty":1})", mode).price == std::nullopt);
  }
}

TEST_CASE("an empty optional that starts with a value stays empty") {
  Limits limits;
  limits.attempts.reset();

  check_text(limits,
             R"({"attempts":null,"seconds":60,"sample":{"sku":"sample","qty":7,"price":2.5}})");
  limits.sample.price.reset();
  CHECK(value::decode<Limits>(value::encode(limits), Mode::boundary) == limits);
}

TEST_CASE("members are read in any order") {
  CHECK(value::decode<Item>(R"({ "price" : 2 , "qty":3,"sku":"a" })", Mode::boundary) ==
        Item{.sku = "a", .qty = 3, .price = 2.0});
}

TEST_CASE("a variant is the alternative itself where that is unambiguous") {
  using Reference = std::variant<std::int64_t, std::string, std::vector<int>>;
  check_text(Reference{5}, "5");
  check_text(Reference{"x"}, R"("x")");
  check_text(Reference{std::vector{1}}, "[1]");
  CHECK(
      value::decode<std::variant<Approved, Rejected>>(R"({"by":"a","reason":"b"})", Mode::boundary)
          .index() == 1);
}

TEST_CASE("a variant is tagged where an earlier alternative would fit, so that it reads back") {
  using Twice = std::variant<int, int>;
  check_text(Twice{std::in_place_index<0>, 1}, "1");
  check_text(Twice{std::in_place_index<1>, 1}, R"({"$alternative":1,"value":1})");

  using Number = std::variant<int, double>;
  check_text(Number{1.5}, "1.5");
  check_text(Number{2.0}, R"({"$alternative":1,"value":2.0})");

  // A journal would take a Rejected for an Approved, because it ignores the reason.
  using Answer = std::variant<Approved, Rejected>;
  check_text(Answer{Approved{"ann"}}, R"({"by":"ann"})");
  check_text(Answer{Rejected{"ann", "no"}},
             R"({"$alternative":1,"value":{"by":"ann","reason":"no"}})");

  using Anything = std::variant<Json, std::string, std::monostate>;
  check_text(Anything{"x"s}, R"({"$alternative":1,"value":"x"})");
  check_text(Anything{std::monostate{}}, R"({"$alternative":2,"value":null})");

  using Text = std::variant<std::string, Bytes, Status, TimePoint>;
  check_text(Text{Bytes{std::byte{1}}}, R"({"$alternative":1,"value":"AQ=="})");
  check_text(Text{Status::paid}, R"({"$alternative":2,"value":"paid"})");

  using Inner = std::variant<std::optional<int>, std::variant<int, std::string>>;
  check_round_trip(Inner{std::variant<int, std::string>{"x"}});
  check_round_trip(Inner{std::variant<int, std::string>{1}});
  check_round_trip(Inner{std::optional<int>{}});

  check_round_trip(std::vector<Answer>{Approved{"a"}, Rejected{"b", "c"}, Approved{"d"}});
  check_round_trip(Fork{{Leaf{3}, Fork{{Fork{}, Leaf{}}, 7}}, 1});
}

TEST_CASE("a value that looks like a tag is not taken for one") {
  const Json like_tag = {{"$alternative", 0}, {"value", "x"}};
  using Anything = std::variant<int, Json>;
  using Map = std::map<std::string, int>;

  check_text(Json(like_tag), R"({"$alternative":0,"value":"x"})");
  check_text(Anything{like_tag}, R"({"$alternative":1,"value":{"$alternative":0,"value":"x"}})");
  check_round_trip(std::variant<int, Map>{Map{{"$alternative", 0}, {"value", 1}}});
  check_round_trip(std::optional<Json>{like_tag});
}

TEST_CASE("the tag of a variant is recognised with spaces, and its errors have paths") {
  using Answer = std::variant<Approved, Rejected>;
  CHECK(value::decode<Answer>(R"( { "$alternative" : 1 , "value" : {"by":"a","reason":"b"} } )",
                              Mode::boundary)
            .index() == 1);
  CHECK(refusal<Answer>(R"({"$alternative":2,"value":{}})") == ": unknown alternative 2");
  CHECK(refusal<Answer>(R"({"$alternative":1,"value":{"by":"a","reason":1}})") ==
        "/value/reason: expected a string");
  CHECK(refusal<Answer>(R"({"$alternative":0,"value":{"by":"a"},"more":1})") ==
        ": expected the end of the alternative");
  CHECK(refusal<Answer>(R"({"$alternative":0})") == "/$alternative: unexpected member");
  CHECK(refusal<Answer>(R"({"$alternative":-1,"value":1})") == "/$alternative: unexpected member");
}

TEST_CASE("where no alternative fits, the one that came furthest is reported") {
  using Answer = std::variant<int, Approved, Rejected>;
  CHECK(refusal<Answer>(R"({"by":"a","reason":7})") == "/reason: expected a string");
  CHECK(refusal<std::variant<std::string, std::int8_t>>("300") == ": not in range of int8");
  CHECK(refusal<std::variant<Status, int>>(R"("x")") == ": unknown value \"x\"");
  CHECK(refusal<std::variant<int, bool>>(" [1]") == ": matches no alternative");
  CHECK(refusal<std::variant<int, std::string>>("\"\x01\"") ==
        ": not JSON at byte 1: a control character in a string");
}

TEST_CASE("variants within variants cannot be made to take for ever") {
  const auto text = [](std::size_t depth) {
    return repeated(R"({"both":[)", depth) + "7" + repeated("]}", depth);
  };

  CHECK(refusal<Twin>(text(4)) == "/both/0/both/0/both/0/both/0: matches no alternative");
  CHECK(refusal<Twin>(text(30)).ends_with(": too many alternatives to try"));
}

TEST_CASE("an optional that holds null is told from an empty one") {
  check_text(std::optional<Json>{}, "null");
  check_text(std::optional<Json>{Json{}}, R"({"$alternative":1,"value":null})");
  check_text(std::optional<Json>{Json(1)}, "1");
  check_text(std::optional<std::optional<int>>{std::optional<int>{}},
             R"({"$alternative":1,"value":null})");
  check_text(std::optional<std::variant<int, std::monostate>>{std::monostate{}},
             R"({"$alternative":1,"value":null})");
  check_round_trip(std::optional<std::variant<std::monostate, std::nullptr_t>>{nullptr});
}

TEST_CASE("an enum without a described name for its value is refused") {
  CHECK(write_refusal(std::vector{static_cast<Status>(9)}) ==
        "/0: not one of the described values");
}

TEST_CASE("a time is written in UTC with nanoseconds and read with any offset") {
  const auto time = [](std::string_view text) {
    return value::decode<TimePoint>('"' + std::string(text) + '"', Mode::boundary);
  };
  const TimePoint noon = time("2026-01-31T12:00:00Z");

  check_text(TimePoint{}, R"("1970-01-01T00:00:00.000000000Z")");
  check_text(TimePoint{} - 1ns, R"("1969-12-31T23:59:59.999999999Z")");
  check_text(noon + 5ns, R"("2026-01-31T12:00:00.000000005Z")");
  check_text(TimePoint::max(), R"("2262-04-11T23:47:16.854775807Z")");
  check_text(TimePoint::min(), R"("1677-09-21T00:12:43.145224192Z")");
  check_text(std::chrono::sys_seconds{253402300799s}, R"("9999-12-31T23:59:59.000000000Z")");
  CHECK(time("2026-01-31t13:30:00.5+01:30") == noon + 500ms);
  CHECK(time("2026-01-31T11:59:00.000-00:01") == noon);
  CHECK(time("2024-02-29T00:00:00z").time_since_epoch() == 1709164800s);
  CHECK(refusal<TimePoint>(R"("2300-01-01T00:00:00Z")") == ": not in range of a time");
  CHECK(refusal<std::chrono::sys_seconds>(R"("2026-01-31T12:00:00.5Z")") ==
        ": finer than this time is kept");
  CHECK(write_refusal(std::chrono::sys_seconds::max()) == "/: not in range of a time");
  for (const std::string_view bad :
       {"", "2026-01-31", "2026-01-31T12:00:00", "2026-02-30T12:00:00Z", "2026-13-01T12:00:00Z",
        "2026-00-01T12:00:00Z", "2026-01-31T24:00:00Z", "2026-01-31T12:60:00Z",
        "2026-01-31T12:00:60Z", "2026-01-31T12:00:00.Z", "2026-01-31T12:00:00.1234567890Z",
        "2026-01-31T12:00:00ZZ", "2026-01-31T12:00:00+1:00", "2026-01-31T12:00:00+24:00",
        "26-01-31T12:00:00Z", "2026-1-31T12:00:00Z", "+026-01-31T12:00:00Z"}) {
    CAPTURE(bad);
    CHECK(refusal<TimePoint>('"' + std::string(bad) + '"') ==
          ": expected a time such as 2026-01-31T12:00:00Z");
  }
}

TEST_CASE("Json keeps kinds, members' order and every digit that 64 bits hold") {
  const auto kinds = std::to_array<std::pair<const char*, boost::json::kind>>({
      {"0", boost::json::kind::int64},
      {"-9223372036854775808", boost::json::kind::int64},
      {"9223372036854775807", boost::json::kind::int64},
      {"9223372036854775808", boost::json::kind::uint64},
      {"18446744073709551615", boost::json::kind::uint64},
      {"1.0", boost::json::kind::double_},
      {"1e+30", boost::json::kind::double_},
      {"null", boost::json::kind::null},
      {"false", boost::json::kind::bool_},
      {R"("")", boost::json::kind::string},
      {"[]", boost::json::kind::array},
      {"{}", boost::json::kind::object},
      {R"({"b":[1,{"a":null,"":2.5}],"a":"\u0000","c":[[],{}]})", boost::json::kind::object},
  });
  for (const auto& [text, kind] : kinds) {
    CAPTURE(text);
    const Json json = value::from_text(text);
    CHECK(json.kind() == kind);
    CHECK(value::to_text(json) == text);
  }
  CHECK(value::from_text("18446744073709551616").as_double() == 18446744073709551616.0);
  CHECK(value::from_text("-9223372036854775809").is_double());
  CHECK(value::to_text(Json(std::uint64_t{5})) == "5");
}

TEST_CASE("only JSON is read") {
  const auto bad = std::to_array<std::string>({
      "",
      " ",
      "01",
      "-01",
      "00",
      "-",
      "+1",
      ".5",
      "1.",
      "1.e3",
      "1e",
      "1e+",
      "0x10",
      "NaN",
      "Infinity",
      "-Infinity",
      "nul",
      "nulll",
      "True",
      "truefalse",
      "'a'",
      "\"",
      "\"a",
      R"("\")",
      R"("\x41")",
      R"("\u12")",
      R"("\u12g4")",
      R"("\u-123")",
      R"("\ud800")",
      R"("\ud800x")",
      R"("\ud800\n")",
      R"("\ud800\u0041")",
      R"("\ud800\ud800")",
      R"("\udc00")",
      R"("\U0041")",
      "\"\n\"",
      "\"\t\"",
      "\"\0\""s,
      "\"\x1f\"",
      "[",
      "]",
      "[1",
      "[1,",
      "[1,]",
      "[,1]",
      "[1 2]",
      "[1}",
      "{",
      "}",
      "{\"a\"",
      "{\"a\":",
      "{\"a\":1",
      "{\"a\":1,",
      "{\"a\":1,}",
      "{,}",
      "{\"a\" 1}",
      "{a:1}",
      "{1:1}",
      R"({"a":1 "b":2})",
      "{\"a\":1]",
      "\xEF\xBB\xBF"
      "1",
      "1 2",
      "1,",
      "{}[]",
      "// comment\n1",
      "1 // comment",
      "/**/1",
      "1\0"s,
      "\x0c"
      "1",
      "\xA0",
  });
  for (const std::string& text : bad) {
    CAPTURE(text);
    CHECK(refusal<Json>(text).find("not JSON at byte ") != std::string::npos);
    CHECK(refusal<Nothing>(R"({"x":)" + text + "}", Mode::journal).find("not JSON at byte ") !=
          std::string::npos);
    CHECK_THROWS_AS(value::canonical(text), ValidationError);
    CHECK_THROWS_AS(value::from_text(text), ValidationError);
  }
}

TEST_CASE("spaces are allowed where JSON allows them") {
  CHECK(value::canonical(" \t\r\n{ \"a\" : [ 1 , 2 ] , \"b\" : { } } \n") ==
        R"({"a":[1,2],"b":{}})");
  CHECK(value::decode<std::vector<int>>(" [ 1 , 2 ] ", Mode::boundary) == std::vector{1, 2});
  CHECK(value::decode<int>("\n1\n", Mode::boundary) == 1);
}

TEST_CASE("texts nested too deeply are refused, and never written") {
  CHECK(refusal<Json>(nested(64)) == "accepted");
  CHECK(refusal<Json>(nested(65)).ends_with(": nested too deeply"));
  CHECK(refusal<Json>(nested(256), Mode::journal) == "accepted");
  CHECK(refusal<Json>(nested(257), Mode::journal).ends_with(": nested too deeply"));
  CHECK(refusal<Nothing>(R"({"x":)" + nested(100'000) + "}", Mode::journal) ==
        ": nested too deeply");
  CHECK(refusal<std::variant<int, Json>>(nested(65)).ends_with(": nested too deeply"));

  const Json deep = value::from_text(nested(129));
  CHECK(write_refusal(deep).ends_with(": nested too deeply"));
  CHECK(write_refusal(deep.at(0)) == "written");
  CHECK(!base::try_canonical(nested(100'000)));
}

TEST_CASE("a reader's depth can be chosen") {
  value::Reader shallow{"[[1]]", Mode::boundary, 1};
  Json out;
  CHECK(!shallow.json(out));
  CHECK(shallow.misfit() == Misfit{"/0", "nested too deeply"});
}

TEST_CASE("texts that mean the same have one canonical text") {
  const auto same = std::to_array<std::vector<std::string>>({
      {"1", "1.0", "1e0", "10e-1", "0.1e1", "1E+0", "100e-2", "1.000"},
      {"0", "-0", "0.0", "-0.0", "0e5", "-0e-5", "0e99999999999999999999"},
      {"120", "12e1", "1.2e2", "120.0", "1200e-1"},
      {"-1.5", "-15e-1", "-0.15e1", "-1.50"},
      {"1e30", "1000000000000000000000000000000", "1e+30", "10e29"},
      {"1e21", "1000000000000000000000"},
      {"1e20", "100000000000000000000"},
      {"0.001", "1e-3", "0.1e-2"},
      {"9007199254740993", "9007199254740993.0", "9007199254740993000e-3"},
      {R"("A")", R"("\u0041")"},
      {R"("/")", R"("\/")"},
      {"\"\U0001F600\"", R"("\ud83d\ude00")"},
      {R"("\n\u007f")", R"("\u000a\u007F")", "\"\\n\x7f\""},
      {R"({"a":1,"b":2})", R"({"b":2,"a":1})", R"( { "b" : 2.0 , "\u0061" : 10e-1 } )"},
      {R"({"a":{"x":1,"y":[]},"b":{}})", R"({"b":{},"a":{"y":[],"x":1}})"},
      {"{}", "{ }"},
      {"[]", "[ ]"},
      {"[true,false,null]", "[ true , false , null ]"},
  });
  std::set<std::string> seen;
  for (const auto& group : same) {
    const std::string canonical = value::canonical(group.front());
    CAPTURE(canonical);
    for (const std::string& text : group) {
      CAPTURE(text);
      CHECK(value::canonical(text) == canonical);
    }
    CHECK(value::canonical(canonical) == canonical);
    CHECK(seen.insert(canonical).second);
  }
}

TEST_CASE("texts that mean different things have different canonical texts") {
  const auto texts = std::to_array<const char*>({
      "9007199254740992",
      "9007199254740993",
      "9007199254740993.1",
      "123456789012345678901234567890",
      "123456789012345678901234567891",
      "0.1",
      "0.10000000000000000555",
      "1e1",
      "1e-2",
      "1e999999",
      "1e999998",
      "-1",
      "1",
      R"("1")",
      "\"\u00e9\"",
      "\"e\u0301\"",
      "null",
      "[]",
      "{}",
      "[null]",
      R"({"a":null})",
      "[1,2]",
      "[2,1]",
      "[12]",
      "[[1],2]",
      "[[1,2]]",
      R"({"a":{"b":1},"c":2})",
      R"({"a":{"b":1,"c":2}})",
  });
  std::set<std::string> seen;
  for (const std::string text : texts) {
    CAPTURE(text);
    CHECK(seen.insert(value::canonical(text)).second);
  }
}

TEST_CASE("canonical texts sort members by bytes and stay readable") {
  CHECK(value::canonical(R"({"b":1,"a":2,"B":3,"":4,"é":5,"aa":6,"\u0000":7})") ==
        R"({"":4,"\u0000":7,"B":3,"a":2,"aa":6,"b":1,"é":5})");
  CHECK(value::canonical("[1.50,-12e1,1e21,1e-7,12345678901234567890123]") ==
        "[1.5,-120,1e21,1e-7,12345678901234567890123]");
}

TEST_CASE("a text that repeats a member or has a huge exponent has no canonical text") {
  CHECK(!base::try_canonical(R"({"a":1,"a":1})"));
  CHECK(!base::try_canonical(R"({"a":1,"b":2,"\u0061":1})"));
  CHECK(!base::try_canonical(R"([{"b":{"z":1,"a":1,"z":1}}])"));
  CHECK(!base::try_canonical("1e1000000001"));
  CHECK(!base::try_canonical("1e-99999999999999999999"));
  CHECK_THROWS_WITH_AS(value::canonical(R"([{"b":{"z":1,"a":1,"z":1}}])"),
                       "/0/b/z: member repeated", ValidationError);
}

TEST_CASE("a value and a text that decodes to it have one canonical text") {
  const Item item{.sku = "a", .qty = 2, .price = 3.0};
  CHECK(value::canonical_of(item) == R"({"price":3,"qty":2,"sku":"a"})");
  CHECK(value::canonical_of(Item{.sku = "a", .qty = 2, .price = {}}) == R"({"qty":2,"sku":"a"})");
  for (const char* text : {R"({"qty":2,"sku":"a","price":null})", R"({"sku":"a","qty":2.0})"}) {
    CHECK(value::canonical_of(value::decode<Item>(text, Mode::boundary)) ==
          R"({"qty":2,"sku":"a"})");
  }
}

TEST_CASE("random Json survives its text and its canonical text") {
  std::mt19937_64 random{5};
  const auto make = [&random](const auto& self, int depth) -> Json {
    const auto string = [&random] {
      std::string out;
      for (std::size_t i = random() % 12; i > 0; --i) {
        base::append_utf8(out, static_cast<char32_t>(random() % (random() % 2 ? 0x80 : 0xD000)));
      }
      return out;
    };
    switch (random() % (depth > 0 ? 8 : 6)) {
      case 0:
        return nullptr;
      case 1:
        return random() % 2 == 0;
      case 2:
        return static_cast<std::int64_t>(random());
      case 3:
        return random() | (std::uint64_t{1} << 63);
      case 4:
        return static_cast<double>(random()) / static_cast<double>(random() | 1);
      case 5:
        return boost::json::string(string());
      case 6: {
        boost::json::array out;
        for (std::size_t i = random() % 6; i > 0; --i) out.push_back(self(self, depth - 1));
        return out;
      }
      default: {
        boost::json::object out;
        for (std::size_t i = random() % 6; i > 0; --i) out[string()] = self(self, depth - 1);
        return out;
      }
    }
  };
  for (int i = 0; i < 5'000; ++i) {
    const Json json = make(make, 4);
    const std::string text = value::to_text(json);
    REQUIRE(value::from_text(text) == json);
    REQUIRE(value::to_text(value::from_text(text)) == text);
    const std::string canonical = value::canonical(text);
    REQUIRE(value::canonical(canonical) == canonical);
    REQUIRE(value::canonical(value::to_text(value::from_text(canonical))) == canonical);
  }
}

TEST_CASE("no prefix and no changed byte of a text makes the reader misbehave") {
  const std::string text =
      R"({"tenant":"t\u00e9\ud83d\ude00","items":[{"sku":"a","qty":1,"price":-1.5e3}],)"
      R"("status":"paid","notes":{"k":7},"reference":{"$alternative":1,"value":"x"}})";
  Order order;
  Json json;
  std::mt19937_64 random{6};
  for (std::size_t length = 0; length < text.size(); ++length) {
    // A copy of exactly that size: reading past its end is an error that sanitizers see.
    const std::vector<char> prefix(text.begin(),
                                   text.begin() + static_cast<std::ptrdiff_t>(length));
    CHECK(value::try_decode({prefix.data(), length}, order, Mode::journal).has_value());
    CHECK(value::try_decode({prefix.data(), length}, json, Mode::boundary).has_value());
  }
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = text;
    for (std::size_t n = random() % 3 + 1; n > 0; --n) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    const bool is_order = !value::try_decode(changed, order, Mode::boundary);
    const bool is_json = !value::try_decode(changed, json, Mode::boundary);
    CHECK((is_json || !is_order));
  }
}

}  // namespace semel
