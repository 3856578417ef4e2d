#include "journal/entry.hpp"

#include "base/random.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace semel::journal {
namespace {

using base::SeededRandom;

constexpr int arrival_kinds = 19;
constexpr int request_kinds = 22;

std::string random_string(SeededRandom& random) {
  const std::size_t size = random.one_in(20) ? random.below(400) : random.below(12);
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text.push_back(static_cast<char>(random.next()));
  return text;
}

/// Small, large and negative ones, and the two ends of the range.
std::uint64_t random_number(SeededRandom& random) { return random.next() >> random.below(65) % 64; }

TimePoint random_time(SeededRandom& random) {
  const auto ns = std::chrono::nanoseconds{static_cast<std::int64_t>(random_number(random))};
  return TimePoint{random.one_in(2) ? ns : -ns};
}

Failure random_failure(SeededRandom& random) {
  Failure failure;
  if (random.one_in(2)) failure.code = random_string(random);
  if (random.one_in(2)) failure.message = random_string(random);
  if (random.one_in(2)) failure.details = random_string(random);
  if (random.one_in(2)) failure.name = random_string(random);
  if (random.one_in(2)) failure.op = random_string(random);
  if (random.one_in(2)) failure.attempts = static_cast<std::uint32_t>(random_number(random));
  return failure;
}

Request random_request(SeededRandom& random) {
  Request request;
  request.kind = static_cast<RequestKind>(1 + random.below(request_kinds));
  if (random.one_in(2)) request.op = random_string(random);
  if (random.one_in(2)) request.name = random_string(random);
  if (random.one_in(2)) request.value = random_string(random);
  if (random.one_in(2)) request.at = random_time(random);
  if (random.one_in(2)) request.attempt = static_cast<std::uint32_t>(random_number(random));
  if (random.one_in(2)) request.hash = random_number(random);
  if (random.one_in(4)) request.failure = random_failure(random);
  request.at_most_once = random.one_in(4);
  return request;
}

Entry random_entry(SeededRandom& random) {
  Entry entry;
  entry.arrival.kind = static_cast<ArrivalKind>(random.below(arrival_kinds));
  if (random.one_in(2)) entry.arrival.op = random_string(random);
  if (random.one_in(2)) entry.arrival.name = random_string(random);
  if (random.one_in(2)) entry.arrival.attempt = static_cast<std::uint32_t>(random_number(random));
  if (random.one_in(2)) entry.arrival.value = random_string(random);
  if (random.one_in(4)) entry.arrival.failure = random_failure(random);
  if (random.one_in(2)) entry.arrival.at = random_time(random);
  for (std::uint64_t i = random.below(8); i > 5; --i) {
    entry.arrival.ops.push_back(
        {random_string(random), static_cast<std::uint32_t>(random_number(random))});
  }
  entry.arrival.counted = random.one_in(4);
  if (random.one_in(4)) entry.arrival.at_seq = random_number(random);
  for (std::uint64_t i = random.below(4); i > 0; --i)
    entry.requests.push_back(random_request(random));
  return entry;
}

Entry step_after_step() {
  Entry entry;
  entry.arrival = {.kind = ArrivalKind::step_completed,
                   .op = "1",
                   .name = "pack",
                   .attempt = 1,
                   .value = "true"};
  entry.requests.push_back(
      {.kind = RequestKind::step, .op = "2", .name = "ship", .attempt = 1, .hash = 0x12345678});
  return entry;
}

TEST_CASE("an entry reads back as it was written") {
  SeededRandom random{1};
  for (int i = 0; i < 20'000; ++i) {
    const Entry entry = random_entry(random);

    const auto decoded = decode(encode(entry));

    REQUIRE(decoded);
    REQUIRE(*decoded == entry);
  }
}

TEST_CASE("a small entry takes little more than its strings") {
  const std::string bytes = encode(step_after_step());

  const std::size_t strings = std::string_view{"1packtrue2ship"}.size();
  CHECK(bytes.size() <= strings + 22);
}

TEST_CASE("the bytes of format 1 never change") {
  Entry entry = step_after_step();
  entry.arrival.at = TimePoint{std::chrono::nanoseconds{-2}};

  const std::string expected{
      "\x01\x02\x2f\x01"
      "1\x04pack\x01\x04true\x03\x01\x01\x0f\x01"
      "2\x04ship\x01\x78\x56\x34\x12\0\0\0\0",
      36};
  CHECK(encode(entry) == expected);
}

TEST_CASE("an entry that was cut off is corrupt at every length") {
  SeededRandom random{2};
  for (int i = 0; i < 300; ++i) {
    const std::string bytes = encode(random_entry(random));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const std::vector<char> exact{bytes.begin(),
                                    bytes.begin() + static_cast<std::ptrdiff_t>(size)};

      const auto decoded = decode({exact.data(), exact.size()});

      REQUIRE_FALSE(decoded);
      REQUIRE(decoded.error().code == base::Errc::corrupt);
    }
  }
}

TEST_CASE("an entry with something behind it is corrupt") {
  const auto decoded = decode(encode(step_after_step()) + '\0');

  REQUIRE_FALSE(decoded);
  CHECK(decoded.error().message ==
        "these bytes are not a journal entry: something follows its end");
}

TEST_CASE("any bytes decode or are corrupt, and never more than that") {
  SeededRandom random{3};
  int valid = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string bytes;
    if (random.one_in(
            2)) {  // a valid entry with a few bytes changed reaches further than noise does
      bytes = encode(random_entry(random));
      for (std::uint64_t n = random.below(3) + 1; n > 0; --n) {
        bytes[random.below(bytes.size())] = static_cast<char>(random.next());
      }
    } else {
      bytes = random_string(random);
      if (!bytes.empty()) bytes[0] = 1;
    }
    const std::vector<char> exact{bytes.begin(), bytes.end()};

    const auto decoded = decode({exact.data(), exact.size()});

    if (decoded) {
      ++valid;
      const auto again = decode(encode(*decoded));
      REQUIRE(again);
      REQUIRE(*again == *decoded);
    } else {
      REQUIRE(decoded.error().code == base::Errc::corrupt);
    }
  }
  CHECK(valid > 1000);
}

TEST_CASE("an entry of a later format is refused as such") {
  std::string bytes = encode(step_after_step());
  bytes[0] = 2;

  const auto decoded = decode(bytes);

  REQUIRE_FALSE(decoded);
  CHECK(decoded.error().message == "these bytes are not a journal entry: its format is unknown");
}

TEST_CASE("a failure alone reads back as it was written") {
  SeededRandom random{4};
  for (int i = 0; i < 2'000; ++i) {
    const Failure failure = random_failure(random);
    const std::string bytes = encode(failure);

    REQUIRE(decode_failure(bytes));
    CHECK(*decode_failure(bytes) == failure);
    CHECK_FALSE(decode_failure(bytes + '\0'));
  }
  CHECK_FALSE(decode_failure(""));
}

TEST_CASE("every kind has a name of its own") {
  std::vector<std::string_view> names;
  for (int kind = 0; kind < arrival_kinds; ++kind)
    names.push_back(to_string(static_cast<ArrivalKind>(kind)));
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(names[i] != "unknown");
    for (std::size_t j = 0; j < i; ++j) CHECK(names[i] != names[j]);
  }
  CHECK(to_string(ArrivalKind::outcome) == "outcome");
  CHECK(to_string(ArrivalKind::limit_reached) == "limit_reached");
  CHECK(to_string(static_cast<ArrivalKind>(arrival_kinds)) == "unknown");
  CHECK(to_string(static_cast<RequestKind>(0)) == "unknown");
  CHECK(to_string(RequestKind::step) == "step");
  CHECK(to_string(RequestKind::cancelled) == "cancelled");
  CHECK(to_string(static_cast<RequestKind>(request_kinds + 1)) == "unknown");
}

TEST_CASE("a run ends by an arrival from outside or by its last request") {
  Entry entry = step_after_step();
  CHECK_FALSE(ends_run(entry));

  entry.requests.push_back({.kind = RequestKind::completed});
  CHECK(ends_run(entry));

  CHECK(ends_run(Entry{.arrival = {.kind = ArrivalKind::timed_out}}));
  CHECK_FALSE(ends_run(Entry{.arrival = {.kind = ArrivalKind::outcome}}));
}

}  // namespace
}  // namespace semel::journal
