#include "app/cli_runs.hpp"
#include "app/cli_table.hpp"

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ostream.h>

namespace semel::app {

namespace {

namespace json = boost::json;

struct HookCommand {
  Where where;
  std::string token;
  std::string workflow{};
  std::string payload = "null";
  std::string input = "[]";
  std::optional<std::string> key{};
  std::string run_id{};
};

void print_hooks(const json::array& hooks, std::ostream& out) {
  Table table({"TOKEN", "RUN", "SINCE (UTC)", "WAITING"});
  for (const Json& hook : hooks) {
    table.add({text_of(hook, "token"), text_of(hook, "runId"),
               time_for_people(text_of(hook, "since")), text_of(hook, "waiting")});
  }
  table.print(out);
}

int list(const HookCommand& command, Output output) {
  Parameters query{{"limit", "200"}};
  if (!command.run_id.empty()) query["runId"] = command.run_id;
  const Json page = command.where.connect().get("/api/v1/hooks", {}, query);
  if (command.where.json) {
    print_json(page, output.out);
    return 0;
  }
  const json::array& hooks = page.as_object().at("items").as_array();
  if (hooks.empty()) {
    fmt::print(output.out, "no hooks\n");
  } else {
    print_hooks(hooks, output.out);
  }
  return 0;
}

int show(const HookCommand& command, Output output) {
  const Json hook =
      command.where.connect().get("/api/v1/hooks/{token}", {{"token", command.token}});
  if (command.where.json) {
    print_json(hook, output.out);
  } else {
    print_hooks({hook}, output.out);
  }
  return 0;
}

int resume(const HookCommand& command, Output output) {
  const Json answer =
      command.where.connect().post("/api/v1/hooks/{token}/resume", {{"token", command.token}},
                                   json_argument("--payload", command.payload), command.key);
  if (command.where.json) {
    print_json(answer, output.out);
  } else {
    fmt::print(output.out, "delivered to {}\n", text_of(answer, "runId"));
  }
  return 0;
}

int resume_or_start(const HookCommand& command, Output output) {
  const json::object body{
      {"workflow", command.workflow},
      {"payload", json_argument("--payload", command.payload)},
      {"start", json::object{{"input", json_argument("--input", command.input)}}}};
  const Json answer = command.where.connect().post("/api/v1/hooks/{token}/resume-or-start",
                                                   {{"token", command.token}}, body, command.key);
  if (command.where.json) {
    print_json(answer, output.out);
  } else {
    const bool started = answer.as_object().at("started").as_bool();
    fmt::print(output.out, "{} {}\n", started ? "started" : "delivered to",
               text_of(answer, "runId"));
  }
  return 0;
}

void add_payload(CLI::App& command, HookCommand& options) {
  command.add_option("--payload", options.payload, "JSON, @FILE or -")
      ->type_name("JSON")
      ->capture_default_str();
  command.add_option("--key", options.key, "sent again with the same key: delivered once")
      ->type_name("TEXT");
}

}  // namespace

void add_hooks(CLI::App& program, Action& chosen) {
  CLI::App* hooks =
      program.add_subcommand("hooks", "Look at hooks, and talk to the runs behind them");
  hooks->require_subcommand(1);
  hooks->footer("Example:\n  semel hooks resume order:789 --payload '{\"confirmed\":true}'");
  const auto add = [&](const char* name, const char* about, const char* example, auto run) {
    auto options = std::make_shared<HookCommand>();
    CLI::App* command = hooks->add_subcommand(name, about);
    add_where(*command, options->where);
    command->footer(std::string("Example:\n  semel hooks ") + example);
    HookCommand* const all = options.get();
    on_chosen(*command, chosen, std::move(options), run);
    return std::pair<CLI::App*, HookCommand*>(command, all);
  };
  const auto [listed, list_options] = add("list", "List hooks that are open", "list", list);
  listed->add_option("--run-id", list_options->run_id, "of this run alone")->type_name("ID");
  const auto token = [](CLI::App* command, HookCommand* options) {
    command->add_option("TOKEN", options->token, "the hook's")->required();
  };
  const auto [shown, show_options] =
      add("show", "Show whose a token is, and how many payloads wait", "show order:789", show);
  token(shown, show_options);
  const auto [resumed, resume_options] =
      add("resume", "Send a payload to whoever owns the token",
          "resume order:789 --payload '{\"confirmed\":true}'", resume);
  token(resumed, resume_options);
  add_payload(*resumed, *resume_options);
  const auto [started, start_options] =
      add("resume-or-start", "The same; where nobody owns the token, a new run does from now on",
          "resume-or-start chat:7 chat --payload '\"hello\"'", resume_or_start);
  token(started, start_options);
  started->add_option("WORKFLOW", start_options->workflow, "of the new run")->required();
  add_payload(*started, *start_options);
  started->add_option("--input", start_options->input, "of the new run: JSON, @FILE or -")
      ->type_name("JSON")
      ->capture_default_str();
}

}  // namespace semel::app
