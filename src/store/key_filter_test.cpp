#include "store/key_filter.hpp"

#include "base/random.hpp"

#include <doctest/doctest.h>

#include <set>

namespace semel::store {

namespace {

std::uint64_t draw(base::SeededRandom& random) { return random.below(~std::uint64_t{0}); }

}  // namespace

TEST_CASE("a filter has all that was added, and hardly anything else, however far it has grown") {
  KeyFilter filter{std::size_t{1} << 20U};
  base::SeededRandom random{1};
  std::set<std::uint64_t> added;
  while (added.size() < 300'000) {
    const std::uint64_t hash = draw(random);
    filter.add(hash);
    added.insert(hash);
  }
  REQUIRE_FALSE(filter.is_full());

  std::size_t missing = 0;
  for (const std::uint64_t hash : added) missing += filter.may_have(hash) ? 0 : 1;
  std::size_t mistaken = 0;
  for (int i = 0; i < 100'000; ++i) mistaken += filter.may_have(draw(random)) ? 1 : 0;

  CHECK(missing == 0);
  CHECK(mistaken < 5'000);
}

TEST_CASE("a key that is added again and again takes no room") {
  KeyFilter filter{std::size_t{64} << 10U};
  for (int i = 0; i < 1'000'000; ++i) filter.add(7);
  CHECK_FALSE(filter.is_full());
  CHECK(filter.may_have(7));
}

TEST_CASE("a new filter has nothing") {
  const KeyFilter filter{std::size_t{1} << 20U};
  CHECK_FALSE(filter.may_have(1));
}

TEST_CASE("a full filter may have everything, and says when as many again have come") {
  KeyFilter filter{std::size_t{64} << 10U};
  base::SeededRandom random{1};
  std::size_t held = 0;
  for (; !filter.is_full(); ++held) filter.add(draw(random));
  CHECK(filter.may_have(draw(random)));
  CHECK_FALSE(filter.is_overrun());

  std::size_t more = 0;
  for (; more < 10 * held && !filter.is_overrun(); ++more) filter.add(draw(random));

  CHECK(more > held / 10 * 9);
  CHECK(more < 2 * held);
}

TEST_CASE("a filter without room is full with the first key, and never overrun") {
  KeyFilter filter{0};
  filter.add(1);
  filter.add(2);
  CHECK(filter.is_full());
  CHECK_FALSE(filter.is_overrun());
}

}  // namespace semel::store
