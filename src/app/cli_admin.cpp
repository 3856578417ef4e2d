// Keys of both kinds, and what a server can run.
#include "app/cli_runs.hpp"
#include "app/cli_table.hpp"

#include <semel/error.hpp>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>

namespace semel::app {

namespace {

namespace json = boost::json;

// ------------------------------------------------------------------------------------------------ idempotency

struct ReservationCommand {
  Where where;
  std::string ns;
  std::string key;
  std::vector<std::string> scope{};
  bool force = false;

  Parameters query() const {
    Parameters parameters{{"namespace", ns}, {"key", key}};
    for (const std::string& each : scope) {
      const std::size_t equals = each.find('=');
      if (equals == std::string::npos || equals == 0)
        throw Error("VALIDATION_ERROR", "--scope " + each + ": write NAME=VALUE");
      parameters["scope." + each.substr(0, equals)] = each.substr(equals + 1);
    }
    return parameters;
  }
};

int show_reservation(const ReservationCommand& command, Output output) {
  const Json found = command.where.connect().get("/api/v1/idempotency", {}, command.query());
  if (command.where.json) {
    print_json(found, output.out);
    return 0;
  }
  for (const auto& [name, member] : found.as_object()) {
    fmt::print(output.out, "{:<15} {}\n", std::string_view(name),
               shortened(text_of(found, name), 100));
  }
  return 0;
}

struct ReservationsCommand {
  Where where;
  std::optional<std::string> ns{};
  std::size_t limit = 20;
};

std::string scope_text(const Json& reservation) {
  std::string text;
  const json::value* scope = reservation.as_object().if_contains("scope");
  if (scope == nullptr || !scope->is_object()) return text;
  for (const auto& [name, part] : scope->get_object())
    text += (text.empty() ? "" : " ") + std::string(name) + "=" + text_of(*scope, name);
  return text;
}

/// Page by page, as many as were asked for. A page may have fewer than that, and even none.
int list_reservations(const ReservationsCommand& command, Output output) {
  constexpr std::size_t page_max = 200;
  if (command.limit == 0) throw Error("VALIDATION_ERROR", "--limit 0 shows nothing");
  Remote remote = command.where.connect();
  Parameters query;
  if (command.ns) query["namespace"] = *command.ns;
  json::array items;
  std::string next;
  do {
    query["limit"] = std::to_string(std::min(page_max, command.limit - items.size()));
    const Json page = remote.get("/api/v1/idempotency", {}, query);
    for (const Json& each : page.as_object().at("items").as_array()) items.push_back(each);
    next = text_of(page, "nextCursor");
    query["cursor"] = next;
  } while (!next.empty() && items.size() < command.limit);
  if (command.where.json) {
    print_json(json::object{{"items", items}, {"more", !next.empty()}}, output.out);
    return 0;
  }
  if (items.empty()) {
    fmt::print(output.out, "no keys\n");
    return 0;
  }
  Table table({"NAMESPACE", "KEY", "STATE", "UNTIL (UTC)", "SCOPE"});
  for (const Json& each : items) {
    table.add({shortened(text_of(each, "namespace"), 60), shortened(text_of(each, "key"), 60),
               text_of(each, "state"), time_for_people(text_of(each, "expiresAt")),
               shortened(scope_text(each), 100)});
  }
  table.print(output.out, output.has_colour);
  if (!next.empty()) fmt::print(output.out, "the {} newest; --limit shows more\n", items.size());
  return 0;
}

int forget_reservation(const ReservationCommand& command, Output output) {
  Parameters query = command.query();
  if (command.force) query["force"] = "true";
  command.where.connect().remove("/api/v1/idempotency", {}, query);
  if (!command.where.json)
    fmt::print(output.out, "forgotten: the next request with this key is a new one\n");
  return 0;
}

// ------------------------------------------------------------------------------------------------ API keys

struct ApiKeyCommand {
  Where where;
  std::string name;
  std::vector<std::string> scopes{};
  std::string workspace{};
  std::string expires_in{};
};

int create_key(const ApiKeyCommand& command, Output output) {
  json::object body{{"name", command.name}, {"scopes", json::value_from(command.scopes)}};
  if (!command.workspace.empty()) body["workspace"] = command.workspace;
  if (!command.expires_in.empty()) body["expiresIn"] = command.expires_in;
  const Json made = command.where.connect().post("/api/v1/api-keys", {}, body);
  if (command.where.json) {
    print_json(made, output.out);
  } else {
    // The key alone on standard output, so that a script can take it.
    fmt::print(output.err, "semel: made {}; it is shown this once:\n", text_of(made, "id"));
    fmt::print(output.out, "{}\n", text_of(made, "key"));
  }
  return 0;
}

int list_keys(const ApiKeyCommand& command, Output output) {
  const Json page = command.where.connect().get("/api/v1/api-keys");
  if (command.where.json) {
    print_json(page, output.out);
    return 0;
  }
  Table table({"ID", "NAME", "SCOPES", "WORKSPACE", "MADE (UTC)", "EXPIRES (UTC)"});
  for (const Json& key : page.as_object().at("items").as_array()) {
    std::string scopes;
    for (const Json& scope : key.as_object().at("scopes").as_array()) {
      scopes += (scopes.empty() ? "" : ",") + std::string(std::string_view(scope.as_string()));
    }
    table.add({text_of(key, "id"), text_of(key, "name"), scopes, text_of(key, "workspace"),
               time_for_people(text_of(key, "createdAt")),
               time_for_people(text_of(key, "expiresAt"))});
  }
  table.print(output.out);
  return 0;
}

int revoke_key(const ApiKeyCommand& command, Output output) {
  command.where.connect().remove("/api/v1/api-keys/{id}", {{"id", command.name}});
  if (!command.where.json) fmt::print(output.out, "revoked {}\n", command.name);
  return 0;
}

// ------------------------------------------------------------------------------------------------ workflows

int list_workflows(const Where& where, Output output) {
  const Json page = where.connect().get("/api/v1/workflows");
  if (where.json) {
    print_json(page, output.out);
    return 0;
  }
  Table table({"WORKFLOW", "VERSION"});
  for (const Json& each : page.as_object().at("items").as_array())
    table.add({text_of(each, "name"), text_of(each, "version")});
  table.print(output.out);
  return 0;
}

}  // namespace

void add_idempotency(CLI::App& program, Action& chosen) {
  CLI::App* group = program.add_subcommand("idempotency", "Look at idempotency keys; forget one");
  group->require_subcommand(1);
  group->footer("Example:\n  semel idempotency show --namespace 'POST /orders' --key 7d1f");
  const auto add = [&](const char* name, const char* about, auto run) {
    auto options = std::make_shared<ReservationCommand>();
    CLI::App* command = group->add_subcommand(name, about);
    command->add_option("--namespace", options->ns, "of the key; over HTTP, method and path")
        ->type_name("TEXT")
        ->required();
    command->add_option("--key", options->key, "as it was sent")->type_name("TEXT")->required();
    command->add_option("--scope", options->scope, "whose it is; may be repeated")
        ->type_name("NAME=VALUE");
    add_where(*command, options->where);
    command->footer(fmt::format(
        "Example:\n  semel idempotency {} --namespace 'POST /orders' --key 7d1f", name));
    ReservationCommand* const all = options.get();
    on_chosen(*command, chosen, std::move(options), run);
    return std::pair<CLI::App*, ReservationCommand*>(command, all);
  };
  auto all = std::make_shared<ReservationsCommand>();
  CLI::App* list = group->add_subcommand("list", "List keys that are remembered, newest first");
  list->add_option("--namespace", all->ns, "of this one alone; over HTTP, method and path")
      ->type_name("TEXT");
  list->add_option("--limit", all->limit, "how many")->type_name("N")->capture_default_str();
  add_where(*list, all->where);
  list->footer("Example:\n  semel idempotency list --namespace 'POST /api/v1/runs'");
  on_chosen(*list, chosen, std::move(all), list_reservations);
  add("show", "Show what is known of a key", show_reservation);
  const auto [forgotten, options] =
      add("forget", "Forget a key: the next request with it is a new one", forget_reservation);
  forgotten->add_flag("--force", options->force,
                      "also while a request is under way, which is fenced off");
}

void add_api_keys(CLI::App& program, Action& chosen) {
  CLI::App* group = program.add_subcommand("api-key", "Make, list and revoke API keys");
  group->require_subcommand(1);
  group->footer("Example:\n  semel api-key create ops --scope admin --scope read --scope write");
  const auto add = [&](const char* name, const char* about, const char* example, auto run) {
    auto options = std::make_shared<ApiKeyCommand>();
    CLI::App* command = group->add_subcommand(name, about);
    add_where(*command, options->where);
    command->footer(std::string("Example:\n  semel api-key ") + example);
    ApiKeyCommand* const all = options.get();
    on_chosen(*command, chosen, std::move(options), run);
    return std::pair<CLI::App*, ApiKeyCommand*>(command, all);
  };
  const auto [created, create_options] =
      add("create", "Make a key and show it, once. The first one must carry admin",
          "create ci --scope read --scope write --expires-in 30d", create_key);
  created->add_option("NAME", create_options->name, "to know it by")->required();
  created->add_option("--scope", create_options->scopes, "read, write or admin; may be repeated")
      ->type_name("SCOPE")
      ->required();
  created->add_option("--workspace", create_options->workspace, "whose it is; made if it is new")
      ->type_name("NAME");
  created->add_option("--expires-in", create_options->expires_in, "for example 30d")
      ->type_name("TIME");
  add("list", "List keys, without what is secret in them", "list", list_keys);
  const auto [revoked, revoke_options] =
      add("revoke", "Revoke a key, effective at once", "revoke key_1", revoke_key);
  revoked->add_option("ID", revoke_options->name, "as `api-key list` shows it")->required();
}

void add_workflows(CLI::App& program, Action& chosen) {
  auto options = std::make_shared<Where>();
  CLI::App* command = program.add_subcommand("workflows", "List what a server can run");
  add_where(*command, *options);
  command->footer(
      "With --json also what each takes and gives, as JSON Schemas.\n\n"
      "Example:\n  semel workflows");
  on_chosen(*command, chosen, std::move(options), list_workflows);
}

}  // namespace semel::app
