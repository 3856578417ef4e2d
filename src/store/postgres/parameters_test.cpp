#include "store/postgres/parameters.hpp"

#include <doctest/doctest.h>

namespace semel::store::postgres {
namespace {

using namespace std::string_literals;

TEST_CASE("an array is sent as PostgreSQL writes it") {
  Array numbers = Array::of_integers();
  CHECK(numbers.bytes() == "\0\0\0\0\0\0\0\0\0\0\0\x14"s);

  numbers.add(std::int64_t{-2});
  numbers.add(std::optional<std::int64_t>{});

  CHECK(numbers.bytes() ==
        "\0\0\0\x01\0\0\0\x01\0\0\0\x14\0\0\0\x02\0\0\0\x01"
        "\0\0\0\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE\xFF\xFF\xFF\xFF"s);
}

TEST_CASE("rows are sent column by column") {
  Columns columns{"ib"};
  CHECK(columns.empty());

  columns.add(7, "a\0b"s);

  CHECK_FALSE(columns.empty());
  const Parameters parameters = columns.parameters();
  REQUIRE(parameters.values().size() == 2);
  CHECK(parameters.values()[1] ==
        "\0\0\0\x01\0\0\0\0\0\0\0\x11\0\0\0\x01\0\0\0\x01\0\0\0\x03"
        "a\0b"s);
}

}  // namespace
}  // namespace semel::store::postgres
