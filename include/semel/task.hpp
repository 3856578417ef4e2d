// Task<T>: an asynchronous function. Lazy, awaited once, resumes whoever awaits it by symmetric transfer.
#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <optional>
#include <utility>
#include <variant>

namespace semel {

template <class T = void>
class Task;

namespace detail {

template <class T>
constexpr bool is_task = false;
template <class T>
constexpr bool is_task<Task<T>> = true;

/// What awaiting gives, for a Task; anything else is its own.
template <class T>
struct unwrap {
  using type = T;
};

template <class T>
struct unwrap<Task<T>> {
  using type = T;
};

struct TaskFinal {
  bool await_ready() const noexcept { return false; }

  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> finished) const noexcept {
    const std::coroutine_handle<> next = finished.promise().continuation;
    return next ? next : std::noop_coroutine();
  }

  void await_resume() const noexcept {}
};

struct TaskPromiseBase {
  std::coroutine_handle<> continuation{};

  std::suspend_always initial_suspend() const noexcept { return {}; }

  TaskFinal final_suspend() const noexcept { return {}; }
};

template <class T>
struct TaskPromise : TaskPromiseBase {
  std::variant<std::monostate, T, std::exception_ptr> result;

  Task<T> get_return_object();

  template <class U>
  void return_value(U&& value) {
    result.template emplace<1>(std::forward<U>(value));
  }

  void unhandled_exception() { result.template emplace<2>(std::current_exception()); }

  T take() {
    if (auto* error = std::get_if<2>(&result)) std::rethrow_exception(*error);
    return std::move(std::get<1>(result));
  }
};

template <>
struct TaskPromise<void> : TaskPromiseBase {
  std::exception_ptr error;

  Task<void> get_return_object();

  void return_void() const noexcept {}

  void unhandled_exception() { error = std::current_exception(); }

  void take() const {
    if (error) std::rethrow_exception(error);
  }
};

}  // namespace detail

/// Nothing runs before it is awaited. As a step's result it runs on the engine's loop: it must not block.
template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::TaskPromise<T>;

  explicit Task(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}

  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, {})) {}

  Task& operator=(Task&& other) noexcept {
    Task(std::move(other)).swap(*this);
    return *this;
  }

  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  ~Task() {
    if (coroutine_) coroutine_.destroy();
  }

  bool await_ready() const noexcept { return false; }

  std::coroutine_handle<> await_suspend(std::coroutine_handle<> continuation) noexcept {
    coroutine_.promise().continuation = continuation;
    return coroutine_;
  }

  T await_resume() { return coroutine_.promise().take(); }

 private:
  void swap(Task& other) noexcept { std::swap(coroutine_, other.coroutine_); }

  std::coroutine_handle<promise_type> coroutine_;
};

namespace detail {

template <class T>
Task<T> TaskPromise<T>::get_return_object() {
  return Task<T>{std::coroutine_handle<TaskPromise>::from_promise(*this)};
}

inline Task<void> TaskPromise<void>::get_return_object() {
  return Task<void>{std::coroutine_handle<TaskPromise>::from_promise(*this)};
}

/// A coroutine nobody awaits: it frees itself when it is done.
struct Detached {
  struct promise_type {
    Detached get_return_object() const noexcept { return {}; }

    std::suspend_never initial_suspend() const noexcept { return {}; }

    std::suspend_never final_suspend() const noexcept { return {}; }

    void return_void() const noexcept {}

    void unhandled_exception() const noexcept { std::terminate(); }
  };
};

/// Suspends until `resume` is called, from any thread; then goes on there.
template <class T>
class Callback {
 public:
  /// `arm` is called with the function that takes the value; it may call it at once.
  explicit Callback(std::function<void(std::function<void(T)>)> arm) : arm_(std::move(arm)) {}

  bool await_ready() const noexcept { return false; }

  void await_suspend(std::coroutine_handle<> waiting) {
    // Once armed, this object may be gone: nothing of it is touched afterwards.
    auto arm = std::move(arm_);
    arm([this, waiting](T value) {
      value_.emplace(std::move(value));
      waiting.resume();
    });
  }

  T await_resume() {
    if (!value_) std::terminate();  // resumed by somebody else than `arm`
    return std::move(*value_);
  }

 private:
  std::function<void(std::function<void(T)>)> arm_;
  std::optional<T> value_;
};

}  // namespace detail
}  // namespace semel
