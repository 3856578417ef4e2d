#include "serve/api.hpp"

#include "http/problem.hpp"
#include "serve/text.hpp"

#include <algorithm>
#include <array>

namespace semel::serve {

namespace {

constexpr std::size_t limit_default = 50;
constexpr std::size_t limit_max = 200;

/// "localhost", "127.0.0.1" or "[::1]", with any port.
bool is_local(std::string_view host) {
  const std::size_t bracket = host.starts_with('[') ? host.find(']') : std::string_view::npos;
  const std::size_t end =
      bracket == std::string_view::npos ? host.find(':') : host.find(':', bracket);
  const std::string_view name = host.substr(0, end);
  const std::string_view port = end == std::string_view::npos ? "" : host.substr(end + 1);
  if (port.find_first_not_of("0123456789") != std::string_view::npos) return false;
  return http::same_name(name, "localhost") || name == "127.0.0.1" || name == "[::1]";
}

bool is_local_origin(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return is_local(origin.substr(scheme.size()));
  }
  return false;
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

bool has(const Scopes& scopes, Needs needs) {
  switch (needs) {
    case Needs::read:
      return scopes.read;
    case Needs::write:
      return scopes.write;
    case Needs::admin:
      return scopes.admin;
    default:
      return true;
  }
}

std::string_view word_of(Needs needs) {
  return needs == Needs::read ? "read" : needs == Needs::write ? "write" : "admin";
}

/// Reads keys and what is used inside a transaction; nothing of it is written.
class Load final : public store::Work {
 public:
  Load(Keyring& keys, Quotas& quotas) : keys_(keys), quotas_(quotas) {}

  std::string run(store::UnitOfWork& unit) override {
    keys_.load(unit);
    while (!quotas_.is_measured()) measure_at = quotas_.measure(unit, base::monotonic_now());
    return {};
  }

  std::optional<std::chrono::nanoseconds> measure_at;

 private:
  Keyring& keys_;
  Quotas& quotas_;
};

class Measure final : public store::Work {
 public:
  explicit Measure(Quotas& quotas) : quotas_(quotas) {}

  std::string run(store::UnitOfWork& unit) override {
    again_at = quotas_.measure(unit, base::monotonic_now());
    return {};
  }

  std::optional<std::chrono::nanoseconds> again_at;

 private:
  Quotas& quotas_;
};

}  // namespace

void check_query(const http::Call& call, const std::vector<std::string>& known) {
  for (const auto& [name, value] : call.query) {
    const bool is_known = std::ranges::any_of(known, [&](const std::string& each) {
      if (!each.ends_with('*')) return each == name;
      const std::string_view beginning = std::string_view{each}.substr(0, each.size() - 1);
      return name.starts_with(beginning) && name.size() > beginning.size();
    });
    if (!is_known) {
      throw http::ProblemError(422, "VALIDATION_ERROR", "there is no parameter of this name here",
                               {{"field", name}});
    }
  }
}

std::size_t limit_of(const http::Call& call) {
  const auto given = call.query.find("limit");
  if (given == call.query.end()) return limit_default;
  const auto limit = read_whole_number(given->second);
  if (!limit || *limit == 0 || *limit > limit_max)
    throw ValidationError("limit", "expected a number from 1 to 200");
  return static_cast<std::size_t>(*limit);
}

Millis duration_at(const std::string& pointer, const std::string& text) {
  const auto duration = read_duration(text);
  if (!duration) throw ValidationError(pointer, "expected a duration such as 500ms, 30s, 24h, 30d");
  return *duration;
}

std::optional<std::uint64_t> expected_version(const http::Request& request) {
  const auto given = request.header("if-match");
  return given ? read_version(*given) : std::nullopt;
}

Api::Api(Parts parts, http::detail::ServerCore& core)
    : parts_(std::move(parts)),
      core_(core),
      keys_(parts_.keys),
      quotas_(parts_.workspace, keys_.is_shared() ? Quotas::Store::shared : Quotas::Store::own),
      actions_(parts_.driver, parts_.kernel,
               [this](const std::string& workspace) {
                 return quotas_.take(workspace, base::monotonic_now());
               }),
      waits_(std::make_shared<Waits>(parts_.driver)),
      tails_(std::make_shared<Tails>(
          parts_.driver, [&core](std::function<void()> work) { core.submit(std::move(work)); })),
      answers_(std::make_shared<WebhookAnswers>(
          parts_.driver, [&core](std::function<void()> work) { core.submit(std::move(work)); })) {
  add_runs();
  add_steering();
  add_hooks();
  add_webhooks();
  add_keys();
  add_kernel();
  add_operating();
  if (keys_.is_shared()) {
    key_look_.emplace([this] { return keys_.refresh(); });
    core_.prepare([this](std::function<void(std::optional<http::Response>)> then) {
      key_look_->ask([then = std::move(then)](bool could_look) {
        // Never by what was true a while ago: a key may have been revoked since.
        if (could_look) return then(std::nullopt);
        then(http::problem("STORE_UNAVAILABLE", "the store is not available"));
      });
    });
  }
  core_.guard([this](const http::Request& request) { return guard(request); });
  core_.limit(
      [this](const http::Call& call, std::string_view route) { return limit(call, route); });
  core_.before_stop([this] {
    waits_->dismiss();
    tails_->dismiss();
    answers_->dismiss();
  });
}

void Api::open() {
  using Reply = std::variant<engine::TransactReply, engine::Refusal>;

  struct State {
    engine::Waiting waiting;
    Reply reply;
  };

  const auto state = std::make_shared<State>();
  const auto work = std::make_shared<Load>(keys_, quotas_);
  const bool posted = parts_.driver->post([state, work](engine::Loop& loop, TimePoint now) {
    const auto reply = [state](Reply answer) {
      state->reply = std::move(answer);
      state->waiting.finish();
    };
    loop.transact(work, reply, now);
  });
  if (!posted || !parts_.driver->wait(state->waiting, {}))
    throw Error("ENGINE_STOPPED", "the engine has stopped");
  if (const auto* refusal = std::get_if<engine::Refusal>(&state->reply))
    throw Error(refusal->code, refusal->message);
  if (const auto& error = std::get<engine::TransactReply>(state->reply).error)
    std::rethrow_exception(error);
  if (work->measure_at) measure_soon(*work->measure_at);
  if (keys_.is_open() && !is_loopback(core_.options().host)) {
    throw Error("VALIDATION_ERROR",
                "without API keys the server listens on this machine alone: start it on 127.0.0.1, "
                "make a key with POST /api/v1/api-keys, then start it on " +
                    core_.options().host);
  }
}

std::variant<http::Identity, http::Refusal> Api::authenticate(const http::Request& request) const {
  auto found = keys_.find(request.header("authorization"), parts_.driver->now());
  if (auto* refusal = std::get_if<http::Refusal>(&found)) return std::move(*refusal);
  auto& caller = std::get<Caller>(found);
  return http::Identity{std::move(caller.actor), std::move(caller.workspace)};
}

std::optional<http::Refusal> Api::authorise(const http::Request& request,
                                            std::string_view route) const {
  const auto needs = needs_.find(route);
  if (needs == needs_.end()) return std::nullopt;
  const auto found = keys_.find(request.header("authorization"), parts_.driver->now());
  const auto* caller = std::get_if<Caller>(&found);
  if (caller == nullptr) return std::get<http::Refusal>(found);
  if (has(caller->scopes, needs->second)) return std::nullopt;
  return http::Refusal{"FORBIDDEN",
                       "this needs a key with the scope " + std::string(word_of(needs->second))};
}

std::optional<http::Response> Api::guard(const http::Request& request) const {
  const bool is_public = request.method == "POST" && request.path.starts_with("/hooks/");
  if (is_public || !keys_.is_open()) return std::nullopt;
  // Whoever gets a browser on this machine to ask us, by a name of theirs or from a page of theirs, is not let in.
  if (!is_local(request.host)) {
    return http::problem("MISDIRECTED",
                         "without API keys this server is served as localhost, 127.0.0.1 or [::1]");
  }
  const auto origin = request.header("origin");
  if (origin && !is_local_origin(*origin))
    return http::problem("FORBIDDEN", "without API keys pages from elsewhere are not let in");
  return std::nullopt;
}

std::optional<http::Response> Api::limit(const http::Call& call, std::string_view route) {
  if (acts_.contains(route)) return std::nullopt;
  return quotas_.take(call.tenant, base::monotonic_now());
}

void Api::within_limits(Unit& unit, const std::string& workspace, std::size_t bytes,
                        const std::function<bool()>& start) {
  // Asked first, thrown last: whoever repeats a start is handed the run that is there, also at the limit.
  const auto refusal = quotas_.refuse_start(unit.store, workspace, base::monotonic_now());
  unit.undo = [this, workspace] { quotas_.count_again(workspace); };
  if (!start()) return;
  if (refusal) throw *refusal;
  unit.undo = [this, counted = quotas_.started(unit.store, workspace, bytes)] {
    quotas_.take_back(counted);
  };
}

/// Bytes are summed up in the background, a few rows in a transaction.
void Api::measure_soon(std::chrono::nanoseconds at) {
  using Reply = std::variant<engine::TransactReply, engine::Refusal>;
  timers_.after(at - base::monotonic_now(), [self = weak_from_this()] {
    const auto api = self.lock();
    if (!api) return;
    const auto work = std::make_shared<Measure>(api->quotas_);
    // The work refers to the routes, which stay until it is over.
    api->parts_.driver->post([api, work](engine::Loop& loop, TimePoint now) {
      loop.transact(
          work,
          [api, work](const Reply&) {
            const auto later = base::monotonic_now() + std::chrono::seconds{10};
            api->measure_soon(work->again_at.value_or(later));
          },
          now);
    });
  });
}

Caller Api::caller_of(const http::Call& call) const { return {call.actor, call.tenant, {}}; }

}  // namespace semel::serve
