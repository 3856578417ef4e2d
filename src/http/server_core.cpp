#include "http/server_core.hpp"

#include "base/utf8.hpp"
#include "http/json_body.hpp"
#include "http/openapi.hpp"
#include "http/problem.hpp"
#include "http/target.hpp"

#include <boost/json.hpp>

#include <utility>

namespace semel::http::detail {

struct ServerCore::Route {
  Endpoint endpoint;
  RawHandler raw;      ///< instead of an endpoint's handler
  WholeHandler whole;  ///< the same
  bool is_open = false;
  std::function<void(std::string_view, std::exception_ptr)> on_error;
  std::shared_ptr<RequestMeter> meter;
};

/// A request under way. Holds all that its handler needs, so that a late one finds it, whatever became of the server.
struct ServerCore::Exchange final : KeyedWork, std::enable_shared_from_this<Exchange> {
  std::shared_ptr<const Route> route{};
  const Request& request;
  Call call{};
  std::shared_ptr<const void> body{};
  Responder responder;
  std::shared_ptr<HandlerThreads> handlers;
  std::chrono::nanoseconds since = base::monotonic_now();

  Exchange(const Request& its_request, Responder to, std::shared_ptr<HandlerThreads> threads)
      : request(its_request), responder(std::move(to)), handlers(std::move(threads)) {}

  void run(Begin begin, Done then) override;

  void answer(Response answer) override { responder.answer(std::move(answer)); }

  bool post(std::function<void()> action) override { return responder.post(std::move(action)); }
};

namespace {

constexpr std::string_view internal = "INTERNAL";

Response internal_problem() {
  return problem(500, internal, "something went wrong here; the request may have had effects");
}

Response told(int status, const Error& error, const boost::json::object& more = {}) {
  // What is not UTF-8 cannot be said in JSON.
  const std::string_view detail = error.what();
  return problem(status, error.code(), base::is_utf8(detail) ? detail : std::string_view{}, more);
}

Response refused(const Refusal& refusal) {
  Response answer = problem(refusal.code, refusal.message);
  if (answer.status == 401) answer.headers.push_back({"www-authenticate", "Bearer"});
  return answer;
}

std::map<std::string, std::string> headers_of(const Request& request) {
  std::map<std::string, std::string> headers;
  for (const HeaderView& each : request.headers) {
    std::string name{each.name};
    for (char& c : name) c = lower(c);
    const auto [at, is_new] = headers.try_emplace(std::move(name), each.value);
    if (!is_new) at->second.append(", ").append(each.value);
  }
  return headers;
}

Response answer_of(const Endpoint& endpoint, Call& call, std::string text) {
  const bool is_empty = endpoint.spec.response_shape.empty();
  Response answer{is_empty && call.status == 200 ? 204 : call.status,
                  std::move(call.answer_headers), std::move(text)};
  if (!answer.body.empty()) answer.headers.push_back({"content-type", "application/json"});
  return answer;
}

}  // namespace

Response answer_to(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ProblemError& error) {
    return told(error.status, error,
                error.more.is_object() ? error.more.get_object() : boost::json::object{});
  } catch (const ValidationError& error) {
    return told(422, error, {{"field", error.path}});
  } catch (const HookConflictError& error) {
    return told(409, error, {{"runId", error.run_id}});
  } catch (const Error& error) {
    const int status = status_of(error.code());
    return status == 500 ? internal_problem() : told(status, error);
  } catch (...) {
    return internal_problem();
  }
}

bool is_unexpected(const Response& answer) { return answer == internal_problem(); }

ServerCore::ServerCore(ServerOptions options) : options_(std::move(options)) {}

ServerCore::~ServerCore() { stop(); }

void ServerCore::add_route(Route route) {
  if (listener_) throw Error("VALIDATION_ERROR", "the server has started; contracts come before");
  route.on_error = options_.on_error;
  route.meter =
      std::make_shared<RequestMeter>(route.endpoint.spec.method, route.endpoint.spec.path);
  router_.add(route.endpoint.spec.method, route.endpoint.spec.path, routes_.size());
  routes_.push_back(std::make_shared<const Route>(std::move(route)));
}

void ServerCore::add(Endpoint endpoint) { add_route({.endpoint = std::move(endpoint)}); }

void ServerCore::add_raw(std::string method, std::string path, std::string name, bool is_open,
                         RawHandler handler) {
  Route route{.raw = std::move(handler), .is_open = is_open};
  route.endpoint.spec = {std::move(method), std::move(path), std::move(name)};
  add_route(std::move(route));
}

void ServerCore::add_whole(Endpoint endpoint, bool is_open, WholeHandler handler) {
  Route route{.endpoint = std::move(endpoint), .whole = std::move(handler), .is_open = is_open};
  add_route(std::move(route));
}

std::vector<ContractSpec> ServerCore::contracts() const {
  std::vector<ContractSpec> specs;
  for (const auto& route : routes_) {
    if (!route->raw) specs.push_back(route->endpoint.spec);
  }
  return specs;
}

std::vector<std::shared_ptr<const RequestMeter>> ServerCore::meters() const {
  std::vector<std::shared_ptr<const RequestMeter>> meters{unrouted_};
  for (const auto& route : routes_) meters.push_back(route->meter);
  return meters;
}

void ServerCore::start() {
  if (listener_) return;
  for (const auto& route : routes_) {
    if (route->endpoint.spec.idempotency && !route->whole && layer_ == nullptr) {
      throw Error("VALIDATION_ERROR", "the contract " + route->endpoint.spec.name +
                                          " is idempotent, and this server has nothing to "
                                          "remember keys with");
    }
  }
  if (!options_.title.empty()) {
    add_raw("GET", "/openapi.json", "openapi", true,
            [text = openapi_text(contracts(), options_.title)](const Request&, const Call&,
                                                               Responder responder) {
              responder.answer({200, {{"content-type", "application/json"}}, text});
            });
  }
  handlers_ = std::make_shared<HandlerThreads>(options_.handler_threads);
  ListenerOptions listener;
  listener.host = options_.host;
  listener.port = options_.port;
  listener.threads = options_.threads;
  listener.limits.head = {options_.limits.header_bytes_max, options_.limits.headers_max};
  listener.limits.body_bytes_max = options_.limits.body_bytes_max;
  listener.limits.header_timeout = base::bounded(options_.limits.header_timeout);
  listener.limits.idle_timeout = base::bounded(options_.limits.idle_timeout);
  listener.stop_grace = base::bounded(options_.stop_grace);
  listener.certificate_file = options_.certificate_file;
  listener.key_file = options_.key_file;
  listener_ = Listener::open(listener, *this, clock_);
}

void ServerCore::stop() {
  if (before_stop_) before_stop_();
  if (listener_) listener_->stop();
  if (handlers_) handlers_->close();
}

// ------------------------------------------------------------------------------------------------ a request's way

std::shared_ptr<const ServerCore::Route> ServerCore::find(const Request& request, Call& call,
                                                          std::optional<Response>& refusal) const {
  if (request.path == "*") {
    refusal = Response{204, {{"allow", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"}}, ""};
    return nullptr;
  }
  if (request.method == "CONNECT") {
    refusal = problem("METHOD_NOT_ALLOWED", "this is not a proxy");
    refusal->headers.push_back({"allow", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"});
    return nullptr;
  }
  auto found = router_.find(request.method, request.path);
  if (auto* route = std::get_if<Router::Found>(&found)) {
    call.path = std::move(route->parameters);
    return routes_[route->endpoint];
  }
  if (const auto* other = std::get_if<Router::NoMethod>(&found)) {
    refusal = request.method == "OPTIONS"
                  ? Response{204, {}, ""}
                  : problem("METHOD_NOT_ALLOWED", "the path is served, but not for this method");
    refusal->headers.push_back({"allow", other->allow});
  } else if (std::holds_alternative<Router::BadPath>(found)) {
    refusal = problem("MALFORMED", "the path is not properly encoded");
  } else {
    refusal = problem("ROUTE_NOT_FOUND", "nothing is served at this path");
  }
  return nullptr;
}

std::optional<Response> ServerCore::refuse_caller(const Route& route, const Request& request,
                                                  Call& call) const {
  if (route.is_open) return std::nullopt;
  Identity identity;
  if (options_.authenticate) {
    auto asked = options_.authenticate(request);
    if (const auto* refusal = std::get_if<Refusal>(&asked)) return refused(*refusal);
    identity = std::get<Identity>(std::move(asked));
  }
  if (options_.authorise) {
    if (const auto refusal = options_.authorise(request, identity, route.endpoint.spec.name))
      return refused(*refusal);
  }
  call.actor = std::move(identity.actor);
  call.tenant = std::move(identity.tenant);
  return std::nullopt;
}

Admission ServerCore::admit(const Request& request, const ListenerLimits& limits) {
  Admission admission{.body_bytes_max = limits.body_bytes_max};
  Call call;
  std::optional<Response> refusal;
  const auto route = find(request, call, refusal);
  if (route && route->endpoint.spec.idempotency &&
      request.header(route->endpoint.spec.idempotency->header)) {
    admission.body_time = base::bounded(options_.limits.keyed_body_timeout);
  }
  // Who waits to be asked for the body is told now, where that needs no look; the others when it is read, which keeps their
  // connection.
  const bool needs_look = prepare_ && route && !route->is_open;
  if (request.header("expect") && !needs_look) {
    try {
      if (guard_) admission.refusal = guard_(request);
      if (admission.refusal) return admission;
      if (route) refusal = refuse_caller(*route, request, call);
    } catch (...) {
      refusal = answer_to(std::current_exception());
    }
    admission.refusal = std::move(refusal);
  }
  return admission;
}

void ServerCore::handle(const Request& request, Responder responder) {
  const auto exchange = std::make_shared<Exchange>(request, std::move(responder), handlers_);
  std::optional<Response> refusal;
  exchange->route = find(request, exchange->call, refusal);
  if (!prepare_ || !exchange->route || exchange->route->is_open) {
    go_on(exchange, std::move(refusal));
    return;
  }
  prepare_([this, exchange](std::optional<Response> unprepared) {
    // Where its thread has ended the server stops: nothing was begun, and there is nobody to tell.
    exchange->responder.post(
        [this, exchange, unprepared = std::move(unprepared)] { go_on(exchange, unprepared); });
  });
}

void ServerCore::go_on(const std::shared_ptr<Exchange>& exchange, std::optional<Response> refusal) {
  const Request& request = exchange->request;
  try {
    // Who is not to be here is not told what there is.
    if (guard_) {
      if (auto turned_away = guard_(request)) {
        refusal = std::move(turned_away);
        exchange->route.reset();
      }
    }
    if (exchange->route) exchange->responder.measure(exchange->route->meter, exchange->since);
    if (!refusal) refusal = refuse_caller(*exchange->route, request, exchange->call);
    if (!refusal && limit_ && !exchange->route->is_open)
      refusal = limit_(exchange->call, exchange->route->endpoint.spec.name);
    if (!refusal) refusal = parse(*exchange);
  } catch (...) {
    refusal = answer_to(std::current_exception());
  }
  if (refusal) {
    if (!exchange->route) exchange->responder.measure(unrouted_, exchange->since);
    exchange->responder.answer(std::move(*refusal));
    return;
  }
  const Route& route = *exchange->route;
  if (route.raw) {
    route.raw(request, std::move(exchange->call), std::move(exchange->responder));
    return;
  }
  if (route.whole) {
    route.whole(request, std::move(exchange->call), std::move(exchange->body),
                std::move(exchange->responder));
    return;
  }
  if (!route.endpoint.spec.idempotency) {
    exchange->run(KeyedWork::Begin::now,
                  [exchange](Response answer) { exchange->answer(std::move(answer)); });
    return;
  }
  KeyedRequest keyed{request, route.endpoint.spec, exchange->call, {}};
  if (route.endpoint.fingerprint_input) {
    keyed.fingerprint_input = [exchange] {
      return exchange->route->endpoint.fingerprint_input(exchange->body.get(), exchange->call);
    };
  }
  layer_->handle(keyed, exchange);
}

std::optional<Response> ServerCore::parse(Exchange& exchange) {
  Call& call = exchange.call;
  auto query = read_query(exchange.request.query);
  if (!query) return problem("MALFORMED", "the query is not properly encoded");
  call.query = std::move(*query);
  call.headers = headers_of(exchange.request);
  if (!exchange.route->endpoint.decode) return std::nullopt;
  if (auto refusal = refuse_media(exchange.request)) return refusal;
  const std::string_view text = exchange.request.body;
  if (const auto misfit = exchange.route->endpoint.decode(text, exchange.body))
    return refuse_body(text, *misfit);
  return std::nullopt;
}

namespace {

Response failed(const Endpoint& endpoint,
                const std::function<void(std::string_view, std::exception_ptr)>& on_error) {
  Response answer = answer_to(std::current_exception());
  if (!on_error || !is_unexpected(answer)) return answer;
  try {
    on_error(endpoint.spec.name, std::current_exception());
  } catch (...) {
    return answer;  // the client gets its answer, whatever becomes of the report
  }
  return answer;
}

}  // namespace

void ServerCore::Exchange::run(Begin begin, Done then) {
  if (!route->endpoint.run_task) {
    handlers->submit([self = shared_from_this(), then = std::move(then)] {
      const Endpoint& its = self->route->endpoint;
      Response answer;
      try {
        std::string text = its.run_blocking(self->body.get(), self->call);
        answer = answer_of(its, self->call, std::move(text));
      } catch (...) {
        answer = failed(its, self->route->on_error);
      }
      then(std::move(answer));
    });
    return;
  }
  if (begin == Begin::later) {
    // From inside something that a handler may call, and that would wait for itself.
    const auto work = [self = shared_from_this(), then = std::move(then)] {
      self->run(Begin::now, then);
    };
    // A client that has gone and a server that stops leave nobody whose thread it would be; the work was promised.
    if (!responder.post(work)) handlers->submit(work);
    return;
  }
  [](std::shared_ptr<Exchange> kept, Done done) -> semel::detail::Detached {
    const Endpoint& its = kept->route->endpoint;
    Response answer;
    try {
      std::string text = co_await its.run_task(kept->body.get(), kept->call);
      answer = answer_of(its, kept->call, std::move(text));
    } catch (...) {
      answer = failed(its, kept->route->on_error);
    }
    done(std::move(answer));
  }(shared_from_this(), std::move(then));
}

}  // namespace semel::http::detail
