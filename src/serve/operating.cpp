// What is for operators: health, metrics, which workflows there are, and keys.
#include "http/json_schema.hpp"
#include "http/problem.hpp"
#include "serve/route.hpp"
#include "serve/text.hpp"
#include "serve/view.hpp"
#include "serve/wire.hpp"

#include <boost/json.hpp>
#include <fmt/format.h>

namespace semel::serve {

namespace {

namespace json = boost::json;

/// JSON Schema of a shape, whole: what it refers to is in it.
json::object schema_of(const std::string& shape, http::Strictness strictness) {
  if (shape.empty()) return {{"type", "null"}};
  json::object types;
  Json schema = http::schema_of(shape, "T", strictness, types, "#/$defs/");
  json::object whole = schema.as_object();
  if (!types.empty()) whole["$defs"] = std::move(types);
  return whole;
}

json::object view_of(const detail::WorkflowType& type) {
  return {{"name", type.name},
          {"version", type.version},
          {"input", schema_of(type.input_shape(), http::Strictness::closed)},
          {"output", schema_of(type.output_shape(), http::Strictness::open)}};
}

KeyWish wish_of(const wire::NewKey& body, const http::Call& call) {
  KeyWish wish{.name = body.name, .scopes = {}, .workspace = call.tenant, .expires_in = {}};
  if (wish.name.empty() || wish.name.size() > 255)
    throw ValidationError("/name", "expected 1 to 255 bytes");
  if (body.scopes.empty()) throw ValidationError("/scopes", "a key without scopes may do nothing");
  for (const wire::Scope scope : body.scopes) {
    if (scope == wire::Scope::read) wish.scopes.read = true;
    if (scope == wire::Scope::write) wish.scopes.write = true;
    if (scope == wire::Scope::admin) wish.scopes.admin = true;
  }
  if (body.workspace) {
    if (body.workspace->empty() || body.workspace->size() > 255)
      throw ValidationError("/workspace", "expected 1 to 255 bytes");
    if (*body.workspace != call.tenant && call.tenant != "default") {
      throw http::ProblemError(403, "FORBIDDEN",
                               "only an admin of the workspace default may name another one");
    }
    wish.workspace = *body.workspace;
  }
  if (body.expiresIn) {
    wish.expires_in = duration_at("/expiresIn", *body.expiresIn);
    if (*wish.expires_in == Millis{0}) throw ValidationError("/expiresIn", "must not be nothing");
  }
  return wish;
}

class MetricsText {
 public:
  void add(std::string_view name, std::string_view kind, std::string_view help,
           std::uint64_t value) {
    text_ += fmt::format("# HELP semel_{0} {1}\n# TYPE semel_{0} {2}\nsemel_{0} {3}\n", name, help,
                         kind, value);
  }

  void add_outcomes(const idempotency::KernelCounters& counters) {
    text_ +=
        "# HELP semel_idempotency_total Answers of the idempotency kernel\n"
        "# TYPE semel_idempotency_total counter\n";
    for (const auto& [outcome, value] : std::to_array<std::pair<std::string_view, std::uint64_t>>(
             {{"hit", counters.hits},
              {"miss", counters.misses},
              {"takeover", counters.takeovers},
              {"in_progress", counters.in_progress},
              {"conflict", counters.conflicts},
              {"unknown", counters.unknown},
              {"fence_lost", counters.fences_lost}})) {
      text_ += fmt::format("semel_idempotency_total{{outcome=\"{}\"}} {}\n", outcome, value);
    }
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string metrics_of(const engine::Loop& loop, const idempotency::KernelCounters& kernel) {
  const engine::LoopCounters& counters = loop.counters();
  MetricsText text;
  text.add("batches_total", "counter", "Batches given to the store", counters.batches);
  text.add("commands_total", "counter", "Commands in them", counters.commands);
  text.add("stale_total", "counter", "Runs read anew because somebody else had written",
           counters.stale);
  text.add("late_results_total", "counter", "Results of steps that nobody waited for any more",
           counters.late_results);
  text.add("replays_total", "counter", "Runs rebuilt from their journal", counters.replays);
  text.add("evictions_total", "counter", "Idle runs dropped from memory", counters.evictions);
  text.add("recovered_total", "counter", "Runs with attempts that a crash had cut off",
           counters.recovered);
  text.add("live_runs", "gauge", "Unfinished runs in memory", loop.live_runs());
  text.add("steps_in_flight", "gauge", "Step bodies that are running", loop.bodies_in_flight());
  text.add("waiting_clients", "gauge", "Callers that wait for the end of a run", loop.watchers());
  text.add("frame_bytes", "gauge", "Memory of suspended runs", loop.frame_bytes());
  text.add("store_lost", "gauge", "1 while the store is not available",
           loop.is_store_lost() ? 1 : 0);
  text.add("idempotency_cache_hits_total", "counter", "Replays that came from memory",
           kernel.cache_hits);
  text.add_outcomes(kernel);
  return text.take();
}

}  // namespace

void Api::add_keys() {
  act<wire::NewKey, wire::ApiKey>(
      "/api/v1/api-keys", "apiKeys.create", Needs::admin,
      [this](const http::Request&, const http::Call& call, const wire::NewKey& body) {
        return [this, wish = wish_of(body, call), caller = caller_of(call)](Unit& unit) {
          return keys_.create(unit, caller, wish);
        };
      },
      Kept::id);

  look<wire::ApiKeyList>("/api/v1/api-keys", "apiKeys.list", Needs::admin, {},
                         [this](http::Call& call) {
                           json::array items;
                           for (const ApiKey& key : keys_.list(call.tenant))
                             items.emplace_back(view(key));
                           return json::object{{"items", std::move(items)}};
                         });

  http::detail::Endpoint revoke;
  revoke.spec = http::del<std::monostate>("/api/v1/api-keys/{id}").named("apiKeys.revoke").spec();
  needs_["apiKeys.revoke"] = Needs::admin;
  core_.add_whole(std::move(revoke), false,
                  [this](const http::Request& request, const http::Call& call,
                         const std::shared_ptr<const void>&, http::Responder responder) {
                    try {
                      check_query(call, {});
                    } catch (...) {
                      responder.answer(http::detail::answer_to(std::current_exception()));
                      return;
                    }
                    actions_.perform(
                        {request, call.actor, call.tenant, shared_from_this()},
                        [this, caller = caller_of(call), id = call.path.at("id")](Unit& unit) {
                          return keys_.revoke(unit, caller, id);
                        },
                        std::move(responder));
                  });
}

void Api::add_operating() {
  look<wire::WorkflowList>("/api/v1/workflows", "workflows.list", Needs::read, {},
                           [this](http::Call&) {
                             json::array items;
                             for (const detail::WorkflowType* type : parts_.registry->all())
                               items.emplace_back(view_of(*type));
                             return json::object{{"items", std::move(items)}};
                           });

  const auto open = [this](const std::string& path, const std::string& name,
                           std::function<http::Response()> answer) {
    http::detail::Endpoint endpoint;
    endpoint.spec = http::get<wire::Health>(path).named(name).spec();
    core_.add_whole(std::move(endpoint), true,
                    [this, answer = std::move(answer)](const http::Request&, const http::Call&,
                                                       const std::shared_ptr<const void>&,
                                                       http::Responder responder) {
                      const auto client = std::make_shared<http::Responder>(std::move(responder));
                      core_.submit([client, answer] { client->answer(answer()); });
                    });
  };
  open("/healthz", "health", [] { return json_answer(200, {{"status", "ok"}}); });
  open("/readyz", "readiness", [this] {
    // Looks for a run that is not there: that the store can be read is what matters.
    if (!parts_.driver->reader()->find("default", "-"))
      return http::problem("STORE_UNAVAILABLE", "the store is not available");
    return json_answer(200, {{"status", "ready"}});
  });

  needs_["metrics"] = Needs::read;
  core_.add_raw("GET", "/metrics", "metrics", false,
                [this](const http::Request&, const http::Call& call, http::Responder responder) {
                  const auto client = std::make_shared<http::Responder>(std::move(responder));
                  try {
                    check_query(call, {});
                  } catch (...) {
                    client->answer(http::detail::answer_to(std::current_exception()));
                    return;
                  }
                  const bool posted = parts_.driver->post(
                      [client, kernel = parts_.kernel](engine::Loop& loop, TimePoint) {
                        client->answer({200,
                                        {{"content-type", "text/plain; version=0.0.4"}},
                                        metrics_of(loop, kernel->counters())});
                      });
                  if (!posted)
                    client->answer(http::problem("STORE_UNAVAILABLE", "the engine has stopped"));
                });
}

}  // namespace semel::serve
