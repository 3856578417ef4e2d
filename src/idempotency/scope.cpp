#include "idempotency/scope.hpp"

namespace semel::idempotency {

namespace {

void append(std::string& out, std::string_view text, char end) {
  out += std::to_string(text.size());
  out += ':';
  out += text;
  out += end;
}

}  // namespace

std::string scope_text(const std::map<std::string, std::string>& scope) {
  std::string text;
  for (const auto& [name, value] : scope) {
    append(text, name, '=');
    append(text, value, ';');
  }
  return text;
}

std::optional<std::string> scope_text(Scope scope, std::string_view actor,
                                      std::string_view tenant) {
  const bool needs_actor = scope == Scope::actor || scope == Scope::actor_tenant;
  const bool needs_tenant = scope == Scope::tenant || scope == Scope::actor_tenant;
  if ((needs_actor && actor.empty()) || (needs_tenant && tenant.empty())) return std::nullopt;
  std::map<std::string, std::string> parts;
  if (needs_actor) parts.emplace("actor", actor);
  if (needs_tenant) parts.emplace("tenant", tenant);
  return scope_text(parts);
}

}  // namespace semel::idempotency
