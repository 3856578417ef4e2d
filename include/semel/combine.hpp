// Many operations at once, and what became of them. Operations are given their ids in the order listed.
#pragma once

#include <semel/step.hpp>
#include <semel/workflow.hpp>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace semel {

namespace detail {

template <class O>
struct op_result {};

template <class O>
  requires IsOp<O>
struct op_result<O> {
  using type = typename O::result_type;
};

template <class T>
struct op_result<Workflow<T>> {
  using type = T;
};

template <class T>
struct op_result<Hook<T>> {
  using type = T;
};

template <class O>
using op_result_t = typename op_result<std::remove_cvref_t<O>>::type;

template <class T>
struct vector_of {
  using type = std::vector<T>;
};

template <>
struct vector_of<void> {
  using type = void;
};

/// A workflow running beside others in the same run.
template <class T>
class Branch final : public Kept, Listener, Resumable {
 public:
  explicit Branch(Workflow<T> workflow) : workflow_(std::move(workflow)) {}

  ~Branch() override {
    if (frame_ != nullptr) frame_->unready(*this);
  }

  void start(Frame& frame, const std::string& op) {
    frame_ = &frame;
    WorkflowPromiseBase& promise = workflow_.handle().promise();
    promise.frame = &frame;
    promise.scope.path = op;
    promise.listener = this;
    frame.ready(*this);
  }

  bool started() const { return frame_ != nullptr; }

  bool done() const { return done_; }

  bool has_failed() const { return done_ && workflow_.handle().promise().error != nullptr; }

  T take() { return workflow_.handle().promise().take(); }

  void abandon() {
    frame_->unready(*this);
    if (auto* point = workflow_.handle().promise().suspended_at) point->abandon();
  }

  Frame* frame() const { return frame_; }

  Listener* watcher = nullptr;

 private:
  void settled() override {
    done_ = true;
    if (watcher != nullptr) watcher->settled();
  }

  std::coroutine_handle<> resumption() override { return workflow_.handle(); }

  Workflow<T> workflow_;
  Frame* frame_ = nullptr;
  bool done_ = false;
};

template <class T>
class BranchNode final : public Node<T>, Listener {
 public:
  using result_type = T;

  explicit BranchNode(Workflow<T> workflow)
      : branch_(std::make_unique<Branch<T>>(std::move(workflow))) {
    branch_->watcher = this;
  }

  // Unwatched, it goes on: what it does is durable and others may depend on it.
  ~BranchNode() override {
    if (branch_ == nullptr) return;
    branch_->watcher = nullptr;
    if (branch_->started() && !branch_->done()) {
      Frame* frame = branch_->frame();
      frame->keep_running(std::move(branch_));
    }
  }

  bool is_settled() const override { return branch_ != nullptr && branch_->done(); }

  bool has_failed() const override { return branch_ != nullptr && branch_->has_failed(); }

  void abandon() override {
    if (branch_ == nullptr || !branch_->started() || branch_->done()) return;
    branch_->watcher = nullptr;
    branch_->abandon();
    Frame* frame = branch_->frame();
    frame->bury(std::move(branch_));
  }

  T take() override { return branch_->take(); }

 private:
  void start(Frame& frame, const std::string& op) override { branch_->start(frame, op); }

  void settled() override { this->notify(); }

  std::unique_ptr<Branch<T>> branch_;
};

template <IsOp O>
auto to_node(O&& op) {
  using T = typename std::remove_cvref_t<O>::result_type;
  return OpAccess::take<T>(static_cast<Op<T>&>(op));
}

template <class T>
std::unique_ptr<Node<T>> to_node(Workflow<T>&& workflow) {
  return std::make_unique<BranchNode<T>>(std::move(workflow));
}

template <class T>
std::unique_ptr<Node<T>> to_node(Hook<T>& hook);
template <class T>
std::unique_ptr<Node<T>> to_node(Hook<T>&& hook);

/// What `all`, `race` and `all_settled` have in common: several operations under the numbers of one.
class GroupCore : Listener {
 public:
  virtual ~GroupCore() = default;

 protected:
  void start_members(Frame& frame, const std::string& op, std::span<NodeBase* const> members) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      members[i]->begin(frame, op + "." + std::to_string(i + 1));
      if (!members[i]->is_settled()) {
        members[i]->listener = this;
        continue;
      }
      member_settled();
      if (stop_starting()) return;
    }
  }

  virtual void member_settled() = 0;

  virtual bool stop_starting() const { return false; }

 private:
  void settled() override { member_settled(); }
};

/// Waits for all; `fail_fast`: the first failure settles it.
template <class Result, bool fail_fast>
class AllNode : public Node<Result>, protected GroupCore {
 public:
  using result_type = Result;

  bool is_settled() const final { return settled_; }

  bool has_failed() const final { return failed_ != nullptr; }

  void abandon() final {
    for (NodeBase* member : members_) {
      member->listener = nullptr;
      member->abandon();
    }
  }

 protected:
  void start(Frame& frame, const std::string& op) final {
    collect(members_);
    start_members(frame, op, members_);
    member_settled();
  }

  virtual void collect(std::vector<NodeBase*>& members) = 0;

  /// The member whose failure settled it, or null.
  NodeBase* failed() const { return failed_; }

 private:
  void member_settled() final {
    if (settled_) return;
    if constexpr (fail_fast) {
      const auto failed =
          std::ranges::find_if(members_, [](NodeBase* member) { return member->has_failed(); });
      if (failed != members_.end()) {
        failed_ = *failed;
        for (NodeBase* member : members_) member->listener = nullptr;
      }
    }
    if (failed_ == nullptr &&
        !std::ranges::all_of(members_, [](NodeBase* member) { return member->is_settled(); })) {
      return;
    }
    settled_ = true;
    this->notify();
  }

  std::vector<NodeBase*> members_;
  NodeBase* failed_ = nullptr;
  bool settled_ = false;
};

template <class T>
result_or_monostate<T> take_or_monostate(Node<T>& node) {
  if constexpr (std::is_void_v<T>) {
    node.take();
    return {};
  } else {
    return node.take();
  }
}

template <class... T>
class AllTuple final : public AllNode<std::tuple<result_or_monostate<T>...>, true> {
 public:
  explicit AllTuple(std::unique_ptr<Node<T>>... nodes) : nodes_(std::move(nodes)...) {}

  std::tuple<result_or_monostate<T>...> take() override {
    return std::apply(
        [&](auto&... node) {
          // A failure is thrown by the member that had it, whichever place it has in the list.
          (void)(... || ((this->failed() == node.get()) && (node->take(), true)));
          return std::tuple<result_or_monostate<T>...>{take_or_monostate(*node)...};
        },
        nodes_);
  }

 private:
  void collect(std::vector<NodeBase*>& members) override {
    std::apply([&](auto&... node) { (members.push_back(node.get()), ...); }, nodes_);
  }

  std::tuple<std::unique_ptr<Node<T>>...> nodes_;
};

template <class T>
class AllVector final : public AllNode<typename vector_of<T>::type, true> {
 public:
  explicit AllVector(std::vector<std::unique_ptr<Node<T>>> nodes) : nodes_(std::move(nodes)) {}

  typename vector_of<T>::type take() override {
    for (auto& node : nodes_) {
      if (this->failed() == node.get()) node->take();
    }
    if constexpr (std::is_void_v<T>) {
      for (auto& node : nodes_) node->take();
    } else {
      std::vector<T> results;
      results.reserve(nodes_.size());
      for (auto& node : nodes_) results.push_back(node->take());
      return results;
    }
  }

 private:
  void collect(std::vector<NodeBase*>& members) override {
    for (auto& node : nodes_) members.push_back(node.get());
  }

  std::vector<std::unique_ptr<Node<T>>> nodes_;
};

}  // namespace detail

template <class O>
concept Awaitable = requires { typename detail::op_result_t<O>; };

/// What became of an operation, without an exception: `co_await` is not allowed in a catch block, this is how to
/// compensate.
template <class T>
struct Outcome {
  bool ok() const { return error_ == nullptr; }

  /// Rethrows when not ok.
  T value() const {
    if (error_) std::rethrow_exception(error_);
    if constexpr (!std::is_void_v<T>) return *value_;
  }

  std::exception_ptr error() const { return error_; }

  /// The operation was cancelled, or the run itself is being cancelled.
  bool cancelled() const {
    if (!error_) return false;
    try {
      std::rethrow_exception(error_);
    } catch (const CancelledError&) {
      return true;
    } catch (const RunCancelledError&) {
      return true;
    } catch (...) {
      return false;
    }
  }

  std::string message() const { return error_ ? detail::describe(error_).message : std::string{}; }

  /// For the engine.
  static Outcome of(detail::Node<T>& node, const std::exception_ptr& interrupted) {
    Outcome outcome;
    if (interrupted && !node.is_settled()) {
      outcome.error_ = interrupted;
      return outcome;
    }
    try {
      outcome.value_.emplace(detail::take_or_monostate(node));
    } catch (...) {
      outcome.error_ = std::current_exception();
    }
    return outcome;
  }

 private:
  std::optional<detail::result_or_monostate<T>> value_;
  std::exception_ptr error_;
};

namespace detail {

template <class T>
class SettledNode final : public Node<Outcome<T>>, Listener {
 public:
  using result_type = Outcome<T>;

  explicit SettledNode(std::unique_ptr<Node<T>> node) : node_(std::move(node)) {}

  bool is_settled() const override { return interrupted_ || node_->is_settled(); }

  bool has_failed() const override { return false; }

  void abandon() override {
    node_->listener = nullptr;
    node_->abandon();
  }

  bool interrupt(const std::exception_ptr& error) override {
    interrupted_ = error;
    return true;
  }

  Outcome<T> take() override { return Outcome<T>::of(*node_, interrupted_); }

 private:
  void start(Frame& frame, const std::string& op) override {
    try {
      node_->begin(frame, op);
    } catch (...) {
      // What cannot even begin has failed, too.
      interrupted_ = std::current_exception();
      return;
    }
    if (!node_->is_settled()) node_->listener = this;
  }

  void settled() override { this->notify(); }

  std::unique_ptr<Node<T>> node_;
  std::exception_ptr interrupted_;
};

template <class... T>
class AllSettledTuple final : public AllNode<std::tuple<Outcome<T>...>, false> {
 public:
  explicit AllSettledTuple(std::unique_ptr<Node<T>>... nodes) : nodes_(std::move(nodes)...) {}

  bool interrupt(const std::exception_ptr& error) override {
    interrupted_ = error;
    return true;
  }

  std::tuple<Outcome<T>...> take() override {
    return std::apply(
        [&](auto&... node) {
          return std::tuple<Outcome<T>...>{Outcome<T>::of(*node, interrupted_)...};
        },
        nodes_);
  }

 private:
  void collect(std::vector<NodeBase*>& members) override {
    std::apply([&](auto&... node) { (members.push_back(node.get()), ...); }, nodes_);
  }

  std::tuple<std::unique_ptr<Node<T>>...> nodes_;
  std::exception_ptr interrupted_;
};

template <class T>
class AllSettledVector final : public AllNode<std::vector<Outcome<T>>, false> {
 public:
  explicit AllSettledVector(std::vector<std::unique_ptr<Node<T>>> nodes)
      : nodes_(std::move(nodes)) {}

  bool interrupt(const std::exception_ptr& error) override {
    interrupted_ = error;
    return true;
  }

  std::vector<Outcome<T>> take() override {
    std::vector<Outcome<T>> outcomes;
    outcomes.reserve(nodes_.size());
    for (auto& node : nodes_) outcomes.push_back(Outcome<T>::of(*node, interrupted_));
    return outcomes;
  }

 private:
  void collect(std::vector<NodeBase*>& members) override {
    for (auto& node : nodes_) members.push_back(node.get());
  }

  std::vector<std::unique_ptr<Node<T>>> nodes_;
  std::exception_ptr interrupted_;
};

/// The first member to settle settles it; the others are abandoned.
template <class Result>
class RaceNode : public Node<Result>, protected GroupCore {
 public:
  using result_type = Result;

  bool is_settled() const final { return winner_.has_value(); }

  bool has_failed() const final { return winner_ && members_[*winner_]->has_failed(); }

  void abandon() final {
    for (NodeBase* member : members_) {
      member->listener = nullptr;
      member->abandon();
    }
  }

 protected:
  void start(Frame& frame, const std::string& op) final {
    collect(members_);
    start_members(frame, op, members_);
  }

  virtual void collect(std::vector<NodeBase*>& members) = 0;

  std::size_t winner() const { return *winner_; }

 private:
  bool stop_starting() const final { return winner_.has_value(); }

  void member_settled() final {
    if (winner_) return;
    const auto first =
        std::ranges::find_if(members_, [](NodeBase* member) { return member->is_settled(); });
    winner_ = static_cast<std::size_t>(first - members_.begin());
    for (std::size_t i = 0; i < members_.size(); ++i) {
      members_[i]->listener = nullptr;
      if (i != *winner_) members_[i]->abandon();
    }
    this->notify();
  }

  std::vector<NodeBase*> members_;
  std::optional<std::size_t> winner_;
};

template <class... T>
class RaceTuple final : public RaceNode<std::variant<result_or_monostate<T>...>> {
 public:
  explicit RaceTuple(std::unique_ptr<Node<T>>... nodes) : nodes_(std::move(nodes)...) {}

  std::variant<result_or_monostate<T>...> take() override {
    return take_from(std::index_sequence_for<T...>{});
  }

 private:
  using Result = std::variant<result_or_monostate<T>...>;

  template <std::size_t... I>
  Result take_from(std::index_sequence<I...>) {
    std::optional<Result> result;
    (void)(... || (I == this->winner() &&
                   (result.emplace(std::in_place_index<I>, take_or_monostate(*std::get<I>(nodes_))),
                    true)));
    return std::move(*result);
  }

  void collect(std::vector<NodeBase*>& members) override {
    std::apply([&](auto&... node) { (members.push_back(node.get()), ...); }, nodes_);
  }

  std::tuple<std::unique_ptr<Node<T>>...> nodes_;
};

}  // namespace detail

/// The winner of a race over a vector.
template <class T>
struct First {
  std::size_t index;
  T value;
};

namespace detail {

template <class T>
class RaceVector final : public RaceNode<First<result_or_monostate<T>>> {
 public:
  explicit RaceVector(std::vector<std::unique_ptr<Node<T>>> nodes) : nodes_(std::move(nodes)) {}

  First<result_or_monostate<T>> take() override {
    return {this->winner(), take_or_monostate(*nodes_[this->winner()])};
  }

 private:
  void collect(std::vector<NodeBase*>& members) override {
    for (auto& node : nodes_) members.push_back(node.get());
  }

  std::vector<std::unique_ptr<Node<T>>> nodes_;
};

template <class O>
auto to_nodes(std::vector<O> operations) {
  std::vector<std::unique_ptr<Node<op_result_t<O>>>> nodes;
  nodes.reserve(operations.size());
  for (O& operation : operations) nodes.push_back(to_node(std::move(operation)));
  return nodes;
}

[[noreturn]] void throw_empty_race();

}  // namespace detail

/// Waits for all, in any order. The first failure is thrown; the others finish and are recorded.
template <Awaitable... O>
  requires(sizeof...(O) > 0)
Op<std::tuple<detail::result_or_monostate<detail::op_result_t<O>>...>> all(O&&... operations) {
  return detail::make_op<detail::AllTuple<detail::op_result_t<O>...>>(
      detail::to_node(std::forward<O>(operations))...);
}

template <Awaitable O>
Op<typename detail::vector_of<detail::op_result_t<O>>::type> all(std::vector<O> operations) {
  return detail::make_op<detail::AllVector<detail::op_result_t<O>>>(
      detail::to_nodes(std::move(operations)));
}

/// The first to settle wins, failure included. A losing sleep is dropped, a losing step is asked to stop and its result
/// recorded, a losing hook keeps its payloads, a losing workflow is not resumed any more.
template <Awaitable... O>
  requires(sizeof...(O) > 1)
Op<std::variant<detail::result_or_monostate<detail::op_result_t<O>>...>> race(O&&... operations) {
  return detail::make_op<detail::RaceTuple<detail::op_result_t<O>...>>(
      detail::to_node(std::forward<O>(operations))...);
}

/// Of a vector: which one, and its value. An empty vector is refused: nothing could ever win.
template <Awaitable O>
Op<First<detail::result_or_monostate<detail::op_result_t<O>>>> race(std::vector<O> operations) {
  if (operations.empty()) detail::throw_empty_race();
  return detail::make_op<detail::RaceVector<detail::op_result_t<O>>>(
      detail::to_nodes(std::move(operations)));
}

/// The outcome instead of an exception. A graceful cancel of the run while it waits here is an outcome, too.
template <Awaitable O>
Op<Outcome<detail::op_result_t<O>>> settled(O&& operation) {
  return detail::make_op<detail::SettledNode<detail::op_result_t<O>>>(
      detail::to_node(std::forward<O>(operation)));
}

template <Awaitable... O>
  requires(sizeof...(O) > 0)
Op<std::tuple<Outcome<detail::op_result_t<O>>...>> all_settled(O&&... operations) {
  return detail::make_op<detail::AllSettledTuple<detail::op_result_t<O>...>>(
      detail::to_node(std::forward<O>(operations))...);
}

template <Awaitable O>
Op<std::vector<Outcome<detail::op_result_t<O>>>> all_settled(std::vector<O> operations) {
  return detail::make_op<detail::AllSettledVector<detail::op_result_t<O>>>(
      detail::to_nodes(std::move(operations)));
}

/// An operation under way: begun once, awaited when convenient. Dropped unawaited, the operation goes on.
template <class T>
struct [[nodiscard]] Pending : Op<T> {
  /// For the engine.
  explicit Pending(std::unique_ptr<detail::Node<T>> node) : Op<T>(std::move(node)) {}
};

namespace detail {

template <class T>
class BeginNode final : public Node<Pending<T>> {
 public:
  using result_type = Pending<T>;

  explicit BeginNode(std::unique_ptr<Node<T>> node) : node_(std::move(node)) {}

  bool is_settled() const override { return true; }

  bool has_failed() const override { return false; }

  void abandon() override { node_->abandon(); }

  Pending<T> take() override { return Pending<T>{std::move(node_)}; }

 private:
  void start(Frame& frame, const std::string& op) override { node_->begin(frame, op); }

  std::unique_ptr<Node<T>> node_;
};

}  // namespace detail

/// Begins an operation and goes on at once.
template <Awaitable O>
Op<Pending<detail::op_result_t<O>>> begin(O&& operation) {
  return detail::make_op<detail::BeginNode<detail::op_result_t<O>>>(
      detail::to_node(std::forward<O>(operation)));
}

/// Undo steps, collected while things go well and run newest first when they do not.
class Saga {
 public:
  /// Adds the undo of what was just done; a step like any other, begun by `compensate`.
  template <class F, class... A>
  void add(std::string name, F function, A... arguments) {
    using Call = detail::step_call<F, detail::kept_t<A>...>;
    if constexpr (detail::is_task<typename Call::returns>) {
      undo_.push_back(step(
          std::move(name),
          [function](const StepContext& context, detail::kept_t<A>... bound) mutable -> Task<void> {
            if constexpr (Call::takes_context) {
              co_await std::invoke(function, context, std::move(bound)...);
            } else {
              co_await std::invoke(function, std::move(bound)...);
            }
          },
          std::move(arguments)...));
    } else {
      undo_.push_back(step(
          std::move(name),
          [function](const StepContext& context, detail::kept_t<A>... bound) mutable -> void {
            if constexpr (Call::takes_context) {
              static_cast<void>(std::invoke(function, context, std::move(bound)...));
            } else {
              static_cast<void>(std::invoke(function, std::move(bound)...));
            }
          },
          std::move(arguments)...));
    }
  }

  /// Runs every undo, newest first, also those behind one that failed for good; then throws the first such failure.
  /// Afterwards the saga is empty.
  Op<void> compensate() {
    return detail::make_op<detail::BranchNode<void>>(run_newest_first(std::exchange(undo_, {})));
  }

 private:
  static Workflow<void> run_newest_first(std::vector<Op<void>> undo) {
    std::exception_ptr first_failure;
    while (!undo.empty()) {
      Op<void> newest = std::move(undo.back());
      undo.pop_back();
      const Outcome<void> outcome = co_await settled(std::move(newest));
      if (!outcome.ok() && !first_failure) first_failure = outcome.error();
    }
    if (first_failure) std::rethrow_exception(first_failure);
  }

  std::vector<Op<void>> undo_;
};

}  // namespace semel
