#include "store/postgres/parameters.hpp"

#include <array>

namespace semel::store::postgres {

namespace {

/// The most significant byte first, at once: every value of every row comes by here.
template <std::unsigned_integral Number>
void append(std::string& out, Number value) {
  std::array<char, sizeof(Number)> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>((value >> (8 * (bytes.size() - 1 - i))) & 0xFFU);
  out.append(bytes.data(), bytes.size());
}

void append32(std::string& out, std::uint32_t value) { append(out, value); }

void append64(std::string& out, std::int64_t value) {
  append(out, static_cast<std::uint64_t>(value));
}

constexpr std::uint32_t null_length = 0xFFFFFFFF;

}  // namespace

void Array::add(std::int64_t value) {
  append32(elements_, 8);
  append64(elements_, value);
  ++count_;
}

void Array::add(std::string_view value) {
  append32(elements_, static_cast<std::uint32_t>(value.size()));
  elements_ += value;
  ++count_;
}

void Array::add_null() {
  append32(elements_, null_length);
  has_null_ = true;
  ++count_;
}

std::string Array::bytes() const {
  std::string out;
  out.reserve(20 + elements_.size());
  append32(out, count_ == 0 ? 0 : 1);  // dimensions
  append32(out, has_null_ ? 1 : 0);
  append32(out, element_);
  if (count_ == 0) return out;
  append32(out, count_);
  append32(out, 1);  // the first index
  out += elements_;
  return out;
}

void Parameters::add_integer(std::int64_t value) {
  std::string bytes;
  append64(bytes, value);
  values_.push_back(std::move(bytes));
}

Columns::Columns(std::string_view kinds) {
  for (const char kind : kinds)
    columns_.push_back(kind == 'i' ? Array::of_integers() : Array::of_bytes());
}

Parameters Columns::parameters() const {
  Parameters parameters;
  for (const Array& column : columns_) parameters.add(column);
  return parameters;
}

}  // namespace semel::store::postgres
