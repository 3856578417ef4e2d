// HTTP endpoints by contract. A contract is a value that both sides use: method, path, the types of body and answer, and
// what idempotency it wants. The server enforces it, the client keeps it, /openapi.json is made from it.
//
//   inline const auto create_appointment =
//       semel::http::post<CreateAppointment, Appointment>("/appointments")
//           .named("appointments.create")
//           .idempotent({.required = true, .ttl = 24h});
//
//   server.handle(create_appointment, [](const CreateAppointment& body, semel::http::Call& call) { … });
//   client.call(create_appointment, {.patient = "p1"});
#pragma once

#include <semel/detail/http_message.hpp>
#include <semel/error.hpp>
#include <semel/idempotency.hpp>
#include <semel/shape.hpp>
#include <semel/task.hpp>
#include <semel/value.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
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

class Engine;

namespace http {

/// What a contract wants of `Idempotency-Key`.
struct Idempotent {
  bool required = false;  ///< a request without a key is refused
  Scope scope = Scope::actor_tenant;
  Millis ttl{std::chrono::hours{24}};  ///< how long an answer is remembered, from its completion
  std::string header = "idempotency-key";
  Millis lease{std::chrono::seconds{30}};  ///< renewed while the handler runs; how long a key stays
                                           ///< in progress whose server was killed
};

/// A request on its way through a handler, beside its body.
struct Call {
  std::string actor;   ///< who asks, as authentication found
  std::string tenant;  ///< and for whom
  std::map<std::string, std::string>
      headers;                                ///< names in lower case; repeated ones joined by ", "
  int status = 200;                           ///< of the answer; for the handler to change
  std::map<std::string, std::string> path{};  ///< the parameters in the path, decoded
  std::map<std::string, std::string> query{};  ///< decoded; of repeated ones the last
  std::vector<Header> answer_headers{};        ///< for the handler to fill
};

/// Thrown by a handler to answer with a problem of its own. `more` are members beside the usual ones.
struct ProblemError : Error {
  ProblemError(int status, std::string code, const std::string& detail, Json more = {})
      : Error(std::move(code), detail), status(status), more(std::move(more)) {}

  int status;
  Json more;
};

namespace detail {

/// A contract without its types.
struct ContractSpec {
  std::string method;
  std::string path;
  std::string name;
  std::optional<Idempotent> idempotency{};
  std::function<std::string(const Call&)> idempotency_namespace{};  ///< empty: method and path
  std::function<std::map<std::string, std::string>(const Call&)>
      idempotency_scope{};           ///< empty: as `idempotency` says
  std::string request_shape{};       ///< semel/shape.hpp; empty: no body
  std::string response_shape{};      ///< the same
  std::vector<std::string> query{};  ///< parameters it knows; for the description
};

template <class T>
inline constexpr bool is_nothing = std::same_as<T, std::monostate>;

template <class T>
std::string shape_of() {
  if constexpr (is_nothing<T>) {
    return "";
  } else {
    return type<T>().shape;
  }
}

}  // namespace detail

/// Method, path, types and idempotency of an endpoint. `std::monostate` stands for no body. Made by `post` and the like;
/// each call gives a changed copy.
template <class Req, class Res>
class Contract {
 public:
  explicit Contract(std::string method, std::string path) {
    spec_.method = std::move(method);
    spec_.name = spec_.method + " " + path;
    spec_.path = std::move(path);
    spec_.request_shape = detail::shape_of<Req>();
    spec_.response_shape = detail::shape_of<Res>();
  }

  /// The name in logs, metrics and OpenAPI ("operationId"); without one, method and path.
  Contract named(std::string name) const {
    Contract changed = *this;
    changed.spec_.name = std::move(name);
    return changed;
  }

  Contract idempotent(Idempotent idempotency) const {
    Contract changed = *this;
    changed.spec_.idempotency = std::move(idempotency);
    return changed;
  }

  /// `f(const Call&) -> std::string`: keys are apart where namespaces differ. Without it: method and path.
  template <std::invocable<const Call&> F>
  Contract idempotency_namespace(F f) const {
    Contract changed = *this;
    changed.spec_.idempotency_namespace = std::move(f);
    return changed;
  }

  /// `f(const Call&) -> std::map<std::string, std::string>` instead of what `Idempotent::scope` says.
  template <std::invocable<const Call&> F>
  Contract idempotency_scope(F f) const {
    Contract changed = *this;
    changed.spec_.idempotency_scope = std::move(f);
    return changed;
  }

  /// `f(const Req&)` or `f(const Req&, const Call&)`: the value that has to be the same under the same key, instead of
  /// the whole request.
  template <class F>
    requires std::invocable<F, const Req&> || std::invocable<F, const Req&, const Call&>
  Contract fingerprint_input(F f) const {
    Contract changed = *this;
    changed.fingerprint_input_ = [f = std::move(f)](const Req& body, const Call& call) {
      if constexpr (std::invocable<F, const Req&, const Call&>) {
        return value::canonical_of<std::decay_t<std::invoke_result_t<F, const Req&, const Call&>>>(
            f(body, call));
      } else {
        return value::canonical_of<std::decay_t<std::invoke_result_t<F, const Req&>>>(f(body));
      }
    };
    return changed;
  }

  const detail::ContractSpec& spec() const { return spec_; }

  const std::function<std::string(const Req&, const Call&)>& fingerprint_of() const {
    return fingerprint_input_;
  }

 private:
  detail::ContractSpec spec_;
  std::function<std::string(const Req&, const Call&)> fingerprint_input_;
};

/// A path is "/orders/{order}/items": what stands in braces matches one part of the path and is given to the handler.
template <class Req, class Res>
Contract<Req, Res> post(std::string path) {
  return Contract<Req, Res>{"POST", std::move(path)};
}

template <class Req, class Res>
Contract<Req, Res> put(std::string path) {
  return Contract<Req, Res>{"PUT", std::move(path)};
}

template <class Req, class Res>
Contract<Req, Res> patch(std::string path) {
  return Contract<Req, Res>{"PATCH", std::move(path)};
}

template <class Res>
Contract<std::monostate, Res> get(std::string path) {
  return Contract<std::monostate, Res>{"GET", std::move(path)};
}

template <class Res>
Contract<std::monostate, Res> del(std::string path) {
  return Contract<std::monostate, Res>{"DELETE", std::move(path)};
}

// ------------------------------------------------------------------------------------------------ the server

/// Who is asking.
struct Identity {
  std::string actor;
  std::string tenant;
};

/// Why somebody is turned away: UNAUTHENTICATED (401) or FORBIDDEN (403), and a sentence.
struct Refusal {
  std::string code = "UNAUTHENTICATED";
  std::string message = "this needs a credential";
};

struct ServerLimits {
  std::size_t header_bytes_max = std::size_t{32} << 10U;
  std::size_t headers_max = 100;
  std::size_t body_bytes_max = std::size_t{1} << 20U;
  Millis header_timeout{std::chrono::seconds{10}};
  Millis idle_timeout{std::chrono::seconds{60}};  ///< also for a body in which no byte arrives
  Millis keyed_body_timeout{std::chrono::seconds{60}};  ///< for all of the body of a keyed request
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;         ///< 0: one that is free; `Server::port` says which
  unsigned threads = 1;           ///< that read, write and run `Task` handlers
  unsigned handler_threads = 64;  ///< that run blocking handlers, at most
  ServerLimits limits{};
  Millis stop_grace{std::chrono::seconds{10}};  ///< for requests under way when the server stops
  std::string certificate_file{};               ///< PEM; with `key_file`: https
  std::string key_file{};
  /// Who is asking. Called for every request to a contract, before anything of its body is looked at; must not block.
  std::function<std::variant<Identity, Refusal>(const Request&)> authenticate{};
  /// Whether they may, given the contract's name; must not block.
  std::function<std::optional<Refusal>(const Request&, const Identity&, std::string_view)>
      authorise{};
  /// Told of whatever a handler threw that is answered with 500. The client does not see its text.
  std::function<void(std::string_view contract, std::exception_ptr)> on_error{};
  /// What is done about keys where systems disagree: "default", "ietf", "beignet", "codecourier" or "stripe".
  std::string idempotency = "default";
  std::string title = "semel";  ///< of the description at /openapi.json; empty: there is none
};

namespace detail {

class ServerCore;

/// A contract with its handler, without their types.
struct Endpoint {
  ContractSpec spec;
  /// The body as a value, or why it is none. Empty where the contract has no body.
  std::function<std::optional<value::Misfit>(std::string_view, std::shared_ptr<const void>&)>
      decode;
  /// Empty where the whole request counts.
  std::function<std::string(const void* body, const Call&)> fingerprint_input;
  /// One of the two: the answer as JSON, empty for none.
  std::function<std::string(const void* body, Call&)> run_blocking;
  std::function<Task<std::string>(const void* body, Call&)> run_task;
};

template <class Res>
std::string answer_text(const Res& answer) {
  if constexpr (is_nothing<Res>) {
    return "";
  } else {
    return value::encode(answer);
  }
}

template <class Req>
const Req& body_in(const void* body) {
  if constexpr (is_nothing<Req>) {
    static constexpr std::monostate none;
    return none;
  } else {
    return *static_cast<const Req*>(body);
  }
}

template <class Req, class Res, class F>
std::string run_handler(F& handler, const Req& body, Call& call) {
  if constexpr (std::is_void_v<std::invoke_result_t<F&, const Req&, Call&>>) {
    handler(body, call);
    return "";
  } else {
    return answer_text<Res>(handler(body, call));
  }
}

template <class Req, class Res, class F>
Task<std::string> run_handler_task(std::shared_ptr<F> handler, const Req& body, Call& call) {
  if constexpr (std::same_as<std::invoke_result_t<F&, const Req&, Call&>, Task<void>>) {
    co_await (*handler)(body, call);
    co_return "";
  } else {
    const Res answer = co_await (*handler)(body, call);
    co_return answer_text<Res>(answer);
  }
}

template <class Req, class Res, class F>
Endpoint make_endpoint(const Contract<Req, Res>& contract, F handler) {
  using Returned = std::invoke_result_t<F&, const Req&, Call&>;
  Endpoint endpoint;
  endpoint.spec = contract.spec();
  if constexpr (!is_nothing<Req>) {
    endpoint.decode = [](std::string_view text,
                         std::shared_ptr<const void>& out) -> std::optional<value::Misfit> {
      auto body = std::make_shared<Req>();
      if (auto misfit = value::try_decode(text, *body, value::Mode::boundary)) return misfit;
      out = std::move(body);
      return std::nullopt;
    };
  }
  if (contract.fingerprint_of()) {
    endpoint.fingerprint_input = [of = contract.fingerprint_of()](const void* body,
                                                                  const Call& call) {
      return of(body_in<Req>(body), call);
    };
  }
  auto shared = std::make_shared<F>(std::move(handler));
  if constexpr (semel::detail::is_task<Returned>) {
    endpoint.run_task = [shared](const void* body, Call& call) {
      return run_handler_task<Req, Res, F>(shared, body_in<Req>(body), call);
    };
  } else {
    endpoint.run_blocking = [shared](const void* body, Call& call) {
      return run_handler<Req, Res, F>(*shared, body_in<Req>(body), call);
    };
  }
  return endpoint;
}

}  // namespace detail

/// What a handler may be: a function of body and call that returns the answer and may block, or a coroutine
/// (`Task<Res>`), which runs on the connection's thread and must not. Where there is no answer it may return void.
template <class F, class Req, class Res>
concept HandlerFunction =
    std::invocable<F&, const Req&, Call&> &&
    (std::convertible_to<std::invoke_result_t<F&, const Req&, Call&>, Res> ||
     std::same_as<std::invoke_result_t<F&, const Req&, Call&>, Task<Res>> ||
     (detail::is_nothing<Res> &&
      (std::is_void_v<std::invoke_result_t<F&, const Req&, Call&>> ||
       std::same_as<std::invoke_result_t<F&, const Req&, Call&>, Task<void>>)));

/// Serves contracts. A request passes authentication, authorisation, parsing and idempotency, in that order, before its
/// handler runs; what is refused on the way leaves its key unused.
class Server {
 public:
  /// For contracts without idempotency.
  explicit Server(ServerOptions options = {});

  /// Keys are remembered by the engine, which outlives the server.
  explicit Server(semel::Engine& engine, ServerOptions options = {});

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Stops.
  ~Server();

  /// Before `start`. A handler's exception is answered: ValidationError 422, ProblemError as it says, another Error by
  /// its code, anything else 500 without its text.
  template <class Req, class Res, class F>
    requires HandlerFunction<F, Req, Res>
  void handle(const Contract<Req, Res>& contract, F handler) {
    add(detail::make_endpoint(contract, std::move(handler)));
  }

  /// Listens. Throws Error: LISTEN_FAILED where the address is not to be had, VALIDATION_ERROR where a contract wants
  /// what this server does not have.
  void start();

  /// Accepts nobody any more and lets the requests under way finish, for `stop_grace`; waits for blocking handlers.
  /// Idempotent.
  void stop();

  std::uint16_t port() const;

  /// Where this server keeps what the rest of semel plugs into it.
  detail::ServerCore& core() { return *core_; }

 private:
  void add(detail::Endpoint endpoint);

  std::unique_ptr<detail::ServerCore> core_;
};

// ------------------------------------------------------------------------------------------------ the client

struct ClientOptions {
  std::map<std::string, std::string> headers{};  ///< on every request; a credential, for example
  Millis attempt_timeout{std::chrono::seconds{30}};  ///< of one attempt, its connection included
  Millis deadline{std::chrono::minutes{2}};          ///< of a call, with all its attempts
  Millis backoff{
      100};  ///< before the second attempt; twice as long each time, a part of it by chance
  Millis backoff_max{std::chrono::seconds{10}};
  std::size_t answer_bytes_max = std::size_t{16} << 20U;
  std::size_t idle_connections_max = 16;  ///< that are kept for the next call
  std::string ca_file{};  ///< PEM; whom to trust over https instead of whom the system trusts
};

struct CallOptions {
  std::optional<std::string> idempotency_key{};  ///< instead of one made up
  std::map<std::string, std::string>
      headers{};     ///< beside the client's; the key's header wins as well
  int attempts = 3;  ///< in all
  std::map<std::string, std::string> path{};  ///< what goes into the braces of the path
  std::map<std::string, std::string> query{};
  std::optional<Millis> deadline{};  ///< instead of the client's
};

namespace detail {

class ClientCore;

/// An answer with a status of 2xx; anything else is thrown.
std::string call(ClientCore& core, const ContractSpec& contract, std::string body,
                 const CallOptions& options);

}  // namespace detail

/// Calls contracts. To one that is idempotent it sends a key, the same on every attempt, so that repeating a call is
/// safe. It repeats after connection errors, 408, 425, 429, 5xx and IDEMPOTENCY_IN_PROGRESS, and waits as long as the
/// server asks; never without a key, unless the method only reads. Any thread may call.
///
/// What goes wrong is thrown as an Error with the server's code: ValidationError, IdempotencyConflictError,
/// IdempotencyInProgressError, else ProblemError with the status; CONNECTION_FAILED and DEADLINE_EXCEEDED where there
/// was no answer: then nobody knows whether the request had effects.
class Client {
 public:
  /// `url` is "http://host:port/base" or "https://…".
  explicit Client(const std::string& url, ClientOptions options = {});
  explicit Client(std::unique_ptr<detail::ClientCore> core);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  template <class Req, class Res>
  Res call(const Contract<Req, Res>& contract, const std::type_identity_t<Req>& body,
           const CallOptions& options = {}) {
    std::string text;
    if constexpr (!detail::is_nothing<Req>) value::encode_to(text, body);
    const std::string answer = detail::call(*core_, contract.spec(), std::move(text), options);
    if constexpr (detail::is_nothing<Res>) {
      return {};
    } else {
      // A server may know more than this client: what is new in its answers is passed over.
      return value::decode<Res>(answer, value::Mode::journal);
    }
  }

 private:
  std::unique_ptr<detail::ClientCore> core_;
};

}  // namespace http
}  // namespace semel
