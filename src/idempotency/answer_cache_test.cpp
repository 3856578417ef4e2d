#include "idempotency/answer_cache.hpp"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

namespace semel::idempotency {

namespace {

using namespace std::chrono_literals;

TimePoint at(std::chrono::nanoseconds after) {
  return TimePoint{std::chrono::duration_cast<TimePoint::duration>(1'700'000'000s + after)};
}

store::ReservationId id_of(const std::string& key) { return {.ns = "n", .key = key}; }

FinishedAnswer answer(const std::string& text) {
  return {.bytes = std::make_shared<const std::string>(text), .expires_at = at(1h)};
}

std::string found(AnswerCache& cache, const std::string& key, const std::string& fingerprint = "f",
                  TimePoint now = at(0s)) {
  const auto hit = cache.find(id_of(key), fingerprint, now);
  return hit ? *hit->bytes : "nothing";
}

}  // namespace

TEST_CASE("an answer is served to its own fingerprint until it expires") {
  AnswerCache cache{10'000};
  cache.put(id_of("k"), "f", answer("1"), cache.ticket(id_of("k")));

  CHECK(found(cache, "k") == "1");
  CHECK(found(cache, "k", "g") == "nothing");
  CHECK(found(cache, "l") == "nothing");
  CHECK(found(cache, "k", "f", at(1h - 1ns)) == "1");
  CHECK(found(cache, "k", "f", at(1h)) == "nothing");
  CHECK(cache.bytes() == 0);
}

TEST_CASE("what was removed is not served, and an answer from before the removal is not kept") {
  AnswerCache cache{10'000};
  const auto before = cache.ticket(id_of("k"));
  cache.put(id_of("k"), "f", answer("1"), before);
  cache.remove(id_of("k"));
  CHECK(found(cache, "k") == "nothing");

  cache.put(id_of("k"), "f", answer("late"), before);
  CHECK(found(cache, "k") == "nothing");
  cache.put(id_of("k"), "f", answer("2"), cache.ticket(id_of("k")));
  CHECK(found(cache, "k") == "2");

  const auto before_clear = cache.ticket(id_of("k"));
  cache.clear();
  CHECK(found(cache, "k") == "nothing");
  cache.put(id_of("k"), "f", answer("late"), before_clear);
  CHECK(found(cache, "k") == "nothing");
}

TEST_CASE("it keeps to its bytes, and what was used last stays") {
  AnswerCache cache{4'000};
  cache.put(id_of("hot"), "f", answer("h"), cache.ticket(id_of("hot")));
  for (int i = 0; i < 100; ++i) {
    cache.put(id_of(std::to_string(i)), "f", answer(std::string(500, 'x')),
              cache.ticket(id_of(std::to_string(i))));
    CHECK(cache.bytes() <= 4'000);
    CHECK(found(cache, "hot") == "h");
  }
  CHECK(found(cache, "99") != "nothing");
  CHECK(found(cache, "0") == "nothing");

  cache.put(id_of("large"), "f", answer(std::string(5'000, 'x')), cache.ticket(id_of("large")));
  CHECK(found(cache, "large") == "nothing");
  CHECK(found(cache, "hot") == "h");
}

TEST_CASE("an answer put in anew replaces the one before it") {
  AnswerCache cache{10'000};
  cache.put(id_of("k"), "f", answer("1"), cache.ticket(id_of("k")));
  const std::size_t bytes = cache.bytes();
  cache.put(id_of("k"), "g", answer("2"), cache.ticket(id_of("k")));

  CHECK(found(cache, "k") == "nothing");
  CHECK(found(cache, "k", "g") == "2");
  CHECK(cache.bytes() == bytes);
}

TEST_CASE("threads use it at the same time") {
  AnswerCache cache{20'000};
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&cache] {
      for (int i = 0; i < 2'000; ++i) {
        const std::string key = std::to_string(i % 50);
        cache.put(id_of(key), "f", answer(key), cache.ticket(id_of(key)));
        if (const auto hit = cache.find(id_of(key), "f", at(0s))) CHECK(*hit->bytes == key);
        if (i % 7 == 0) cache.remove(id_of(key));
      }
    });
  }
  threads.clear();
  CHECK(cache.bytes() <= 20'000);
}

}  // namespace semel::idempotency
