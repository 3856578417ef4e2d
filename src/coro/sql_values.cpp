// How columns become values of C++, and what is said where they do not.
#include <semel/sql.hpp>

#include <fmt/format.h>

#include <cmath>

namespace semel::sql::detail {

namespace {

std::string_view kind_of(const Value& value) {
  constexpr std::array<std::string_view, std::variant_size_v<Value>> names{
      "NULL", "an integer", "a real number", "text", "bytes"};
  return names[value.index()];
}

}  // namespace

void refuse(const std::string& name, std::string_view expected, const Value& found) {
  throw SqlError("SQL_ERROR",
                 fmt::format("column {}: expected {}, found {}", name, expected, kind_of(found)));
}

void refuse_shape(std::size_t columns, std::size_t expected) {
  throw SqlError("SQL_ERROR",
                 fmt::format("the rows have {} columns, {} expected", columns, expected));
}

void refuse_column(std::string_view name) {
  throw SqlError("SQL_ERROR", fmt::format("the rows have no column {}", name));
}

std::int64_t to_integer(const std::string& name, const Value& value, std::int64_t min,
                        std::int64_t max) {
  const auto* integer = std::get_if<std::int64_t>(&value);
  if (integer == nullptr) refuse(name, "an integer", value);
  if (*integer < min || *integer > max)
    throw SqlError("SQL_ERROR", fmt::format("column {}: the number does not fit its type", name));
  return *integer;
}

double to_double(const std::string& name, const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  const auto* real = std::get_if<double>(&value);
  if (real == nullptr) refuse(name, "a number", value);
  return *real;
}

std::string to_text(const std::string& name, const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) refuse(name, "text", value);
  return *text;
}

Bytes to_bytes(const std::string& name, const Value& value) {
  const auto* bytes = std::get_if<Bytes>(&value);
  if (bytes == nullptr) refuse(name, "bytes", value);
  return *bytes;
}

}  // namespace semel::sql::detail
