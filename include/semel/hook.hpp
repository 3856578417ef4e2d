// Hooks: places where a run waits for input, found from outside by their token.
//
// Making one registers nothing. The first thing awaited of it does: `conflict` or `open` say how that went, `next` and
// the others throw HookConflictError. The token is free again when the hook is disposed, closed or goes out of scope, and
// when its run ends; not when its coroutine merely leaves memory.
#pragma once

#include <semel/combine.hpp>
#include <semel/durable.hpp>
#include <semel/shape.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace semel {

/// Who has the token.
struct Conflict {
  std::string run_id;

  bool operator==(const Conflict&) const = default;
};

namespace detail {

/// What a Hook and the operations on it share.
class HookCore final : public HookLeaf {
 public:
  enum class State { fresh, asked, open, conflict, gone };

  /// Somebody who waits to hear whether the token was free.
  class Waiter {
   public:
    virtual void answered() = 0;

   protected:
    ~Waiter() = default;
  };

  HookCore(std::string token, std::string shape, bool webhook)
      : spec_{std::move(token), std::move(shape), webhook} {}

  HookCore(const HookCore&) = delete;
  HookCore& operator=(const HookCore&) = delete;

  ~HookCore() {
    if (frame_ != nullptr) frame_->forget_hook(*this);
  }

  State state() const { return state_; }

  const std::string& token() const { return spec_.token; }

  const std::string& op() const { return op_; }

  const std::string& owner() const { return owner_; }

  /// Registers it, once. `awaited`: somebody waits for the answer; otherwise only a conflict is heard of.
  void ask(Frame& frame, const std::string& op, bool awaited) {
    if (state_ != State::fresh) return;
    frame_ = &frame;
    op_ = op;
    state_ = awaited ? State::asked : State::open;
    frame.ask_hook(*this, op, spec_, awaited);
  }

  void add(Waiter& waiter) { waiting_.push_back(&waiter); }

  void remove(Waiter& waiter) noexcept { std::erase(waiting_, &waiter); }

  /// Frees the token. What still awaits it is told so.
  void release() noexcept {
    if (state_ == State::asked || state_ == State::open) frame_->release_hook(op_);
    gone();
  }

  void gone() noexcept override {
    if (state_ == State::conflict) return;
    state_ = State::gone;
    tell();
  }

  /// Why nothing can be awaited of it; empty code: all is well.
  Failure obstacle() const {
    if (state_ == State::conflict) {
      return {.code = "HOOK_CONFLICT",
              .message = "the token \"" + spec_.token + "\" belongs to run " + owner_,
              .details = value::encode(owner_),
              .name = {},
              .op = {}};
    }
    if (state_ == State::gone) {
      return {.code = "HOOK_DISPOSED",
              .message = "the hook was disposed",
              .details = {},
              .name = {},
              .op = {}};
    }
    return {};
  }

 private:
  void settle(Settlement settlement) override {
    if (settlement.failure != nullptr) {
      state_ = State::conflict;
      owner_ = value::decode<std::string>(settlement.failure->details, value::Mode::journal);
    } else if (state_ == State::asked) {
      state_ = State::open;
    }
    tell();
  }

  void tell() {
    for (Waiter* waiter : std::exchange(waiting_, {})) waiter->answered();
  }

  HookSpec spec_;
  State state_ = State::fresh;
  Frame* frame_ = nullptr;
  std::string op_;
  std::string owner_;
  std::vector<Waiter*> waiting_;
};

/// Waits for the registration.
template <class R>
class RegisterNode : public Node<R>, HookCore::Waiter {
 public:
  using result_type = R;

  explicit RegisterNode(std::shared_ptr<HookCore> core) : core_(std::move(core)) {}

  ~RegisterNode() override { core_->remove(*this); }

  bool is_settled() const final {
    return core_->state() != HookCore::State::fresh && core_->state() != HookCore::State::asked;
  }

  void abandon() final { core_->remove(*this); }

 protected:
  HookCore& core() { return *core_; }

  const HookCore& core() const { return *core_; }

 private:
  void start(Frame& frame, const std::string& op) final {
    core_->ask(frame, op, true);
    if (!is_settled()) core_->add(*this);
  }

  void answered() final { this->notify(); }

  std::shared_ptr<HookCore> core_;
};

class OpenNode final : public RegisterNode<std::string> {
 public:
  using RegisterNode::RegisterNode;

  bool has_failed() const override { return !core().obstacle().code.empty(); }

  std::string take() override {
    if (const Failure obstacle = core().obstacle(); !obstacle.code.empty())
      throw_hook_failure(obstacle);
    return core().token();
  }
};

class ConflictNode final : public RegisterNode<std::optional<Conflict>> {
 public:
  using RegisterNode::RegisterNode;

  bool has_failed() const override { return core().state() == HookCore::State::gone; }

  std::optional<Conflict> take() override {
    if (core().state() == HookCore::State::conflict) return Conflict{core().owner()};
    if (has_failed()) throw_hook_failure(core().obstacle());
    return std::nullopt;
  }
};

/// What is asked of a registered hook. One that is not is registered by it.
template <class T>
class HookNode : public LeafNode<T> {
 public:
  explicit HookNode(std::shared_ptr<HookCore> core) : core_(std::move(core)) {}

 protected:
  virtual void ask_registered(Frame& frame, const std::string& op, const std::string& hook) = 0;

 private:
  void ask(Frame& frame, const std::string& op) final {
    if (const Failure obstacle = core_->obstacle(); !obstacle.code.empty()) {
      static_cast<Leaf&>(*this).settle({{}, &obstacle});
      return;
    }
    // No member of a group has the number 0.
    core_->ask(frame, op + ".0", false);
    ask_registered(frame, op, core_->op());
  }

  [[noreturn]] void throw_failure(const Failure& failure) final { throw_hook_failure(failure); }

  std::shared_ptr<HookCore> core_;
};

template <class T>
class NextNode : public HookNode<T> {
 public:
  using HookNode<T>::HookNode;

 private:
  void ask_registered(Frame& frame, const std::string& op, const std::string& hook) final {
    frame.ask_next(*this, op, hook);
  }
};

template <class T>
class TryNextNode final : public HookNode<std::optional<T>> {
 public:
  using HookNode<std::optional<T>>::HookNode;

  std::optional<T> take() override {
    // Without a value: nothing waited. The payload itself may well be null.
    if (!this->has_failed() && this->value().empty()) return std::nullopt;
    if (this->has_failed()) return HookNode<std::optional<T>>::take();
    return value::decode<T>(this->value(), value::Mode::journal);
  }

 private:
  void ask_registered(Frame& frame, const std::string& op, const std::string& hook) override {
    frame.ask_try(*this, op, hook);
  }
};

class CloseNode final : public LeafNode<bool> {
 public:
  explicit CloseNode(std::shared_ptr<HookCore> core) : core_(std::move(core)) {}

 private:
  void ask(Frame& frame, const std::string& op) override {
    const Failure obstacle = core_->obstacle();
    if (core_->state() == HookCore::State::conflict) {
      static_cast<Leaf&>(*this).settle({{}, &obstacle});
    } else if (core_->state() == HookCore::State::fresh || !obstacle.code.empty()) {
      static_cast<Leaf&>(*this).settle({"true", nullptr});  // there is nothing to free
    } else {
      frame.ask_close(*this, op, core_->op());
    }
  }

  [[noreturn]] void throw_failure(const Failure& failure) override { throw_hook_failure(failure); }

  std::shared_ptr<HookCore> core_;
};

/// The next payload, or nothing after a time.
template <class T>
class NextWithinNode final : public RaceNode<std::optional<T>> {
 public:
  NextWithinNode(std::shared_ptr<HookCore> core, std::chrono::nanoseconds limit)
      : next_(std::move(core)), limit_(limit) {}

  std::optional<T> take() override {
    if (this->winner() == 0) return next_.take();
    return std::nullopt;
  }

 private:
  void collect(std::vector<NodeBase*>& members) override {
    members.push_back(&next_);
    members.push_back(&limit_);
  }

  NextNode<T> next_;
  SleepNode limit_;
};

/// Throws VALIDATION_ERROR for a token that is not 1 to 255 bytes.
void check_token(const std::string& token);

}  // namespace detail

/// A place where a run waits for payloads of type T. Lives in the workflow that made it, or where it was moved to.
template <class T>
class [[nodiscard]] Hook {
  static_assert(value::Serialisable<T>,
                "a hook's payload must be serialisable: describe it with BOOST_DESCRIBE_STRUCT");

 public:
  using payload_type = T;

  /// An empty token: one is made up when it is registered, which nobody can guess.
  explicit Hook(std::string token) : Hook(std::move(token), type<T>().shape, false) {}

  /// For `webhook`.
  Hook(std::string token, std::string shape, bool webhook) {
    if (!token.empty()) detail::check_token(token);
    core_ = std::make_shared<detail::HookCore>(std::move(token), std::move(shape), webhook);
  }

  Hook(Hook&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}

  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;
  Hook& operator=(Hook&&) = delete;

  ~Hook() {
    if (core_ != nullptr) core_->release();
  }

  /// One that was made up is there after `open` or `conflict`.
  std::string token() const { return core_->token(); }

  /// Registers the token and gives it; HookConflictError if another hook has it.
  Op<std::string> open() { return detail::make_op<detail::OpenNode>(core_); }

  /// Registers the token, or says which run has it.
  Op<std::optional<Conflict>> conflict() { return detail::make_op<detail::ConflictNode>(core_); }

  /// The next payload, in the order they were accepted. Awaiting the hook itself is the same.
  Op<T> next() { return detail::make_op<detail::NextNode<T>>(core_); }

  /// Nothing if none came within `limit`; one that comes later is not lost.
  template <class Rep, class Period>
  Op<std::optional<T>> next(std::chrono::duration<Rep, Period> limit) {
    return detail::make_op<detail::NextWithinNode<T>>(core_, detail::sleep_duration(limit));
  }

  /// A payload that is here already.
  Op<std::optional<T>> try_next() { return detail::make_op<detail::TryNextNode<T>>(core_); }

  /// Frees the token if no payload waits; otherwise false, and the hook stays as it is.
  Op<bool> close() { return detail::make_op<detail::CloseNode>(core_); }

  /// Frees the token, whatever waits. An await of it in another branch throws HookDisposedError.
  void dispose() { core_->release(); }

  /// For the engine.
  const std::shared_ptr<detail::HookCore>& core() const { return core_; }

 private:
  std::shared_ptr<detail::HookCore> core_;
};

/// A hook whose token the caller chooses: 1 to 255 bytes, unique among the active hooks of the workspace.
template <class T>
Hook<T> hook(std::string token) {
  detail::check_token(token);
  return Hook<T>(std::move(token));
}

/// A hook with a token made up when it is registered.
template <class T>
Hook<T> hook() {
  return Hook<T>("");
}

/// What came in by the public form of a hook. A body that is not UTF-8 is in `bodyBase64` instead.
struct WebhookRequest {
  std::string method;
  std::map<std::string, std::string>
      headers;                               ///< names in lower case; repeated ones joined by ", "
  std::map<std::string, std::string> query;  ///< decoded; of repeated ones the last
  std::string body;
  // NOLINTBEGIN(readability-identifier-naming): as in JSON
  std::optional<std::string> bodyBase64{};
  std::optional<std::string> answerId{};  ///< whoever sent it waits for `answer`
  // NOLINTEND(readability-identifier-naming)
};
BOOST_DESCRIBE_STRUCT(WebhookRequest, (), (method, headers, query, body, bodyBase64, answerId))

/// What whoever sent a request to a webhook hears.
struct WebhookAnswer {
  int status = 200;
  std::map<std::string, std::string> headers{};
  std::string body{};
};
BOOST_DESCRIBE_STRUCT(WebhookAnswer, (), (status, headers, body))

/// The workflow answers, by `answer`; who has waited that long, a minute at most, hears 202.
struct AnswerWithin {
  Millis time{std::chrono::seconds{10}};
};

namespace detail {

/// What a webhook answers is kept with the shape of its payloads: both are the hook's, wherever it is found.
std::string with_answer(std::string shape, const WebhookAnswer& answer);
std::string with_answer(std::string shape, AnswerWithin answer);

}  // namespace detail

/// A hook for requests from elsewhere: the token is the secret. Made up, it has 192 random bits. Whoever sends one hears
/// 202 once it is durable.
inline Hook<WebhookRequest> webhook(std::string token = "") {
  return {std::move(token), type<WebhookRequest>().shape, true};
}

/// The same with an answer of your own, or with one that the workflow gives to each request. Throws VALIDATION_ERROR for an
/// answer that cannot be sent.
inline Hook<WebhookRequest> webhook(std::string token, const WebhookAnswer& answer) {
  return {std::move(token), detail::with_answer(type<WebhookRequest>().shape, answer), true};
}

inline Hook<WebhookRequest> webhook(std::string token, AnswerWithin answer) {
  return {std::move(token), detail::with_answer(type<WebhookRequest>().shape, answer), true};
}

/// Answers a request of a webhook made with `AnswerWithin`; usually with what a step gave. The first answer counts, and
/// a repeat of the request under the same key hears it too. VALIDATION_ERROR where nobody waits for one.
Op<void> answer(const WebhookRequest& request, const WebhookAnswer& answer);

namespace detail {

/// Awaits a hook that was given away.
template <class T>
class OwnedNextNode final : public NextNode<T> {
 public:
  explicit OwnedNextNode(Hook<T> hook) : NextNode<T>(hook.core()), hook_(std::move(hook)) {}

 private:
  Hook<T> hook_;
};

template <class T>
std::unique_ptr<Node<T>> to_node(Hook<T>& hook) {
  return std::make_unique<NextNode<T>>(hook.core());
}

template <class T>
std::unique_ptr<Node<T>> to_node(Hook<T>&& hook) {
  return std::make_unique<OwnedNextNode<T>>(std::move(hook));
}

template <class U>
OpAwaiter<U> WorkflowPromiseBase::await_transform(Hook<U>& hook) {
  return OpAwaiter<U>{*this, std::make_unique<NextNode<U>>(hook.core())};
}

template <class U>
OpAwaiter<U> WorkflowPromiseBase::await_transform(Hook<U>&& hook) {
  return await_transform(hook);
}

/// Ends this generation of the run; what follows is the next one's.
class ContinueNode final : public ImmediateNode<void> {
 public:
  explicit ContinueNode(std::string arguments) : arguments_(std::move(arguments)) {}

 private:
  bool ask(Frame& frame, const std::string&, std::monostate&) override {
    frame.ask_continue(arguments_);
    return false;  // it never goes on from here
  }

  std::string arguments_;
};

/// As it is written: text is a string, everything else itself.
template <class A>
using argument_t = std::conditional_t<std::is_convertible_v<A, std::string_view>, std::string,
                                      std::remove_cvref_t<A>>;

}  // namespace detail

/// Begins the workflow anew with other arguments: the same run, its tokens and waiting payloads, an empty journal. What was
/// under way is dropped; what follows `co_await` is never reached. VALIDATION_ERROR if the arguments do not fit.
template <class... A>
Op<void> continue_as_new(A&&... arguments) {
  return detail::make_op<detail::ContinueNode>(value::encode(
      std::tuple<detail::argument_t<A>...>{detail::argument_t<A>(std::forward<A>(arguments))...}));
}

}  // namespace semel
