// Values of every kind, to text and back.
#include "base/value_fixture.hpp"

namespace semel {

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
  CHECK(value::decode<Extremes>("{}", Mode::journal) == Extremes{});
  CHECK(value::decode<Extremes>(R"({"sample":{"qty":8}})", Mode::journal).sample ==
        Item{.sku = "sample", .qty = 8, .price = {}});
  CHECK(refusal<Extremes>("{}") == "/seconds: required");
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
  Extremes limits;
  limits.attempts.reset();

  check_text(limits,
             R"({"attempts":null,"seconds":60,"sample":{"sku":"sample","qty":7,"price":2.5}})");
  limits.sample.price.reset();
  CHECK(value::decode<Extremes>(value::encode(limits), Mode::boundary) == limits);
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

}  // namespace semel
