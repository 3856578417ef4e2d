#include "http/proxy.hpp"

#include "base/sha256.hpp"
#include "http/event_loops.hpp"
#include "http/json_body.hpp"
#include "http/keyed_answers.hpp"
#include "http/problem.hpp"
#include "http/proxy_exchange.hpp"
#include "http/proxy_headers.hpp"
#include "idempotency/request_fingerprint.hpp"
#include "idempotency/scope.hpp"

#include <semel/error.hpp>
#include <semel/value.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <variant>

namespace semel::http {

namespace {

/// All of a keyed body has to be there within this.
constexpr std::chrono::seconds keyed_body_time{60};

constexpr std::ptrdiff_t json_depth_max = 64;

/// What is to be done with a request: a key is to be honoured, there is none, or it is refused.
struct Key {
  std::string key;
  std::string scope;
};

struct NoKey {};

using Decision = std::variant<Key, NoKey, Response>;

/// The values as one text that says nothing about them: they are secrets.
std::string digest_of(const std::vector<std::string_view>& values) {
  std::string text;
  for (const std::string_view value : values)
    text.append(std::to_string(value.size())).append(":").append(value);
  return base::sha256_hex(text);
}

std::variant<std::string, Response> scope_of(const ProxyScope& scope, const Request& request) {
  if (scope.kind == ProxyScope::Kind::none) return std::string{};
  const bool by_header = scope.kind == ProxyScope::Kind::header;
  const auto values = lines_of(request, by_header ? scope.header : "authorization");
  if (by_header && (values.empty() || values.front().empty())) {
    return problem("IDEMPOTENCY_SCOPE_REQUIRED", "this needs the header " + scope.header +
                                                     ": it says whose the idempotency key is");
  }
  if (values.empty() && request.header("cookie")) {
    return problem("IDEMPOTENCY_SCOPE_REQUIRED",
                   "callers with cookies cannot be told apart by them: the proxy has to be told "
                   "whose an idempotency key is");
  }
  if (values.empty()) return std::string{};
  return idempotency::scope_text({{by_header ? "header" : "authorization", digest_of(values)}});
}

Decision decide(const ProxyRules& rules, const Request& request) {
  const idempotency::Policy& policy = rules.policy;
  if (request.method == "CONNECT") {
    Response refusal = problem("METHOD_NOT_ALLOWED", "this proxy opens no tunnels");
    refusal.headers.push_back({"allow", "GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE, TRACE"});
    return refusal;
  }
  if (!policy.applies_to(request.method)) return NoKey{};
  auto key = key_of(request, policy.header);
  if (!key) return problem("IDEMPOTENCY_KEY_INVALID", key.error().message);
  if (!*key) {
    if (!policy.required) return NoKey{};
    return problem("IDEMPOTENCY_KEY_REQUIRED", "this needs the header " + policy.header);
  }
  auto scope = scope_of(rules.scope, request);
  if (auto* refusal = std::get_if<Response>(&scope)) return std::move(*refusal);
  return Key{**std::move(key), std::get<std::string>(std::move(scope))};
}

/// JSON that is nested more deeply than we look into cannot be compared by value.
bool is_too_deep(const ProxyRules& rules, const Request& request) {
  if (rules.policy.compared.body != idempotency::BodyComparison::json ||
      !is_json(request.header("content-type").value_or("")) || request.header("content-encoding"))
    return false;
  // Where there are not enough brackets nobody needs to look.
  const auto opened =
      std::ranges::count_if(request.body, [](char c) { return c == '[' || c == '{'; });
  if (opened <= json_depth_max) return false;
  value::Reader reader{request.body, value::Mode::boundary};
  Json ignored;
  return (!reader.json(ignored) || !reader.finish()) &&
         reader.misfit().message.starts_with("nested too deeply");
}

std::optional<std::uint64_t> announced_length(const Request& request) {
  const auto value = request.header("content-length");
  std::uint64_t length = 0;
  if (value) std::from_chars(value->data(), value->data() + value->size(), length);
  return value ? std::optional(length) : std::nullopt;
}

Origin plain_origin(const std::string& url) {
  Origin origin = read_origin(url);
  if (origin.is_tls)
    throw Error("VALIDATION_ERROR", url + ": https is not spoken to upstreams; use http");
  return origin;
}

class SocketProxy final : public Proxy, private Handler {
 public:
  SocketProxy(const ProxyOptions& options, IdempotencyStore& store, const base::Clock& clock)
      : config_(std::make_shared<const ProxyConfig>(options.config)),
        store_(store),
        log_(options.log ? std::make_shared<const AccessLogger>(options.log) : nullptr),
        loops_(options.threads),
        upstream_(Upstream::open(plain_origin(options.upstream), loops_)) {
    add_auth_check(config_->rules);
    for (const ProxyRoute& route : config_->routes) add_auth_check(route.rules);
    ListenerOptions listen{.host = options.host, .port = options.port};
    listen.limits.header_timeout = config_->header_timeout;
    listen.limits.idle_timeout = config_->idle_timeout;
    listen.stop_grace = options.stop_grace;
    listener_ = Listener::open(listen, *this, clock, loops_);
  }

  SocketProxy(const SocketProxy&) = delete;
  SocketProxy& operator=(const SocketProxy&) = delete;

  ~SocketProxy() override { stop_all(); }

  std::uint16_t port() const override { return listener_->port(); }

  void stop() override { stop_all(); }

 private:
  void stop_all() {
    listener_->stop();
    upstream_->stop();
    for (const auto& each : auth_checks_) each.second->stop();
    loops_.stop();
  }

  void add_auth_check(const ProxyRules& rules) {
    if (rules.auth_check.empty() || auth_checks_.contains(rules.auth_check)) return;
    auth_checks_.emplace(rules.auth_check, Upstream::open(plain_origin(rules.auth_check), loops_));
  }

  Admission admit(const Request& request, const ListenerLimits& limits) override {
    static_cast<void>(limits);
    const ProxyRules& rules = config_->rules_for(request.path);
    Decision decision = decide(rules, request);
    if (auto* refusal = std::get_if<Response>(&decision)) {
      log_refusal(request, refusal->status);
      return {.refusal = std::move(*refusal)};
    }
    if (std::holds_alternative<Key>(decision))
      return {.body_bytes_max = rules.body_bytes_max, .body_time = keyed_body_time};
    return {.body_bytes_max = std::numeric_limits<std::size_t>::max(), .is_streamed = true};
  }

  void handle(const Request& request, Responder responder) override {
    const ProxyRules& rules = config_->rules_for(request.path);
    ProxyAnswer answer(std::move(responder), request, log_);
    Decision decision = decide(rules, request);
    if (auto* refusal = std::get_if<Response>(&decision)) {
      answer.answer("refused", std::move(*refusal));
    } else if (auto* key = std::get_if<Key>(&decision)) {
      handle_keyed(request, rules, std::move(*key), std::move(answer));
    } else {
      pass(request, rules, std::move(answer));
    }
  }

  void pass(const Request& request, const ProxyRules& rules, ProxyAnswer answer) {
    UpstreamRequest out;
    ForwardedBody body{.length = announced_length(request)};
    body.is_chunked = request.has_body && !body.length;
    out.head = forwarded_head(request, upstream_->origin(), body);
    if (request.has_body) {
      out.body_kind = body.length ? UpstreamRequest::Body::parts : UpstreamRequest::Body::chunked;
    }
    out.is_head = request.method == "HEAD";
    out.may_repeat = only_reads(request.method) && !request.has_body;
    out.timeout = rules.upstream_timeout;
    pass_through(*upstream_, std::move(out), std::move(answer));
  }

  void handle_keyed(const Request& request, const ProxyRules& rules, Key key, ProxyAnswer answer) {
    if (is_too_deep(rules, request)) {
      answer.answer("refused", problem("PAYLOAD_TOO_LARGE", "the JSON is nested too deeply"));
      return;
    }
    Keyed keyed{.kernel = store_.kernel(),
                .config = config_,
                .rules = rules,
                .ask = ask_for(request, rules, std::move(key)),
                .patience = patience_of(rules.policy, request),
                .upstream = upstream_,
                .request = {.head = forwarded_head(request, upstream_->origin(),
                                                   {.length = request.body.size()}),
                            .body = std::string(request.body),
                            .timeout = rules.upstream_timeout}};
    if (!rules.auth_check.empty()) {
      keyed.auth_check = auth_checks_.at(rules.auth_check);
      keyed.auth_request = {
          .head = auth_check_head(request, keyed.auth_check->origin(), rules.scope.header),
          .may_repeat = true,
          .timeout = rules.upstream_timeout};
    }
    execute_once(std::move(keyed), std::move(answer));
  }

  store::Reserve ask_for(const Request& request, const ProxyRules& rules, Key key) const {
    const idempotency::Policy& policy = rules.policy;
    store::Reserve ask;
    ask.id = {.workspace = store_.workspace(),
              .ns = idempotency::endpoint_namespace(policy, request.method, request.path),
              .scope = std::move(key.scope),
              .key = std::move(key.key)};
    ask.fingerprint = idempotency::request_fingerprint(
        policy.compared, {.method = request.method,
                          .path = request.path,
                          .query = request.query,
                          .content_type = request.header("content-type").value_or(""),
                          .is_encoded = request.header("content-encoding").has_value(),
                          .body = request.body});
    ask.lease = base::bounded(policy.lease);
    ask.ttl = base::bounded(policy.lifetime);
    ask.on_abandoned = policy.on_abandoned;
    return ask;
  }

  void log_refusal(const Request& request, int status) const {
    if (!log_) return;
    (*log_)({.method = std::string(request.method),
             .path = std::string(request.path),
             .status = status,
             .outcome = "refused"});
  }

  const std::shared_ptr<const ProxyConfig> config_;
  IdempotencyStore& store_;
  const std::shared_ptr<const AccessLogger> log_;
  EventLoops loops_;  ///< of clients and of the upstreams: what has no key stays on one thread
  const std::shared_ptr<Upstream> upstream_;
  std::map<std::string, std::shared_ptr<Upstream>> auth_checks_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace

std::unique_ptr<Proxy> Proxy::open(const ProxyOptions& options, IdempotencyStore& store,
                                   const base::Clock& clock) {
  return std::make_unique<SocketProxy>(options, store, clock);
}

}  // namespace semel::http
