// What is for operators: health, metrics, which workflows there are, and keys.
#include "http/json_schema.hpp"
#include "http/problem.hpp"
#include "serve/metrics.hpp"
#include "serve/route.hpp"
#include "serve/text.hpp"
#include "serve/view.hpp"
#include "serve/wire.hpp"

#include <boost/json.hpp>

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

/// A process that has the store to itself is the one that is asked.
store::NodeList nodes_of(const Parts& parts) {
  store::NodeList found = value_or_throw(parts.driver->reader()->nodes());
  for (store::NodeRecord& node : found.nodes) {
    if (node.lease > std::chrono::nanoseconds{0}) continue;
    node.name = parts.node;
    node.kept_at = parts.driver->now();
    node.is_this = true;
    for (const detail::WorkflowType* type : parts.registry->all())
      node.workflows.push_back({type->name, type->version});
  }
  return found;
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
  acts_.insert("apiKeys.revoke");
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

  look<wire::NodeList>("/api/v1/nodes", "nodes.list", Needs::read, {},
                       [this](http::Call&) { return view(nodes_of(parts_)); });

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
    // Looks for a run that is not there: that the store can be read is what matters. Where it can be and the engine has lost
    // it all the same (its lease, or a database that only reads) others are the ones to ask.
    if (parts_.driver->is_store_lost() || !parts_.driver->reader()->find("default", "-"))
      return http::problem("STORE_UNAVAILABLE", "the store is not available");
    return json_answer(200, {{"status", "ready"}});
  });

  needs_["metrics"] = Needs::read;
  core_.add_raw(
      "GET", "/metrics", "metrics", false,
      [this](const http::Request&, const http::Call& call, http::Responder responder) {
        const auto client = std::make_shared<http::Responder>(std::move(responder));
        try {
          check_query(call, {});
        } catch (...) {
          client->answer(http::detail::answer_to(std::current_exception()));
          return;
        }
        const auto text = std::make_shared<MetricsText>();
        tell_requests(*text, core_);
        text->gauge("event_streams", "Clients that follow a journal", tails_->count());
        tell_kernel(*text, parts_.kernel->counters());
        tell_driver(*text, parts_.driver->meter());
        const bool posted = parts_.driver->post([client, text](engine::Loop& loop, TimePoint) {
          tell_loop(*text, loop);
          client->answer({200, {{"content-type", "text/plain; version=0.0.4"}}, text->take()});
        });
        if (!posted) client->answer(http::problem("STORE_UNAVAILABLE", "the engine has stopped"));
      });
}

}  // namespace semel::serve
