// An optional that is almost always empty: then it takes one word, not the room of the value.
#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace semel::base {

template <class T>
class Rare {
 public:
  Rare() = default;

  Rare(std::nullopt_t) {}  // NOLINT(*-explicit-*)

  Rare(T value) : value_(std::make_unique<T>(std::move(value))) {}  // NOLINT(*-explicit-*)

  Rare(const Rare& other) : value_(other ? std::make_unique<T>(*other) : nullptr) {}

  Rare(Rare&&) noexcept = default;
  ~Rare() = default;

  Rare& operator=(Rare other) noexcept {
    value_ = std::move(other.value_);
    return *this;
  }

  T& emplace() {
    value_ = std::make_unique<T>();
    return *value_;
  }

  void reset() { value_.reset(); }

  explicit operator bool() const { return value_ != nullptr; }

  bool has_value() const { return value_ != nullptr; }

  T& operator*() & { return *value_; }

  const T& operator*() const& { return *value_; }

  T&& operator*() && { return std::move(*value_); }

  T* operator->() { return value_.get(); }

  const T* operator->() const { return value_.get(); }

  T value_or(T otherwise) const { return value_ ? *value_ : std::move(otherwise); }

  bool operator==(const Rare& other) const {
    return has_value() == other.has_value() && (!has_value() || *value_ == *other.value_);
  }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace semel::base
