// Failures of the world as values. `Result<T>` keeps the member names of std::expected so that it can retire one day.
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace semel::base {

/// Why something could not be done. A code exists only where some caller reacts differently to it.
enum class Errc {
  not_found,    ///< tell the caller
  conflict,     ///< someone moved first: reload and decide again
  unavailable,  ///< outcome unknown: back off, reload, try again
  corrupt,      ///< stop, ask a human
  refused,  ///< nothing happened and repeating will not help: a lock is held, a schema is too new, a setting is wrong
};

struct Fault {
  Errc code = Errc::unavailable;
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)

  Result(Fault fault)
      : state_(std::in_place_index<1>, std::move(fault)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return state_.index() == 0; }

  explicit operator bool() const { return has_value(); }

  T& value() & { return std::get<0>(state_); }

  const T& value() const& { return std::get<0>(state_); }

  T&& value() && { return std::get<0>(std::move(state_)); }

  T& operator*() & { return value(); }

  const T& operator*() const& { return value(); }

  T&& operator*() && { return std::move(*this).value(); }

  T* operator->() { return &value(); }

  const T* operator->() const { return &value(); }

  const Fault& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Fault> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;

  Result(Fault fault)
      : fault_(std::move(fault)), ok_(false) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return ok_; }

  explicit operator bool() const { return ok_; }

  const Fault& error() const { return fault_; }

 private:
  Fault fault_;
  bool ok_ = true;
};

}  // namespace semel::base
