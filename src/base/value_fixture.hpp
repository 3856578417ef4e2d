// Types and checks that the tests of values share.
#pragma once

#include "base/base64.hpp"
#include "base/json_text.hpp"
#include "base/utf8.hpp"

#include <semel/value.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace shop {

enum class Status { pending, paid };
BOOST_DESCRIBE_ENUM(Status, pending, paid)

enum class Priority : std::int8_t {};

struct Item {
  std::string sku;
  int qty = 1;
  std::optional<double> price;

  bool operator==(const Item&) const = default;
};
BOOST_DESCRIBE_STRUCT(Item, (), (sku, qty, price))

struct Owned {
  std::string tenant;

  bool operator==(const Owned&) const = default;
};
BOOST_DESCRIBE_STRUCT(Owned, (), (tenant))

struct Order : Owned {
  std::vector<Item> items;
  Status status = Status::pending;
  std::map<std::string, int> notes;
  std::variant<std::int64_t, std::string> reference;

  bool operator==(const Order&) const = default;
};
BOOST_DESCRIBE_STRUCT(Order, (Owned), (items, status, notes, reference))

struct Nothing {
  bool operator==(const Nothing&) const = default;
};
BOOST_DESCRIBE_STRUCT(Nothing, (), ())

class Account {
 public:
  Account() = default;

  explicit Account(int balance) : balance_(balance) {}

  bool operator==(const Account&) const = default;

 private:
  int balance_ = 0;
  BOOST_DESCRIBE_CLASS(Account, (), (), (), (balance_))
};

struct Extremes {
  std::optional<int> attempts = 3;
  int seconds = 60;
  Item sample{.sku = "sample", .qty = 7, .price = 2.5};

  bool operator==(const Extremes&) const = default;
};
BOOST_DESCRIBE_STRUCT(Extremes, (), (attempts, seconds, sample))

struct Tree {
  std::vector<Tree> children;

  bool operator==(const Tree&) const = default;
};
BOOST_DESCRIBE_STRUCT(Tree, (), (children))

struct Approved {
  std::string by;

  bool operator==(const Approved&) const = default;
};
BOOST_DESCRIBE_STRUCT(Approved, (), (by))

struct Rejected {
  std::string by;
  std::string reason;

  bool operator==(const Rejected&) const = default;
};
BOOST_DESCRIBE_STRUCT(Rejected, (), (by, reason))

struct Leaf {
  int size = 0;

  bool operator==(const Leaf&) const = default;
};
BOOST_DESCRIBE_STRUCT(Leaf, (), (size))

struct Fork {
  std::vector<std::variant<Fork, Leaf>> arms;
  int end = 0;

  friend bool operator==(const Fork& a, const Fork& b) {
    return a.arms == b.arms && a.end == b.end;
  }
};
BOOST_DESCRIBE_STRUCT(Fork, (), (arms, end))

struct Twin {
  std::vector<std::variant<Twin, Twin>> both;
};
BOOST_DESCRIBE_STRUCT(Twin, (), (both))

struct Undescribed {
  int x = 0;
};

}  // namespace shop

namespace semel {

using shop::Account;
using shop::Approved;
using shop::Extremes;
using shop::Fork;
using shop::Item;
using shop::Leaf;
using shop::Nothing;
using shop::Order;
using shop::Owned;
using shop::Priority;
using shop::Rejected;
using shop::Status;
using shop::Tree;
using shop::Twin;
using value::Misfit;
using value::Mode;

using namespace std::chrono_literals;
using namespace std::string_literals;

inline constexpr auto modes = std::to_array({Mode::boundary, Mode::journal});

/// `value` has exactly this text, and the text gives it back in both modes.
template <class T>
void check_text(const T& value, const std::string& text) {
  CAPTURE(text);
  CHECK(value::encode(value) == text);
  for (const Mode mode : modes) CHECK(value::decode<T>(text, mode) == value);
}

template <class T>
void check_round_trip(const T& value) {
  check_text(value, value::encode(value));
}

template <class T>
std::string refusal(std::string_view json, Mode mode = Mode::boundary) {
  T out{};
  const auto misfit = value::try_decode(json, out, mode);
  return misfit ? misfit->path + ": " + misfit->message : "accepted";
}

template <class T>
std::string write_refusal(const T& value) {
  std::string out = "before";
  try {
    value::encode_to(out, value);
  } catch (const ValidationError& error) {
    CHECK(out == "before");
    return error.what();
  }
  return "written";
}

inline std::string repeated(std::string_view text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

inline std::string nested(std::size_t depth) { return repeated("[", depth) + repeated("]", depth); }

}  // namespace semel
