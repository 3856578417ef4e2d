// Engine: opens a store, drives runs, answers calls. `main` builds one and hands it around.
#pragma once

#include <semel/child.hpp>
#include <semel/durable.hpp>
#include <semel/hook.hpp>
#include <semel/run.hpp>
#include <semel/sql.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

struct pg_conn;  // PGconn of libpq

namespace semel {

class IdempotencyStore;

namespace detail {

struct StartSpec {
  StartOptions options;
  std::string workflow;  ///< empty: named by `function`
  std::string function;
  std::string input;  ///< JSON array of the arguments
  bool typed = true;  ///< false: from JSON, still to be checked against the parameters
};

/// What a client needs of the engine, in one workspace.
class ClientPort : public RunPort {
 public:
  virtual std::pair<std::string, bool> start(StartSpec spec) = 0;
  virtual std::vector<std::string> list(const RunFilter& filter) = 0;
  virtual Resumed resume(const std::string& token, std::string payload,
                         const ResumeOptions& options) = 0;
  /// The run's id, and whether it was started. `resume_id`: from inside a step.
  virtual std::pair<std::string, bool> resume_or_start(const std::string& token,
                                                       std::string payload, StartSpec spec,
                                                       std::optional<std::string> resume_id) = 0;
  virtual HookInfo hook(const std::string& token) = 0;
  virtual std::pair<std::string, bool> start_in(sql::Transaction& transaction, StartSpec spec) = 0;
  virtual Resumed resume_in(sql::Transaction& transaction, const std::string& token,
                            std::string payload, const ResumeOptions& options) = 0;
  virtual void transact(const std::function<void(sql::Transaction&)>& function) = 0;
};

template <class F>
constexpr bool is_plain_function = false;
template <class R, class... P>
constexpr bool is_plain_function<Workflow<R> (*)(P...)> = true;

}  // namespace detail

/// The engine's calls in one workspace. May be used from any thread, but not from inside a workflow's own code.
class Client {
 public:
  /// For the engine.
  explicit Client(std::shared_ptr<detail::ClientPort> port) : port_(std::move(port)) {}

  /// Starts a run, or hands back the one that holds the key. When it returns, the run is durable. Arguments convert to
  /// the types of the workflow's parameters here.
  template <class R, class... P>
  Started start(StartOptions options, Workflow<R> (*workflow)(P...),
                std::type_identity_t<P>... arguments) {
    using F = Workflow<R> (*)(P...);
    return started({std::move(options), "", detail::function_identity(workflow),
                    detail::encode_arguments<F>(std::move(arguments)...)});
  }

  template <class R, class... P>
  Started start(Workflow<R> (*workflow)(P...), std::type_identity_t<P>... arguments) {
    return start(StartOptions{}, workflow, std::move(arguments)...);
  }

  template <WorkflowFunction F, class... A>
    requires(!detail::is_plain_function<F>)
  Started start(StartOptions options, F workflow, A&&... arguments) {
    return started({std::move(options), "", detail::function_identity(workflow),
                    detail::encode_arguments<F>(std::forward<A>(arguments)...)});
  }

  template <WorkflowFunction F, class... A>
    requires(!detail::is_plain_function<F>)
  Started start(F workflow, A&&... arguments) {
    return start(StartOptions{}, workflow, std::forward<A>(arguments)...);
  }

  template <WorkflowFunction F, class... A>
  Started start(StartOptions options, const WorkflowRef<F>& workflow, A&&... arguments) {
    return started({std::move(options), workflow.name, "",
                    detail::encode_arguments<F>(std::forward<A>(arguments)...)});
  }

  template <WorkflowFunction F, class... A>
  Started start(const WorkflowRef<F>& workflow, A&&... arguments) {
    return start(StartOptions{}, workflow, std::forward<A>(arguments)...);
  }

  /// By name, with JSON: an array is the list of arguments, any other value the only one. WORKFLOW_NOT_FOUND,
  /// VALIDATION_ERROR with the path of what does not fit.
  Started start(StartOptions options, std::string_view workflow, const Json& input);

  /// Sends a payload to the run that has the token. When it returns, the payload is durable and will be delivered once.
  /// HookNotFoundError if nobody has it, ValidationError with the path of what does not fit. With a `resume_id`, the same
  /// call again is answered as the first time; with another payload, IdempotencyConflictError.
  template <value::Serialisable T>
  Resumed resume(const std::string& token, const T& payload, const ResumeOptions& options = {}) {
    return port_->resume(token, value::encode(payload), options);
  }

  Resumed resume(const std::string& token, const char* payload, const ResumeOptions& options = {}) {
    return resume(token, std::string(payload), options);
  }

  /// One transaction: the run that has the token gets the payload, or a new one is started that has the token and finds the
  /// payload waiting. Payloads a run leaves unread start the next one. `options` may hold neither `token` nor `key`.
  template <value::Serialisable T, class R, class... P>
  ResumedOrStarted resume_or_start(const std::string& token, const T& payload, StartOptions options,
                                   Workflow<R> (*workflow)(P...),
                                   std::type_identity_t<P>... arguments) {
    using F = Workflow<R> (*)(P...);
    return resumed_or_started(token, value::encode(payload),
                              {std::move(options), "", detail::function_identity(workflow),
                               detail::encode_arguments<F>(std::move(arguments)...)});
  }

  template <value::Serialisable T, class R, class... P>
  ResumedOrStarted resume_or_start(const std::string& token, const T& payload,
                                   Workflow<R> (*workflow)(P...),
                                   std::type_identity_t<P>... arguments) {
    return resume_or_start(token, payload, StartOptions{}, workflow, std::move(arguments)...);
  }

  template <value::Serialisable T, WorkflowFunction F, class... A>
    requires(!detail::is_plain_function<F>)
  ResumedOrStarted resume_or_start(const std::string& token, const T& payload, StartOptions options,
                                   F workflow, A&&... arguments) {
    return resumed_or_started(token, value::encode(payload),
                              {std::move(options), "", detail::function_identity(workflow),
                               detail::encode_arguments<F>(std::forward<A>(arguments)...)});
  }

  template <value::Serialisable T, WorkflowFunction F, class... A>
    requires(!detail::is_plain_function<F>)
  ResumedOrStarted resume_or_start(const std::string& token, const T& payload, F workflow,
                                   A&&... arguments) {
    return resume_or_start(token, payload, StartOptions{}, workflow, std::forward<A>(arguments)...);
  }

  template <value::Serialisable T, WorkflowFunction F, class... A>
  ResumedOrStarted resume_or_start(const std::string& token, const T& payload, StartOptions options,
                                   const WorkflowRef<F>& workflow, A&&... arguments) {
    return resumed_or_started(token, value::encode(payload),
                              {std::move(options), workflow.name, "",
                               detail::encode_arguments<F>(std::forward<A>(arguments)...)});
  }

  /// The same as `start` inside a transaction of yours: the run exists if and only if the transaction is committed.
  template <class R, class... P>
  Started start_in(sql::Transaction& transaction, StartOptions options,
                   Workflow<R> (*workflow)(P...), std::type_identity_t<P>... arguments) {
    using F = Workflow<R> (*)(P...);
    return started_in(transaction, {std::move(options), "", detail::function_identity(workflow),
                                    detail::encode_arguments<F>(std::move(arguments)...)});
  }

  template <WorkflowFunction F, class... A>
    requires(!detail::is_plain_function<F>)
  Started start_in(sql::Transaction& transaction, StartOptions options, F workflow,
                   A&&... arguments) {
    return started_in(transaction, {std::move(options), "", detail::function_identity(workflow),
                                    detail::encode_arguments<F>(std::forward<A>(arguments)...)});
  }

  template <WorkflowFunction F, class... A>
  Started start_in(sql::Transaction& transaction, StartOptions options,
                   const WorkflowRef<F>& workflow, A&&... arguments) {
    return started_in(transaction, {std::move(options), workflow.name, "",
                                    detail::encode_arguments<F>(std::forward<A>(arguments)...)});
  }

  /// The same as `resume` inside a transaction of yours.
  template <value::Serialisable T>
  Resumed resume_in(sql::Transaction& transaction, const std::string& token, const T& payload,
                    const ResumeOptions& options = {}) {
    return port_->resume_in(transaction, token, value::encode(payload), options);
  }

  /// HookNotFoundError if nobody has the token.
  HookInfo hook(const std::string& token) { return port_->hook(token); }

  /// RunNotFoundError if there is none.
  Run run(const std::string& id);

  /// Newest first.
  std::vector<Run> runs(const RunFilter& filter = {});

 protected:
  Client() = default;

  void connect(std::shared_ptr<detail::ClientPort> port) { port_ = std::move(port); }

  detail::ClientPort& port() { return *port_; }

 private:
  Started started(detail::StartSpec spec);
  Started started_in(sql::Transaction& transaction, detail::StartSpec spec);
  ResumedOrStarted resumed_or_started(const std::string& token, std::string payload,
                                      detail::StartSpec spec);

  std::shared_ptr<detail::ClientPort> port_;
};

struct AddOptions {
  std::optional<PayloadType>
      token_payload{};  ///< what a token registered by a start accepts: `type<T>()`
  int version =
      1;  ///< of the workflow's code; a run is not driven by a lower one than drove it before
};

namespace detail {
class EngineCore;
}

/// One per store. Calls that write return when what they did is durable.
class Engine : public Client {
 public:
  /// Opens "sqlite:FILE", "postgres://HOST/DATABASE" or "memory:". Throws Error STORE_UNAVAILABLE if it cannot: another
  /// process has it, its schema is newer than this program, the disk refuses.
  explicit Engine(const std::string& url, EngineOptions options = {});
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine();

  /// Registers a workflow under a name, before or after `start_workers`. A name is taken once.
  template <WorkflowFunction F>
  WorkflowRef<F> add(std::string name, F workflow, const AddOptions& options = {}) {
    WorkflowRef<F> reference{name};
    add_type(detail::workflow_type(std::move(name), workflow, options.version, workflow), options);
    return reference;
  }

  /// Registers a member of an object that outlives the engine.
  template <WorkflowFunction F, class C>
  WorkflowRef<F> add(std::string name, F workflow, C* object, const AddOptions& options = {}) {
    WorkflowRef<F> reference{name};
    add_type(detail::workflow_type(std::move(name), workflow, options.version,
                                   [workflow, object](auto&&... arguments) {
                                     return (object->*workflow)(
                                         std::forward<decltype(arguments)>(arguments)...);
                                   }),
             options);
    return reference;
  }

  /// Begins to drive runs: those left unfinished by the process before this one, and new ones. Until then starts are
  /// accepted and durable, nothing runs.
  void start_workers();

  /// Waits for the step bodies under way, writes their results and leaves the store in order. Idempotent.
  void stop();

  /// For `run_idempotently` (semel/idempotency.hpp): keys of the workspace "default", in this engine's store, in the same
  /// commits as its runs.
  IdempotencyStore& idempotency();

  /// Runs the function in a transaction on the engine's own database (see semel/sql.hpp); when it returns, what the function
  /// did is durable. What it throws is thrown here, and nothing it did stays.
  template <std::invocable<sql::Transaction&> F>
  std::invoke_result_t<F, sql::Transaction&> transaction(F&& function) {
    using Result = std::invoke_result_t<F, sql::Transaction&>;
    if constexpr (std::is_void_v<Result>) {
      port().transact([&](sql::Transaction& tx) { std::invoke(function, tx); });
    } else {
      std::optional<Result> result;
      port().transact([&](sql::Transaction& tx) { result.emplace(std::invoke(function, tx)); });
      return *std::move(result);
    }
  }

  /// On PostgreSQL: the transaction that you have begun, at READ COMMITTED, on a connection of your own to the engine's
  /// database. What `start_in`, `resume_in` and `idempotency()` do with it happens if and only if you commit it; the engine
  /// looks for it about once a second. Use it on the connection's thread and not beyond the transaction's end. Throws
  /// Error VALIDATION_ERROR where the engine or the connection is not fit for it.
  sql::AdoptedTransaction adopt(pg_conn* connection);

  /// A client of another workspace; made when first asked for, lives as long as the engine.
  Client& workspace(const std::string& name);

  /// For semel itself.
  detail::EngineCore& core() { return *core_; }

 protected:
  explicit Engine(std::unique_ptr<detail::EngineCore> core);

 private:
  void add_type(detail::WorkflowType type, const AddOptions& options);

  std::unique_ptr<detail::EngineCore> core_;
};

}  // namespace semel
