// JSON as text: what is read, what is refused, what is the same.
#include "base/value_fixture.hpp"

namespace semel {

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
