// Idempotency for anything: work done once under a key, whose result is remembered and handed to whoever asks again.
//
//   Receipt receipt = semel::run_idempotently(
//       engine.idempotency(), {.ns = "import", .key = file_id, .fingerprint = semel::fingerprint(request)},
//       [&] { return import(request); });
#pragma once

#include <semel/error.hpp>
#include <semel/task.hpp>
#include <semel/value.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace semel {

namespace idempotency {
class Kernel;
}

/// Where reservations live: an engine's store, or memory. May be used from any thread, but not from inside a workflow's
/// own code.
class IdempotencyStore {
 public:
  virtual ~IdempotencyStore() = default;

  /// For semel itself.
  virtual idempotency::Kernel& kernel() = 0;
  /// Whose keys these are.
  virtual const std::string& workspace() const = 0;
};

/// In memory alone: for tests, and for programs that need duplicates refused while they run.
std::unique_ptr<IdempotencyStore> memory_idempotency_store();

/// What a duplicate gets: the result of the first, or IdempotencyConflictError.
enum class Replay { result, error };

/// Whose a key is, where actor (who asks) and tenant (for whom) are known.
enum class Scope { global, actor, tenant, actor_tenant };

struct IdempotencyOptions {
  std::string
      ns;  ///< what the key is for: keys of two namespaces have nothing to do with each other
  std::string key;  ///< 1 to 255 bytes
  std::map<std::string, std::string> scope{};
  std::string
      fingerprint{};  ///< of the input; the same key with another one is IdempotencyConflictError
  Millis ttl{std::chrono::hours{24}};  ///< how long the result is remembered
  Replay replay = Replay::result;
  Millis lease{std::chrono::seconds{30}};  ///< renewed while the function runs
  /// Asking again for its own unfinished work, an owner gets it at once and need not wait for the lease to end. Inside a
  /// step it is the step's id, unless another is given; in a step that returns a Task only up to its first `co_await`:
  /// behind it, give `step.id`.
  std::string owner{};
};

struct FingerprintOptions {
  std::vector<std::string> omit{};  ///< members of the outermost object that do not count
};

namespace detail {

/// JSON of what the function answered: as it is stored.
using Execute = std::function<std::string()>;
using ExecuteTask = std::function<Task<std::string>()>;

std::string run_once(IdempotencyStore& store, const IdempotencyOptions& options,
                     const Execute& execute);
Task<std::string> run_once_async(IdempotencyStore& store, IdempotencyOptions options,
                                 ExecuteTask execute);
std::string json_fingerprint(std::string_view json, const FingerprintOptions& options);

template <class F>
using idempotent_result = typename unwrap<std::invoke_result_t<F&>>::type;

template <class T>
concept IdempotentResult = std::is_void_v<T> || value::Serialisable<T>;

template <class T>
T from_stored(const std::string& json) {
  if constexpr (!std::is_void_v<T>) return value::decode<T>(json, value::Mode::journal);
}

template <class F>
Task<std::string> execute_async(F& function) {
  using Returns = std::invoke_result_t<F&>;
  using Result = idempotent_result<F>;
  if constexpr (is_task<Returns> && std::is_void_v<Result>) {
    co_await std::invoke(function);
    co_return "null";
  } else if constexpr (is_task<Returns>) {
    co_return value::encode(co_await std::invoke(function));
  } else if constexpr (std::is_void_v<Result>) {
    std::invoke(function);
    co_return "null";
  } else {
    co_return value::encode(std::invoke(function));
  }
}

}  // namespace detail

/// Runs the function unless its work was done under this key; gives the result decoded from what is stored, also the first
/// time. When it returns, the result is durable.
///
/// If the function throws, the key is free again and the exception goes on. IdempotencyInProgressError where somebody is at
/// work, IdempotencyConflictError where the key was used with another fingerprint (or at all, with `Replay::error`),
/// OutcomeUnknownError where the work was begun and nobody knows what came of it. FENCE_LOST: the function ran longer
/// than its lease could be renewed and another took over, whose result counts. STORE_UNAVAILABLE behind the function:
/// the key stays in progress until its lease ends.
template <std::invocable F>
  requires detail::IdempotentResult<std::invoke_result_t<F>>
std::invoke_result_t<F> run_idempotently(IdempotencyStore& store, const IdempotencyOptions& options,
                                         F&& function) {
  using Result = std::invoke_result_t<F>;
  const std::string stored = detail::run_once(store, options, [&function]() -> std::string {
    if constexpr (std::is_void_v<Result>) {
      std::invoke(function);
      return "null";
    } else {
      return value::encode(std::invoke(function));
    }
  });
  return detail::from_stored<Result>(stored);
}

/// The same without holding a thread. The function may return a Task; it and what awaits this go on where the store answers:
/// with an engine's store on the engine's loop, which they must not block.
template <std::invocable F>
  requires detail::IdempotentResult<detail::idempotent_result<F>>
Task<detail::idempotent_result<F>> run_idempotently_async(IdempotencyStore& store,
                                                          IdempotencyOptions options, F function) {
  const detail::ExecuteTask execute = [&function] { return detail::execute_async(function); };
  const std::string stored = co_await detail::run_once_async(store, std::move(options), execute);
  co_return detail::from_stored<detail::idempotent_result<F>>(stored);
}

/// What two inputs have in common if they are the same: order of members, white space and the spelling of numbers do not
/// count, empty optionals neither.
template <value::Serialisable T>
std::string fingerprint(const T& value, const FingerprintOptions& options = {}) {
  return detail::json_fingerprint(value::encode(value), options);
}

}  // namespace semel
