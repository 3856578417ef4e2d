// Steps: side effects whose results are journalled. A step whose result is recorded never runs again.
#pragma once

#include <semel/operation.hpp>

#include <concepts>
#include <functional>
#include <tuple>

namespace semel {

namespace detail {

/// What a step body may ask of the engine while it runs.
class StepHost {
 public:
  virtual ~StepHost() = default;
  virtual Client& client(const std::string& step_id) = 0;
  virtual void heartbeat(std::string progress) = 0;
};

std::uint64_t hash_arguments(std::string_view json);

}  // namespace detail

/// What a step is told about itself, if its function takes one as its first parameter.
struct StepContext {
  std::string id;  ///< the same on every attempt: the idempotency key for whatever the step calls
  std::string run_id;
  int attempt = 1;
  TimePoint deadline{};  ///< when the attempt times out; the maximum if it has no time-out
  std::stop_token
      stop{};  ///< set when the attempt timed out, lost a race, or its run is being cancelled or stopped
  Json progress;  ///< what the attempt before this one gave to `heartbeat`

  /// The engine's calls. Starts made here without a key get one derived from the step's id and the call's number, so a
  /// retried step does not make them twice.
  Client& client() const { return host->client(id); }

  /// The attempt is alive: its time-out starts anew, and `progress` is handed to the next attempt.
  void heartbeat(const Json& progress_now = {}) const {
    host->heartbeat(progress_now.is_null() ? std::string{} : value::to_text(progress_now));
  }

  std::shared_ptr<detail::StepHost> host{};  ///< for the engine
};

namespace detail {

template <class A>
constexpr bool only_points_to_text = std::is_same_v<A, const char*> || std::is_same_v<A, char*> ||
                                     std::is_same_v<A, std::string_view>;

/// As what a bound argument is kept: text of which only a pointer was given is copied.
template <class A>
using kept_t = std::conditional_t<only_points_to_text<A>, std::string, A>;

template <class F, class... A>
struct step_call {};

template <class F, class... A>
  requires std::invocable<F&, const StepContext&, A...>
struct step_call<F, A...> {
  using returns = std::invoke_result_t<F&, const StepContext&, A...>;
  static constexpr bool takes_context = true;
};

template <class F, class... A>
  requires(!std::invocable<F&, const StepContext&, A...> && std::invocable<F&, A...>)
struct step_call<F, A...> {
  using returns = std::invoke_result_t<F&, A...>;
  static constexpr bool takes_context = false;
};

template <class F, class... A>
using step_result_t = typename unwrap<typename step_call<F, A...>::returns>::type;

/// Throws FatalError where there is no JSON for it: it will not be better the next time.
template <class T>
std::string encode_step_result(const T& result) {
  try {
    return value::encode(result);
  } catch (const ValidationError& misfit) {
    throw FatalError(misfit.what());
  }
}

template <class F, class... A>
class BodyOf final : public StepBody {
 public:
  explicit BodyOf(F function, A... arguments)
      : function_(std::move(function)), arguments_(std::move(arguments)...) {}

  bool is_task() const override { return detail::is_task<Returns>; }

  std::string run(const StepContext& context) override {
    if constexpr (detail::is_task<Returns>) {
      return {};
    } else if constexpr (std::is_void_v<Result>) {
      auto arguments = arguments_;
      call(context, arguments);
      return "null";
    } else {
      auto arguments = arguments_;
      return encode_step_result(call(context, arguments));
    }
  }

  Task<std::string> start(const StepContext& context) override {
    if constexpr (!detail::is_task<Returns>) {
      co_return std::string{};
    } else if constexpr (std::is_void_v<Result>) {
      auto arguments = arguments_;  // in this frame: a Task may take them by reference
      co_await call(context, arguments);
      co_return "null";
    } else {
      auto arguments = arguments_;
      co_return encode_step_result(co_await call(context, arguments));
    }
  }

  std::uint64_t hash() const {
    if constexpr (sizeof...(A) == 0) {
      return 0;
    } else {
      return hash_arguments(value::encode(arguments_));
    }
  }

 private:
  using Call = step_call<F, A...>;
  using Returns = typename Call::returns;
  using Result = typename unwrap<Returns>::type;
  static_assert((value::Serialisable<A> && ...),
                "a step's bound arguments must be serialisable; capture what is not");
  static_assert(std::is_void_v<Result> || value::Serialisable<result_or_monostate<Result>>,
                "a step's result must be serialisable: describe it with BOOST_DESCRIBE_STRUCT");

  /// `arguments` are a copy: the next attempt gets the same ones.
  Returns call(const StepContext& context, std::tuple<A...>& arguments) {
    return std::apply(
        [&](A&... each) -> Returns {
          if constexpr (Call::takes_context) {
            return std::invoke(function_, context, std::move(each)...);
          } else {
            return std::invoke(function_, std::move(each)...);
          }
        },
        arguments);
  }

  F function_;
  std::tuple<A...> arguments_;
};

template <class T>
class StepNode final : public LeafNode<T> {
 public:
  explicit StepNode(StepSpec spec) : spec_(std::move(spec)) {}

 private:
  void ask(Frame& frame, const std::string& op) override {
    frame.ask_step(*this, op, std::move(spec_));
  }

  [[noreturn]] void throw_failure(const Failure& failure) override { throw_step_failure(failure); }

  StepSpec spec_;
};

/// Throws VALIDATION_ERROR for options that make no sense.
void check_step(const std::string& name, const StepOptions& options);

}  // namespace detail

/// Describes a step with options. The function may return a value, nothing, or a Task of either; its result is
/// journalled as JSON. Throws VALIDATION_ERROR at once for an empty name, no attempts, or retries of an at_most_once step.
template <class F, class... A>
  requires requires { typename detail::step_result_t<F, detail::kept_t<A>...>; }
Op<detail::step_result_t<F, detail::kept_t<A>...>> step(std::string name, StepOptions options,
                                                        F function, A... arguments) {
  detail::check_step(name, options);
  auto body = std::make_shared<detail::BodyOf<F, detail::kept_t<A>...>>(
      std::move(function), detail::kept_t<A>(std::move(arguments))...);
  const std::uint64_t hash = body->hash();
  return detail::make_op<detail::StepNode<detail::step_result_t<F, detail::kept_t<A>...>>>(
      detail::StepSpec{std::move(name), options, std::move(body), hash});
}

/// Describes a step with the default options: 4 attempts, exponential back-off from one second.
template <class F, class... A>
  requires requires { typename detail::step_result_t<F, detail::kept_t<A>...>; }
Op<detail::step_result_t<F, detail::kept_t<A>...>> step(std::string name, F function,
                                                        A... arguments) {
  return step(std::move(name), StepOptions{}, std::move(function), std::move(arguments)...);
}

}  // namespace semel
