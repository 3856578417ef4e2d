#include "base/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace semel::base {

namespace {

using namespace std::chrono_literals;

const TimePoint noon{std::chrono::sys_days{std::chrono::year{2030} / 1 / 1} + 12h};

/// Gives what it was told to give, over and over.
class Scripted final : public Random {
 public:
  explicit Scripted(std::vector<std::uint64_t> numbers) : numbers_(std::move(numbers)) {}

  std::uint64_t next() override { return numbers_[used_++ % numbers_.size()]; }

 private:
  std::vector<std::uint64_t> numbers_;
  std::size_t used_ = 0;
};

}  // namespace

TEST_CASE("a seed gives the same numbers every time, and on every build") {
  SeededRandom one{42};
  SeededRandom two{42};
  SeededRandom other{43};

  const std::uint64_t first = one.next();

  CHECK(first == 0xBDD732262FEB6E95ULL);
  CHECK(two.next() == first);
  CHECK(one.next() == two.next());
  CHECK(other.next() != first);
}

TEST_CASE("numbers below a bound are below it, and all of them come") {
  SeededRandom random{7};
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 200; ++i) seen.insert(random.below(6));

  CHECK(seen == std::set<std::uint64_t>{0, 1, 2, 3, 4, 5});
  CHECK(random.below(1) == 0);
  CHECK(random.one_in(1));
}

TEST_CASE("the system's numbers differ") {
  SystemRandom random;
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.next());

  CHECK(seen.size() == 1000);
}

TEST_CASE("the unit interval has its beginning and not its end") {
  Scripted lowest{{0}};
  Scripted highest{{~std::uint64_t{0}}};

  CHECK(unit_interval(lowest) == 0);
  CHECK(unit_interval(highest) < 1);
  CHECK(unit_interval(highest) > 0.999999);
}

TEST_CASE("a UUID has its version and its variant, whatever the numbers") {
  Scripted zeros{{0}};
  Scripted ones{{~std::uint64_t{0}}};

  CHECK(make_uuid(zeros) == "00000000-0000-4000-8000-000000000000");
  CHECK(make_uuid(ones) == "ffffffff-ffff-4fff-bfff-ffffffffffff");
}

TEST_CASE("ids ascend with time, and within a millisecond") {
  SeededRandom random{1};
  IdSource ids{random};
  std::vector<std::string> made;
  for (int i = 0; i < 100; ++i) {
    made.push_back(ids.next(noon + std::chrono::milliseconds{i / 10}));
  }

  CHECK(std::ranges::is_sorted(made));
  CHECK(std::ranges::adjacent_find(made) == made.end());
  for (const std::string& id : made) CHECK(id.size() == 26);
}

TEST_CASE("ids never descend, not even when the clock does") {
  SeededRandom random{1};
  IdSource ids{random};
  const std::string before = ids.next(noon);

  const std::string after = ids.next(noon - 1h);

  CHECK(after > before);
  CHECK(ids.next(noon + 1ms) > after);
}

TEST_CASE("ids ascend where their random part is used up") {
  Scripted ones{{~std::uint64_t{0}}};
  IdSource ids{ones};
  const std::string last_of_its_millisecond = ids.next(noon);

  const std::string next = ids.next(noon);

  CHECK(next > last_of_its_millisecond);
}

TEST_CASE("ids begin with their time and use letters that cannot be mistaken") {
  Scripted zeros{{0}};
  IdSource ids{zeros};
  const std::string alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

  CHECK(ids.next(TimePoint{} + 33ms) == "00000000110000000000000000");
  for (const char c : ids.next(noon)) CHECK(alphabet.find(c) != std::string::npos);
}

TEST_CASE("a version 7 UUID begins with its time") {
  SeededRandom random{1};

  const std::string uuid =
      make_uuid_v7(random, TimePoint{std::chrono::milliseconds{0x017F22E279B0}});

  CHECK(uuid.size() == 36);
  CHECK(uuid.starts_with("017f22e2-79b0-7"));
  CHECK(std::string("89ab").find(uuid[19]) != std::string::npos);
  CHECK(make_uuid_v7(random, TimePoint{std::chrono::milliseconds{0x017F22E279B1}}) > uuid);
}

}  // namespace semel::base
