// Op<T>: a description of durable work with a result of type T. Nothing happens until a workflow awaits it.
#pragma once

#include <semel/detail/frame.hpp>
#include <semel/value.hpp>

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

namespace semel {

template <class T>
struct Op;
template <class T>
class Workflow;
template <class T>
class Hook;

namespace detail {

template <class T>
using result_or_monostate = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

/// Told when something it waits for has settled.
class Listener {
 public:
  virtual void settled() = 0;

 protected:
  ~Listener() = default;
};

/// An operation: first a description, then (once begun) under way, then settled.
class NodeBase {
 public:
  NodeBase() = default;
  NodeBase(const NodeBase&) = delete;
  NodeBase& operator=(const NodeBase&) = delete;
  virtual ~NodeBase() = default;

  void begin(Frame& frame, const std::string& op) {
    if (std::exchange(begun_, true)) return;
    start(frame, op);
  }

  bool begun() const { return begun_; }

  /// False for what is found by its name on replay.
  virtual bool takes_number() const { return true; }

  virtual bool is_settled() const = 0;
  virtual bool has_failed() const = 0;

  /// It lost a race, or its run is being cancelled: nobody will take its result.
  virtual void abandon() = 0;

  /// A graceful cancel meets it. True: it takes the error as its outcome; false: the error is thrown where it is awaited.
  virtual bool interrupt(const std::exception_ptr&) { return false; }

  Listener* listener = nullptr;

 protected:
  virtual void start(Frame& frame, const std::string& op) = 0;

  void notify() {
    if (listener != nullptr) std::exchange(listener, nullptr)->settled();
  }

 private:
  bool begun_ = false;
};

template <class T>
class Node : public NodeBase {
 public:
  /// The result, or throws the failure. Once, after it has settled.
  virtual T take() = 0;
};

struct OpAccess;

}  // namespace detail

/// Made by `step`, `sleep`, `all` …; awaited once.
template <class T>
struct [[nodiscard]] Op {
  using result_type = T;

 protected:
  explicit Op(std::unique_ptr<detail::Node<T>> node) : node_(std::move(node)) {}

 private:
  friend struct detail::OpAccess;
  std::unique_ptr<detail::Node<T>> node_;
};

template <class O>
concept IsOp = requires {
  typename std::remove_cvref_t<O>::result_type;
  requires std::derived_from<std::remove_cvref_t<O>,
                             Op<typename std::remove_cvref_t<O>::result_type>>;
};

namespace detail {

[[noreturn]] void throw_awaited_twice();

struct OpAccess {
  template <class T>
  static Op<T> make(std::unique_ptr<Node<T>> node) {
    return Op<T>{std::move(node)};
  }

  template <class T>
  static std::unique_ptr<Node<T>> take(Op<T>& op) {
    if (!op.node_) throw_awaited_twice();
    return std::move(op.node_);
  }
};

template <class N, class... A>
auto make_op(A&&... arguments) {
  using T = typename N::result_type;
  return OpAccess::make<T>(
      std::unique_ptr<Node<T>>(std::make_unique<N>(std::forward<A>(arguments)...)));
}

/// An operation that settles with a journalled value.
template <class T>
class LeafNode : public Node<T>, protected Leaf {
 public:
  using result_type = T;

  ~LeafNode() override {
    if (frame_ != nullptr && !settled_) frame_->forget(*this);
  }

  bool is_settled() const final { return settled_; }

  bool has_failed() const final { return failure_ != nullptr; }

  void abandon() final {
    if (frame_ != nullptr && !settled_) frame_->abandon(*this);
  }

  T take() override {
    if (failure_) throw_failure(*failure_);
    if constexpr (!std::is_void_v<T>)
      return semel::value::decode<T>(value_, semel::value::Mode::journal);
  }

 protected:
  virtual void ask(Frame& frame, const std::string& op) = 0;
  [[noreturn]] virtual void throw_failure(const Failure& failure) = 0;

  /// JSON, once it has settled and not failed.
  const std::string& value() const { return value_; }

 private:
  void start(Frame& frame, const std::string& op) final {
    frame_ = &frame;
    ask(frame, op);
  }

  void settle(Settlement settlement) final {
    settled_ = true;
    if (settlement.failure != nullptr) {
      failure_ = std::make_unique<Failure>(*settlement.failure);
    } else {
      value_ = std::move(settlement.value);
    }
    this->notify();
  }

  Frame* frame_ = nullptr;
  bool settled_ = false;
  std::string value_;
  std::unique_ptr<Failure> failure_;
};

/// An operation that is answered while it is asked.
template <class T>
class ImmediateNode : public Node<T> {
 public:
  using result_type = T;

  bool is_settled() const final { return settled_; }

  bool has_failed() const final { return false; }

  void abandon() final {}

  T take() final {
    if constexpr (!std::is_void_v<T>) return std::move(answer_);
  }

 protected:
  /// False: the run has diverged; then it never settles.
  virtual bool ask(Frame& frame, const std::string& op, result_or_monostate<T>& answer) = 0;

 private:
  void start(Frame& frame, const std::string& op) final { settled_ = ask(frame, op, answer_); }

  bool settled_ = false;
  result_or_monostate<T> answer_{};
};

}  // namespace detail
}  // namespace semel
