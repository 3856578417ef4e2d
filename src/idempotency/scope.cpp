#include "idempotency/scope.hpp"

namespace semel::idempotency {

namespace {

void append(std::string& out, std::string_view text, char end) {
  out += std::to_string(text.size());
  out += ':';
  out += text;
  out += end;
}

void append(std::string& out, std::string_view name, std::string_view value) {
  append(out, name, '=');
  append(out, value, ';');
}

bool needs_actor(Scope scope) { return scope == Scope::actor || scope == Scope::actor_tenant; }

bool needs_tenant(Scope scope) { return scope == Scope::tenant || scope == Scope::actor_tenant; }

}  // namespace

std::string scope_text(const std::map<std::string, std::string>& scope) {
  std::string text;
  for (const auto& [name, value] : scope) append(text, name, value);
  return text;
}

std::string caller_scope_text(Scope scope, std::string_view actor, std::string_view tenant) {
  std::string text;
  if (needs_actor(scope)) append(text, "actor", actor);
  if (needs_tenant(scope)) append(text, "tenant", tenant);
  return text;
}

std::optional<std::string> scope_text(Scope scope, std::string_view actor,
                                      std::string_view tenant) {
  if ((needs_actor(scope) && actor.empty()) || (needs_tenant(scope) && tenant.empty()))
    return std::nullopt;
  return caller_scope_text(scope, actor, tenant);
}

}  // namespace semel::idempotency
