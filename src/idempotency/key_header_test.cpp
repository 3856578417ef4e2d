#include "idempotency/key_header.hpp"

#include <doctest/doctest.h>

#include <array>
#include <utility>
#include <vector>

namespace semel::idempotency {

using namespace std::string_literals;

TEST_CASE("a key is taken bare or quoted, and means the same") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"abc", "abc"},
      {"\"abc\"", "abc"},
      {"  abc\t", "abc"},
      {" \"abc\" ", "abc"},
      {"8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"},
      {"a;b=c", "a;b=c"},
      {"!~", "!~"},
      {"\\", "\\"},
      {"\"a b\"", "a b"},
      {"\" \"", " "},
      {"\"a,b\"", "a,b"},
      {R"("a\"b\\c")", R"(a"b\c)"},
      {"\"abc\";v=1", "abc"},
      {"\"abc\"; v=\"a,\\\"b\"; w", "abc"},
      {"ABC", "ABC"},
  };
  for (const auto& [value, key] : cases) {
    CAPTURE(value);
    const auto parsed = parse_key(value);
    REQUIRE(parsed);
    CHECK(*parsed == key);
  }
}

TEST_CASE("a header that is no key is refused") {
  const std::vector<std::string> cases{"",
                                       "   ",
                                       "\"\"",
                                       "a b",
                                       "a,b",
                                       "a, b",
                                       "\"a\", \"b\"",
                                       "\"abc",
                                       "abc\"",
                                       "a\"b",
                                       "\"a\\\"",
                                       "\"a\\n\"",
                                       "\"a\\",
                                       "\"",
                                       "\"a\"b",
                                       "\"a\" ;v",
                                       "\"a\";v=\"",
                                       "\"a\";v,w",
                                       "\x7F",
                                       "\"a\x7F\"",
                                       "a\x01z",
                                       "\"a\tb\"",
                                       "a\tb",
                                       "\xC3\xA9",
                                       "\"\xC3\xA9\"",
                                       "\"a\";v=\xC3\xA9",
                                       "a\0b"s};
  for (const std::string& value : cases) {
    CAPTURE(value);
    CHECK_FALSE(parse_key(value));
  }
}

TEST_CASE("a key has up to 255 characters, counted decoded") {
  CHECK(parse_key(std::string(255, 'k')));
  CHECK_FALSE(parse_key(std::string(256, 'k')));
  CHECK(parse_key("\"" + std::string(255, 'k') + "\""));
  CHECK_FALSE(parse_key("\"" + std::string(256, 'k') + "\""));
  std::string escaped;
  for (int i = 0; i < 255; ++i) escaped += "\\\\";
  CHECK(parse_key("\"" + escaped + "\""));
  CHECK_FALSE(parse_key("\"" + escaped + "x\""));
}

TEST_CASE("the header comes once or not at all") {
  CHECK(parse_key_lines({}).value() == std::nullopt);
  const std::array<std::string_view, 1> one{"abc"};
  CHECK(parse_key_lines(one).value() == "abc");
  const std::array<std::string_view, 2> same{"abc", "abc"};
  CHECK_FALSE(parse_key_lines(same));
  const std::array<std::string_view, 1> empty{""};
  CHECK_FALSE(parse_key_lines(empty));
}

}  // namespace semel::idempotency
