#include "store/postgres/parameters.hpp"

namespace semel::store::postgres {

namespace {

void append32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8)
    out.push_back(static_cast<char>((value >> static_cast<unsigned>(shift)) & 0xFFU));
}

void append64(std::string& out, std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  append32(out, static_cast<std::uint32_t>(bits >> 32U));
  append32(out, static_cast<std::uint32_t>(bits));
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
