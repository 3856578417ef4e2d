#include "idempotency/fingerprint.hpp"

#include <semel/value.hpp>

#include <doctest/doctest.h>

#include <array>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace semel::idempotency {

using namespace std::string_literals;

TEST_CASE("SHA-256 is the one of the standard") {
  CHECK(sha256_hex(""s) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc"s) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abc").size() == 32);
  const std::array abc{std::byte{'a'}, std::byte{'b'}, std::byte{'c'}};
  CHECK(sha256_hex(abc) == sha256_hex("abc"s));
}

TEST_CASE("a fingerprint is stored, so it never changes") {
  CHECK(sha256_hex(start_fingerprint("fulfil", R"([{"id":"7"}])")) ==
        "0de261d43a15cf11f01f31a7838e9fce0e6bc6724350f72076173f1f39082768");
  CHECK(Fingerprint{}.add("a").add("").digest() ==
        sha256("\x0a\0\0\0\0\0\0\0semel-fp-1\x01\0\0\0\0\0\0\0a\0\0\0\0\0\0\0\0"s));
}

TEST_CASE("parts do not run into each other") {
  std::set<std::string> seen;
  CHECK(seen.insert(Fingerprint{}.digest()).second);
  CHECK(seen.insert(Fingerprint{}.add("").digest()).second);
  CHECK(seen.insert(Fingerprint{}.add("").add("").digest()).second);
  CHECK(seen.insert(Fingerprint{}.add("ab").add("c").digest()).second);
  CHECK(seen.insert(Fingerprint{}.add("a").add("bc").digest()).second);
  CHECK(seen.insert(Fingerprint{}.add("abc").digest()).second);
  CHECK(seen.insert(start_fingerprint("a", "[]")).second);
  CHECK(seen.insert(start_fingerprint("b", "[]")).second);
  CHECK(seen.insert(start_fingerprint("a", "[1]")).second);
}

TEST_CASE("a digest can be taken while parts are still added, here and elsewhere") {
  Fingerprint first;
  Fingerprint second;
  first.add("a");
  second.add("b");
  const std::string a = first.digest();
  CHECK(second.digest() == Fingerprint{}.add("b").digest());
  CHECK(first.digest() == a);
  CHECK(first.add("c").digest() == Fingerprint{}.add("a").add("c").digest());
}

TEST_CASE("JSON that means the same has the same fingerprint") {
  const auto of = [](std::string_view json) { return Fingerprint{}.add_json(json).digest(); };
  CHECK(of(R"({"a":1,"b":[1.0]})") == of(R"({ "b":[10e-1], "a":1e0 })"));
  CHECK(of("9007199254740993") != of("9007199254740992"));
  CHECK(of("\"\u00e9\"") != of("\"e\u0301\""));
}

TEST_CASE("what is not canonical JSON counts byte by byte and never as JSON") {
  CHECK(canonical_or_raw(R"({"b":1, "a":1.0})") == R"(c{"a":1,"b":1})");
  CHECK(canonical_or_raw(R"({"a":1, "a":1})") == R"(r{"a":1, "a":1})");
  CHECK(canonical_or_raw("hello") == "rhello");
  CHECK(canonical_or_raw("") == "r");
  CHECK(canonical_or_raw("\xFF") == "r\xFF");
}

TEST_CASE("C++ values and JSON texts of the same arguments start with the same fingerprint") {
  using Arguments = std::tuple<int, std::optional<std::string>, double>;
  const Arguments from_cpp{1, std::nullopt, 2};
  const auto from_http = value::decode<Arguments>("[1.0, null, 2]", value::Mode::boundary);
  CHECK(start_fingerprint("f", value::canonical_of(from_cpp)) ==
        start_fingerprint("f", value::canonical_of(from_http)));
}

TEST_CASE("threads take fingerprints at the same time") {
  const std::string expected = start_fingerprint("f", "[1]");
  std::array<bool, 4> is_equal{};
  std::vector<std::jthread> threads;
  threads.reserve(is_equal.size());
  for (bool& result : is_equal) {
    threads.emplace_back([&] {
      result = true;
      for (int i = 0; i < 1000; ++i) result = result && start_fingerprint("f", "[1]") == expected;
    });
  }
  threads.clear();
  CHECK(is_equal == std::array{true, true, true, true});
}

}  // namespace semel::idempotency
