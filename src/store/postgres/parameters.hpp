// What a statement is given, in PostgreSQL's binary format. All strings are bytea: they are compared byte by byte and may
// hold anything. (Its text refuses what is not UTF-8, and a row that is refused would stop a whole batch.)
#pragma once

#include <semel/error.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace semel::store::postgres {

constexpr std::int64_t to_ns(TimePoint time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

constexpr TimePoint from_ns(std::int64_t ns) {
  return TimePoint{std::chrono::duration_cast<TimePoint::duration>(std::chrono::nanoseconds{ns})};
}

/// A column of rows: bigint[] or bytea[].
class Array {
 public:
  static Array of_integers() { return Array{integer_oid}; }

  static Array of_bytes() { return Array{bytes_oid}; }

  void add(std::int64_t value);
  void add(std::string_view value);
  void add_null();

  template <class T>
  void add(const std::optional<T>& value) {
    if (value) {
      add_value(*value);
    } else {
      add_null();
    }
  }

  template <class T>
  void add_value(const T& value) {
    if constexpr (std::is_same_v<T, TimePoint>) {
      add(to_ns(value));
    } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
      add(static_cast<std::int64_t>(value));
    } else {
      add(std::string_view{value});
    }
  }

  std::size_t size() const { return count_; }

  /// As it is sent.
  std::string bytes() const;

 private:
  static constexpr std::uint32_t integer_oid = 20;
  static constexpr std::uint32_t bytes_oid = 17;

  explicit Array(std::uint32_t element) : element_(element) {}

  std::uint32_t element_;
  std::uint32_t count_ = 0;
  bool has_null_ = false;
  std::string elements_;
};

/// In the order of $1, $2 …
class Parameters {
 public:
  Parameters() = default;

  template <class... Values>
  static Parameters of(const Values&... values) {
    Parameters parameters;
    (parameters.add(values), ...);
    return parameters;
  }

  void add(const Array& array) { values_.push_back(array.bytes()); }

  void add(std::string_view bytes) { values_.emplace_back(bytes); }

  void add(TimePoint time) { add(to_ns(time)); }

  template <std::integral Number>
  void add(Number value) {
    add_integer(static_cast<std::int64_t>(value));
  }

  const std::vector<std::string>& values() const { return values_; }

 private:
  void add_integer(std::int64_t value);

  std::vector<std::string> values_;
};

/// Several columns of the same rows: one `unnest($1::bigint[], $2::bytea[], …)`.
class Columns {
 public:
  /// One letter per column: i for bigint, b for bytea.
  explicit Columns(std::string_view kinds);

  template <class... Values>
  void add(const Values&... values) {
    std::size_t column = 0;
    (add_one(columns_[column++], values), ...);
  }

  bool empty() const { return columns_.front().size() == 0; }

  Parameters parameters() const;

 private:
  template <class T>
  static void add_one(Array& column, const T& value) {
    if constexpr (requires { value.has_value(); }) {
      column.add(value);
    } else {
      column.add_value(value);
    }
  }

  std::vector<Array> columns_;
};

}  // namespace semel::store::postgres
