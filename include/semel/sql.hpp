// Your own SQL in the engine's transaction: what it writes is committed with what the engine writes, or not at all.
//
//   engine.transaction([&](semel::sql::Transaction& tx) {
//     tx.exec("INSERT INTO orders (id, amount) VALUES (?1, ?2)", order.id, order.amount);
//     engine.start_in(tx, {.key = order.id}, process_order, order.id);
//   });
//
// It runs on the thread that commits, so keep it short; all others wait for it. It may be run more than once before it
// is committed once: leave everything but the database alone. Statements that end transactions or change the connection
// (PRAGMA, ATTACH, SET) and changes of semel's own tables are refused.
#pragma once

#include <semel/step.hpp>

#include <boost/describe.hpp>
#include <boost/mp11/algorithm.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

namespace semel {

class IdempotencyStore;

namespace sql {

/// A statement failed. `code()` is SQL_ERROR, or SQL_CONSTRAINT where the data are at fault and not the statement.
struct SqlError : Error {
  using Error::Error;
};

/// What a column or a parameter may be.
using Value = std::variant<std::monostate, std::int64_t, double, std::string, Bytes>;

/// One row of a result.
struct Row {
  std::span<const std::string> names;
  std::span<const Value> values;
};

/// What a transaction stands on; for semel itself.
class Session {
 public:
  /// Executes one statement with parameters, or any number without; calls `each` for every row. Throws SqlError.
  virtual void run(std::string_view sql, std::span<const Value> parameters,
                   const std::function<void(const Row&)>& each) = 0;
  virtual IdempotencyStore& idempotency() = 0;

 protected:
  ~Session() = default;
};

namespace detail {

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;
template <class T>
constexpr bool is_tuple = false;
template <class... T>
constexpr bool is_tuple<std::tuple<T...>> = true;

template <class T>
concept Number = std::is_arithmetic_v<T> || std::is_enum_v<T>;

template <class T>
concept Scalar = Number<T> || std::same_as<T, std::string> || std::same_as<T, Bytes>;

template <class T>
Value to_value(const T& value) {
  if constexpr (is_optional<T>) {
    return value ? to_value(*value) : Value{};
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else if constexpr (Number<T>) {
    return static_cast<std::int64_t>(value);
  } else if constexpr (std::same_as<T, std::nullopt_t> || std::same_as<T, std::nullptr_t>) {
    return {};
  } else if constexpr (std::same_as<T, Bytes>) {
    return value;
  } else {
    return std::string(std::string_view(value));
  }
}

/// Throws SqlError: column `name` is not what was asked for.
[[noreturn]] void refuse(const std::string& name, std::string_view expected, const Value& found);
[[noreturn]] void refuse_shape(std::size_t columns, std::size_t expected);
[[noreturn]] void refuse_column(std::string_view name);

std::int64_t to_integer(const std::string& name, const Value& value, std::int64_t min,
                        std::int64_t max);
double to_double(const std::string& name, const Value& value);
std::string to_text(const std::string& name, const Value& value);
Bytes to_bytes(const std::string& name, const Value& value);

template <class T>
T from_value(const std::string& name, const Value& value) {
  if constexpr (is_optional<T>) {
    if (std::holds_alternative<std::monostate>(value)) return std::nullopt;
    return from_value<typename T::value_type>(name, value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(to_double(name, value));
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(from_value<std::underlying_type_t<T>>(name, value));
  } else if constexpr (Number<T>) {
    constexpr bool is_wide = std::is_unsigned_v<T> && sizeof(T) == sizeof(std::int64_t);
    constexpr std::int64_t max = is_wide ? std::numeric_limits<std::int64_t>::max()
                                         : static_cast<std::int64_t>(std::numeric_limits<T>::max());
    return static_cast<T>(
        to_integer(name, value, static_cast<std::int64_t>(std::numeric_limits<T>::min()), max));
  } else if constexpr (std::same_as<T, Bytes>) {
    return to_bytes(name, value);
  } else {
    return to_text(name, value);
  }
}

/// A struct's members are found by the names of the columns.
template <class T>
T from_row(const Row& row) {
  if constexpr (Scalar<T> || is_optional<T>) {
    if (row.values.size() != 1) refuse_shape(row.values.size(), 1);
    return from_value<T>(row.names[0], row.values[0]);
  } else if constexpr (is_tuple<T>) {
    constexpr std::size_t width = std::tuple_size_v<T>;
    if (row.values.size() != width) refuse_shape(row.values.size(), width);
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return T{from_value<std::tuple_element_t<I, T>>(row.names[I], row.values[I])...};
    }(std::make_index_sequence<width>{});
  } else {
    T out{};
    using Members = boost::describe::describe_members<T, boost::describe::mod_any_access |
                                                             boost::describe::mod_inherited>;
    boost::mp11::mp_for_each<Members>([&](auto member) {
      for (std::size_t i = 0; i < row.names.size(); ++i) {
        if (row.names[i] != member.name) continue;
        auto& field = out.*member.pointer;
        field = from_value<std::remove_cvref_t<decltype(field)>>(row.names[i], row.values[i]);
        return;
      }
      refuse_column(member.name);
    });
    return out;
  }
}

}  // namespace detail

/// Lives as long as the function it was given to.
class Transaction {
 public:
  explicit Transaction(Session& session) : session_(session) {}

  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  /// Executes a statement with values for ?1, ?2, … (on PostgreSQL also $1, $2, …), or several statements without. Throws SqlError; what was done before
  /// stays done unless the exception leaves the function.
  template <class... A>
  void exec(std::string_view sql, A&&... parameters) {
    const std::array<Value, sizeof...(A)> values{
        detail::to_value<std::remove_cvref_t<A>>(parameters)...};
    session_.run(sql, values, [](const Row&) {});
  }

  /// What a statement selects (or returns). T is a single value, a tuple with one element per column, or a described
  /// struct, each of whose members is a column of that name; optionals may be NULL.
  template <class T, class... A>
  std::vector<T> query(std::string_view sql, A&&... parameters) {
    const std::array<Value, sizeof...(A)> values{
        detail::to_value<std::remove_cvref_t<A>>(parameters)...};
    std::vector<T> rows;
    session_.run(sql, values, [&](const Row& row) { rows.push_back(detail::from_row<T>(row)); });
    return rows;
  }

  /// Reservations that are committed with the rest: an answer that is stored here is there if and only if your rows are.
  IdempotencyStore& idempotency() { return session_.idempotency(); }

  /// For semel itself.
  Session& session() { return session_; }

 private:
  Session& session_;
};

namespace detail {

struct KeepsSession {
  std::shared_ptr<Session> kept;
};

}  // namespace detail

/// A transaction that is yours to commit, on a connection of your own: see `Engine::adopt`.
class AdoptedTransaction final : detail::KeepsSession, public Transaction {
 public:
  /// For semel itself.
  explicit AdoptedTransaction(std::shared_ptr<Session> session)
      : KeepsSession{std::move(session)}, Transaction(*kept) {}
};

}  // namespace sql

namespace detail {

template <class F>
class TransactionBody final : public StepBody {
 public:
  using Result = std::invoke_result_t<F&, sql::Transaction&>;
  static_assert(std::is_void_v<Result> || value::Serialisable<result_or_monostate<Result>>,
                "a step's result must be serialisable: describe it with BOOST_DESCRIBE_STRUCT");

  explicit TransactionBody(F function) : function_(std::move(function)) {}

  bool is_transaction() const override { return true; }

  std::string transact(sql::Transaction& transaction) override {
    if constexpr (std::is_void_v<Result>) {
      std::invoke(function_, transaction);
      return "null";
    } else {
      return encode_step_result(std::invoke(function_, transaction));
    }
  }

 private:
  F function_;
};

}  // namespace detail

/// Describes a step that is SQL: what it writes and its result are one commit, so it happens exactly once. It is tried
/// again by policy if it throws; nothing of a failed attempt stays.
template <std::invocable<sql::Transaction&> F>
Op<std::invoke_result_t<F, sql::Transaction&>> transaction(std::string name, StepOptions options,
                                                           F function) {
  detail::check_step(name, options);
  return detail::make_op<detail::StepNode<std::invoke_result_t<F, sql::Transaction&>>>(
      detail::StepSpec{std::move(name), options,
                       std::make_shared<detail::TransactionBody<F>>(std::move(function)), 0});
}

template <std::invocable<sql::Transaction&> F>
Op<std::invoke_result_t<F, sql::Transaction&>> transaction(std::string name, F function) {
  return transaction(std::move(name), StepOptions{}, std::move(function));
}

}  // namespace semel
