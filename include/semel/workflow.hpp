// Workflow<T>: a C++20 coroutine whose progress is a journal. It takes its input by value and returns its result.
#pragma once

#include <semel/operation.hpp>
#include <semel/shape.hpp>

#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <typeinfo>

namespace semel {

template <class T = void>
class Workflow;

namespace detail {

/// Where a coroutine stands suspended.
class AwaitPoint {
 public:
  /// A graceful cancel: throw `error` out of here.
  virtual void interrupt(const std::exception_ptr& error) = 0;
  /// The coroutine will never be resumed.
  virtual void abandon() = 0;

 protected:
  ~AwaitPoint() = default;
};

template <class T>
class OpAwaiter;
template <class T>
class InlineAwaiter;

struct WorkflowFinal {
  bool await_ready() const noexcept { return false; }

  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> finished) const noexcept {
    auto& promise = finished.promise();
    if (promise.continuation) return promise.continuation;
    if (promise.listener != nullptr) promise.listener->settled();
    return std::noop_coroutine();
  }

  void await_resume() const noexcept {}
};

struct WorkflowPromiseBase {
  Frame* frame = nullptr;
  Scope scope;
  AwaitPoint* suspended_at = nullptr;
  std::coroutine_handle<> continuation{};  ///< of the workflow that awaits this one inline
  Listener* listener = nullptr;            ///< of the root, or of a branch
  std::exception_ptr error;

  static void* operator new(std::size_t size) { return allocate_frame(size); }

  static void operator delete(void* frame_memory, std::size_t size) noexcept {
    free_frame(frame_memory, size);
  }

  std::suspend_always initial_suspend() const noexcept { return {}; }

  WorkflowFinal final_suspend() const noexcept { return {}; }

  void unhandled_exception() noexcept { error = std::current_exception(); }

  template <IsOp O>
  auto await_transform(O&& op) {
    using T = typename std::remove_cvref_t<O>::result_type;
    return OpAwaiter<T>{*this, OpAccess::take<T>(static_cast<Op<T>&>(op))};
  }

  /// The hook's next payload.
  template <class U>
  OpAwaiter<U> await_transform(Hook<U>& hook);
  template <class U>
  OpAwaiter<U> await_transform(Hook<U>&& hook);

  template <class T>
  InlineAwaiter<T> await_transform(Workflow<T>&& workflow) {
    return InlineAwaiter<T>{*this, std::move(workflow)};
  }
};

template <class T>
struct WorkflowPromise : WorkflowPromiseBase {
  std::optional<T> value;

  Workflow<T> get_return_object();

  void return_value(T result) { value.emplace(std::move(result)); }

  T take() {
    if (error) std::rethrow_exception(error);
    if (!value) std::terminate();  // taken before it was done
    return std::move(*value);
  }
};

template <>
struct WorkflowPromise<void> : WorkflowPromiseBase {
  Workflow<void> get_return_object();

  void return_void() const noexcept {}

  void take() const {
    if (error) std::rethrow_exception(error);
  }
};

}  // namespace detail

/// Started by an engine, awaited inline by another workflow, or given to `all`, `race` and `begin` as a branch. Time,
/// chance and ids come from `semel::` alone; everything with an effect goes into a step.
template <class T>
class [[nodiscard]] Workflow {
 public:
  using promise_type = detail::WorkflowPromise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  explicit Workflow(Handle coroutine) : coroutine_(coroutine) {}

  Workflow(Workflow&& other) noexcept : coroutine_(std::exchange(other.coroutine_, {})) {}

  Workflow& operator=(Workflow&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }

  Workflow(const Workflow&) = delete;
  Workflow& operator=(const Workflow&) = delete;

  ~Workflow() {
    if (coroutine_) coroutine_.destroy();
  }

  /// For the engine.
  Handle handle() const { return coroutine_; }

 private:
  Handle coroutine_;
};

namespace detail {

template <class T>
Workflow<T> WorkflowPromise<T>::get_return_object() {
  return Workflow<T>{std::coroutine_handle<WorkflowPromise>::from_promise(*this)};
}

inline Workflow<void> WorkflowPromise<void>::get_return_object() {
  return Workflow<void>{std::coroutine_handle<WorkflowPromise>::from_promise(*this)};
}

/// `co_await` of an operation.
template <class T>
class OpAwaiter final : Listener, Resumable, AwaitPoint {
 public:
  OpAwaiter(WorkflowPromiseBase& promise, std::unique_ptr<Node<T>> node)
      : promise_(promise), node_(std::move(node)) {}

  OpAwaiter(const OpAwaiter&) = delete;
  OpAwaiter& operator=(const OpAwaiter&) = delete;
  ~OpAwaiter() = default;

  bool await_ready() {
    if (!node_->begun()) {
      node_->begin(*promise_.frame,
                   node_->takes_number() ? promise_.scope.next_op() : std::string{});
    }
    return node_->is_settled();
  }

  void await_suspend(std::coroutine_handle<> waiting) {
    waiting_ = waiting;
    node_->listener = this;
    promise_.suspended_at = this;
  }

  T await_resume() {
    promise_.suspended_at = nullptr;
    if (error_) std::rethrow_exception(error_);
    return node_->take();
  }

 private:
  void settled() override { promise_.frame->ready(*this); }

  std::coroutine_handle<> resumption() override { return waiting_; }

  void interrupt(const std::exception_ptr& error) override {
    node_->listener = nullptr;
    node_->abandon();
    if (!node_->interrupt(error)) error_ = error;
    settled();
  }

  void abandon() override {
    promise_.frame->unready(*this);
    node_->listener = nullptr;
    node_->abandon();
  }

  WorkflowPromiseBase& promise_;
  std::unique_ptr<Node<T>> node_;
  std::coroutine_handle<> waiting_{};
  std::exception_ptr error_;
};

/// `co_await` of a workflow: its operations become part of this run, under one more level of numbers.
template <class T>
class InlineAwaiter final : AwaitPoint {
 public:
  InlineAwaiter(WorkflowPromiseBase& promise, Workflow<T>&& workflow)
      : promise_(promise), workflow_(std::move(workflow)) {}

  InlineAwaiter(const InlineAwaiter&) = delete;
  InlineAwaiter& operator=(const InlineAwaiter&) = delete;
  ~InlineAwaiter() = default;

  bool await_ready() const noexcept { return false; }

  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) {
    WorkflowPromiseBase& inner = workflow_.handle().promise();
    inner.frame = promise_.frame;
    inner.scope.path = promise_.scope.next_op();
    inner.continuation = waiting;
    promise_.suspended_at = this;
    return workflow_.handle();
  }

  T await_resume() {
    promise_.suspended_at = nullptr;
    return workflow_.handle().promise().take();
  }

 private:
  void interrupt(const std::exception_ptr& error) override {
    if (auto* inner = workflow_.handle().promise().suspended_at) inner->interrupt(error);
  }

  void abandon() override {
    if (auto* inner = workflow_.handle().promise().suspended_at) inner->abandon();
  }

  WorkflowPromiseBase& promise_;
  Workflow<T> workflow_;
};

// ------------------------------------------------------------------------------------------------ functions

template <class F>
struct workflow_traits;

template <class R, class... P>
struct workflow_traits<Workflow<R> (*)(P...)> {
  using result = R;
  using args = std::tuple<std::decay_t<P>...>;
  static constexpr bool by_value = !(std::is_reference_v<P> || ...);
};

template <class R, class C, class... P>
struct workflow_traits<Workflow<R> (C::*)(P...)> : workflow_traits<Workflow<R> (*)(P...)> {
  using object = C;
};

template <class R, class C, class... P>
struct workflow_traits<Workflow<R> (C::*)(P...) const> : workflow_traits<Workflow<R> (*)(P...)> {
  using object = const C;
};

template <class F>
  requires requires { &F::operator(); }
struct workflow_traits<F> : workflow_traits<decltype(&F::operator())> {};

template <class T>
constexpr bool is_view = std::is_pointer_v<T> || std::is_reference_v<T>;
template <class C, class Traits>
constexpr bool is_view<std::basic_string_view<C, Traits>> = true;
template <class T, std::size_t N>
constexpr bool is_view<std::span<T, N>> = true;
template <class T>
constexpr bool is_view<std::reference_wrapper<T>> = true;

template <class Tuple>
struct parameters_check;

template <class... P>
struct parameters_check<std::tuple<P...>> {
  static constexpr bool are_values = (!is_view<P> && ...);
  static constexpr bool are_serialisable = (value::Serialisable<P> && ...);
};

}  // namespace detail

template <class F>
concept WorkflowFunction = requires { typename detail::workflow_traits<std::decay_t<F>>::result; };

template <WorkflowFunction F>
using WorkflowResult = typename detail::workflow_traits<std::decay_t<F>>::result;

namespace detail {

template <WorkflowFunction F>
using WorkflowArgs = typename workflow_traits<std::decay_t<F>>::args;

/// Names a function: its type and, for pointers, the bytes of the pointer.
template <WorkflowFunction F>
std::string function_identity(F function) {
  std::string identity = typeid(F).name();
  if constexpr (std::is_pointer_v<F> || std::is_member_pointer_v<F>) {
    std::array<char, sizeof(F)> bytes;
    std::memcpy(bytes.data(), static_cast<const void*>(&function), sizeof(F));
    identity.push_back(':');
    identity.append(bytes.data(), bytes.size());
  }
  return identity;
}

/// The arguments as a JSON array, converted to the types of the parameters at the call.
template <WorkflowFunction F, class... A>
std::string encode_arguments(A&&... arguments) {
  static_assert(sizeof...(A) == std::tuple_size_v<WorkflowArgs<F>>,
                "the number of arguments differs from the workflow's parameters");
  if constexpr (sizeof...(A) == 0) {
    return "[]";
  } else {
    return value::encode(WorkflowArgs<F>{std::forward<A>(arguments)...});
  }
}

/// A run's outermost coroutine, whatever it returns.
class Root {
 public:
  virtual ~Root() = default;
  virtual WorkflowPromiseBase& promise() = 0;
  virtual std::coroutine_handle<> coroutine() = 0;
  /// JSON; throws what the workflow threw.
  virtual std::string take_result() = 0;
};

template <class T>
class RootOf final : public Root {
 public:
  explicit RootOf(Workflow<T> workflow) : workflow_(std::move(workflow)) {}

  WorkflowPromiseBase& promise() override { return workflow_.handle().promise(); }

  std::coroutine_handle<> coroutine() override { return workflow_.handle(); }

  std::string take_result() override {
    if constexpr (std::is_void_v<T>) {
      workflow_.handle().promise().take();
      return "null";
    } else {
      return value::encode(workflow_.handle().promise().take());
    }
  }

 private:
  Workflow<T> workflow_;
};

/// A registered workflow, without its types.
struct WorkflowType {
  std::string name;
  int version = 1;
  std::string function;  ///< identity of the function it was registered with
  std::string
      token_payload;  ///< shape of what a token registered by a start accepts; empty: anything
  /// Decodes the arguments and calls the function; the coroutine has not begun.
  std::function<std::unique_ptr<Root>(std::string_view input)> make;
  /// Decodes the arguments (boundary rules) and encodes them again. Throws ValidationError.
  std::function<std::string(std::string_view input)> normalise;
  /// Shapes (semel/shape.hpp) of the list of arguments and of the result; of a result that is none, empty.
  std::function<std::string()> input_shape;
  std::function<std::string()> output_shape;
};

template <WorkflowFunction F, class Invoke>
WorkflowType workflow_type(std::string name, F function, int version, Invoke invoke) {
  using Traits = workflow_traits<std::decay_t<F>>;
  using Args = typename Traits::args;
  static_assert(Traits::by_value,
                "a workflow takes its parameters by value: its caller is gone when it goes on");
  static_assert(parameters_check<Args>::are_values,
                "a workflow takes values: pointers, views and spans do not survive a restart");
  static_assert(
      parameters_check<Args>::are_serialisable,
      "a workflow's parameters must be serialisable: describe them with BOOST_DESCRIBE_STRUCT");
  using R = typename Traits::result;
  WorkflowType type;
  type.name = std::move(name);
  type.version = version;
  type.function = function_identity(function);
  type.make = [invoke](std::string_view input) -> std::unique_ptr<Root> {
    return std::make_unique<RootOf<R>>(
        std::apply(invoke, value::decode<Args>(input, value::Mode::journal)));
  };
  type.normalise = [](std::string_view input) {
    return value::encode(value::decode<Args>(input, value::Mode::boundary));
  };
  type.input_shape = [] { return semel::type<Args>().shape; };
  type.output_shape = [] {
    if constexpr (std::is_void_v<R>) {
      return std::string{};
    } else {
      return semel::type<R>().shape;
    }
  };
  return type;
}

}  // namespace detail

/// A registered workflow; `start` takes it wherever it takes a function. Needed where a function's address does not
/// name one registration: lambdas registered twice, members, one function under two names.
template <WorkflowFunction F>
struct WorkflowRef {
  std::string name;
};

}  // namespace semel
