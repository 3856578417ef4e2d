// Other runs, from inside a workflow: started in the commit that asks for them, waited for without a thread.
#pragma once

#include <semel/combine.hpp>

namespace semel {

namespace detail {

template <class T>
class RunNode final : public LeafNode<T> {
 public:
  explicit RunNode(ChildSpec spec) : spec_(std::move(spec)) {}

 private:
  void ask(Frame& frame, const std::string& op) override {
    frame.ask_child(*this, op, std::move(spec_));
  }

  [[noreturn]] void throw_failure(const Failure& failure) override { throw_run_failure(failure); }

  ChildSpec spec_;
};

template <class T>
class ResultNode final : public LeafNode<T> {
 public:
  explicit ResultNode(std::string run_id) : run_id_(std::move(run_id)) {}

 private:
  void ask(Frame& frame, const std::string& op) override { frame.ask_result(*this, op, run_id_); }

  [[noreturn]] void throw_failure(const Failure& failure) override { throw_run_failure(failure); }

  std::string run_id_;
};

template <class T>
Op<T> run_op(StartOptions options, std::string workflow, std::string function, std::string input,
             bool wait) {
  return make_op<RunNode<T>>(ChildSpec{std::move(workflow), std::move(function), std::move(input),
                                       std::move(options), wait});
}

}  // namespace detail

/// Starts a run of its own and waits for its result. RunFailedError or RunCancelledError where it does not complete.
/// Cancelling this run cancels the child, unless it was there before and only attached to.
template <WorkflowFunction F, class... A>
Op<WorkflowResult<F>> child(StartOptions options, F workflow, A&&... arguments) {
  return detail::run_op<WorkflowResult<F>>(
      std::move(options), "", detail::function_identity(workflow),
      detail::encode_arguments<F>(std::forward<A>(arguments)...), true);
}

template <WorkflowFunction F, class... A>
Op<WorkflowResult<F>> child(F workflow, A&&... arguments) {
  return child(StartOptions{}, workflow, std::forward<A>(arguments)...);
}

template <WorkflowFunction F, class... A>
Op<WorkflowResult<F>> child(StartOptions options, const WorkflowRef<F>& workflow,
                            A&&... arguments) {
  return detail::run_op<WorkflowResult<F>>(
      std::move(options), workflow.name, "",
      detail::encode_arguments<F>(std::forward<A>(arguments)...), true);
}

/// Starts a run of its own and gives its id; nobody waits for it and cancelling does not reach it.
template <WorkflowFunction F, class... A>
Op<std::string> spawn(StartOptions options, F workflow, A&&... arguments) {
  return detail::run_op<std::string>(std::move(options), "", detail::function_identity(workflow),
                                     detail::encode_arguments<F>(std::forward<A>(arguments)...),
                                     false);
}

template <WorkflowFunction F, class... A>
Op<std::string> spawn(F workflow, A&&... arguments) {
  return spawn(StartOptions{}, workflow, std::forward<A>(arguments)...);
}

template <WorkflowFunction F, class... A>
Op<std::string> spawn(StartOptions options, const WorkflowRef<F>& workflow, A&&... arguments) {
  return detail::run_op<std::string>(std::move(options), workflow.name, "",
                                     detail::encode_arguments<F>(std::forward<A>(arguments)...),
                                     false);
}

/// Waits for another run of the workspace, holding no thread. RunNotFoundError if there is none of that id.
template <class T>
Op<T> result_of(std::string run_id) {
  return detail::make_op<detail::ResultNode<T>>(std::move(run_id));
}

}  // namespace semel
