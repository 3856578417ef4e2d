#include "serve/shared_look.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <latch>

namespace semel::serve {
namespace {

TEST_CASE("a look serves all who asked before it began, and nobody who asked later") {
  std::latch began(1);
  std::latch may_end(1);
  std::atomic<int> looks = 0;
  std::atomic<int> first_served_by = 0;
  std::atomic<int> late_served_by = 0;
  constexpr int late = 20;
  std::latch all_served(1 + late);
  SharedLook shared([&] {
    if (++looks == 1) {
      began.count_down();
      may_end.wait();
    }
    return true;
  });

  shared.ask([&](bool) {
    first_served_by = looks.load();
    all_served.count_down();
  });
  began.wait();
  for (int i = 0; i < late; ++i) {
    shared.ask([&](bool) {
      late_served_by += looks.load();
      all_served.count_down();
    });
  }
  may_end.count_down();
  all_served.wait();

  CHECK(first_served_by == 1);
  CHECK(late_served_by == 2 * late);
  CHECK(looks == 2);
}

TEST_CASE("who asks hears that nobody could look, also where nobody will") {
  std::atomic<int> told = 0;
  std::latch began(1);
  std::latch may_end(1);
  std::latch heard(1);
  {
    SharedLook shared([&] {
      began.count_down();
      may_end.wait();
      return false;
    });
    shared.ask([&](bool could_look) {
      if (!could_look) ++told;
      heard.count_down();
    });
    began.wait();
    may_end.count_down();
    heard.wait();
  }
  CHECK(told == 1);
}

}  // namespace
}  // namespace semel::serve
