#include "engine/round.hpp"

#include <doctest/doctest.h>

#include <optional>

namespace semel::engine {

namespace {

using Told = std::optional<base::Result<store::Answer>>;

Aside reserve(const std::string& key, Told& told) {
  return {store::Reserve{.id = {.key = key}, .begins_early = true},
          [&told](base::Result<store::Answer> answer) { told = std::move(answer); }};
}

std::vector<Aside> asides(const std::string& key, Told& told) {
  std::vector<Aside> asides;
  asides.push_back(reserve(key, told));
  return asides;
}

std::vector<Aside> nothing_more(std::size_t, std::chrono::nanoseconds) { return {}; }

}  // namespace

TEST_CASE(
    "the transaction fails before somebody heard that it may begin: the store owes it nothing") {
  std::vector<store::Command> own;
  Told told;
  Round round{own, asides("a", told), [] { return TimePoint{}; }, nothing_more};
  round.next();
  round.executed(store::Acquired{.fence = 7});

  base::Result<std::vector<store::Answer>> failed = base::Fault{base::Errc::refused, "full"};
  round.finish(failed);
  const auto owed = round.take_begun();
  round.reply();

  CHECK(owed.empty());
  REQUIRE(told);
  CHECK_FALSE(*told);
}

TEST_CASE(
    "the transaction fails behind somebody who began: the store owes it the key under its fence") {
  std::vector<store::Command> own(1, store::Sweep{});
  Told told;
  Round round{own, asides("a", told), [] { return TimePoint{}; }, nothing_more};
  REQUIRE(round.next().size() == 2);
  round.executed(store::Swept{});
  round.executed(store::Acquired{.fence = 7});
  CHECK_FALSE(told);

  CHECK(round.next().empty());
  CHECK(told);
  base::Result<std::vector<store::Answer>> failed = base::Fault{base::Errc::unavailable, "disk"};
  round.finish(failed);
  const auto owed = round.take_begun();
  round.reply();

  CHECK(own.size() == 1);
  REQUIRE(owed.size() == 1);
  CHECK(owed.front().id.key == "a");
  CHECK(owed.front().lost_fence == 7);
  CHECK(told->has_value());
}

TEST_CASE("a round waits for those at work in it, and for nobody else") {
  std::vector<store::Command> own;
  std::vector<std::size_t> wanted;
  Told reserved;
  Told completed;
  const auto more = [&](std::size_t count, std::chrono::nanoseconds) {
    wanted.push_back(count);
    std::vector<Aside> more;
    if (wanted.size() == 1) {
      more.push_back({store::Complete{.id = {.key = "a"}, .fence = 7},
                      [&](base::Result<store::Answer> answer) { completed = std::move(answer); }});
      more.push_back(reserve("b", reserved));
    }
    return more;
  };
  Told first;
  Round round{own, asides("a", first), [] { return TimePoint{}; }, more};
  round.next();
  round.executed(store::Acquired{.fence = 7});
  REQUIRE(round.next().size() == 2);
  round.executed(store::Done{});
  round.executed(store::KeyReused{});
  CHECK(round.next().empty());

  CHECK(wanted == std::vector<std::size_t>{1, 1});
  CHECK_FALSE(reserved);
  CHECK_FALSE(completed);
  base::Result<std::vector<store::Answer>> answers =
      std::vector<store::Answer>{store::Acquired{.fence = 7}, store::Done{}, store::KeyReused{}};
  round.finish(answers);
  round.reply();
  CHECK(std::holds_alternative<store::Done>(**completed));
  CHECK(std::holds_alternative<store::KeyReused>(**reserved));
  CHECK(answers->empty());
}

TEST_CASE("a round is committed when as many wait for it as are still at work in it") {
  std::vector<store::Command> own;
  std::vector<Told> told(4);
  std::vector<Aside> four;
  for (std::size_t i = 0; i < told.size(); ++i) four.push_back(reserve(std::to_string(i), told[i]));
  std::vector<std::size_t> wanted;
  const auto more = [&](std::size_t count, std::chrono::nanoseconds) {
    wanted.push_back(count);
    std::vector<Aside> completions;
    for (std::size_t i = 0; wanted.size() == 1 && i < count; ++i)
      completions.push_back({store::Complete{.fence = 7}, [](const auto&) {}});
    return completions;
  };
  Round round{own, std::move(four), [] { return TimePoint{}; }, more};
  round.next();
  for (std::size_t i = 0; i < told.size(); ++i) round.executed(store::Acquired{.fence = 7});

  REQUIRE(round.next().size() == 2);
  round.executed(store::Done{});
  round.executed(store::Done{});
  // What has come meanwhile may come along; nobody is waited for.
  CHECK(round.next().empty());

  CHECK(wanted == std::vector<std::size_t>{2, 1});
}

}  // namespace semel::engine
