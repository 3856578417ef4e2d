#include "app/cli_runs.hpp"

#include "app/cli_table.hpp"

#include <semel/error.hpp>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <set>

namespace semel::app {

namespace {

namespace json = boost::json;

constexpr std::size_t value_width = 100;
constexpr int not_yet = 3;
constexpr int ended_badly = 4;

struct OneRun {
  Where where;
  std::string id;
  std::optional<std::string> grace{};
  std::optional<std::uint64_t> seq{};
  std::string wait = "0s";
};

struct StartCommand {
  Where where;
  std::string workflow;
  std::string input = "[]";
  Parameters texts{};  ///< options of a start that are texts, by their names over HTTP
  std::vector<std::string> attributes{};
  bool wait = false;
};

Parameters place(const OneRun& run) { return {{"id", run.id}}; }

bool is_over(const std::string& status) {
  static const std::set<std::string> ends{"completed", "failed", "cancelled", "dead", "diverged"};
  return ends.contains(status);
}

/// An output, or an error and the exit code that says so.
int print_result(const Json& result, const Where& where, Output output) {
  const std::string status = text_of(result, "status");
  if (where.json) {
    print_json(result, output.out);
  } else if (status == "completed") {
    const json::value* value = result.as_object().if_contains("output");
    fmt::print(output.out, "{}\n", value == nullptr ? "null" : value::to_text(*value));
  } else if (is_over(status)) {
    const json::value* error = result.as_object().if_contains("error");
    fmt::print(
        output.err, "semel: the run is {}{}\n", status,
        error == nullptr ? "" : ": " + text_of(*error, "code") + ": " + text_of(*error, "message"));
  } else {
    fmt::print(output.err, "semel: the run is {}; --wait 60s waits for it\n", status);
  }
  if (status == "completed") return 0;
  return is_over(status) ? ended_badly : not_yet;
}

void print_run(const Json& run, std::ostream& out) {
  for (const char* member :
       {"id", "workflow", "status", "version", "idempotencyKey", "createdAt", "startedAt",
        "completedAt", "attempts", "node", "input", "output", "error", "attributes"}) {
    const std::string text = text_of(run, member);
    if (!text.empty() && text != "{}")
      fmt::print(out, "{:<15} {}\n", member, shortened(text, value_width));
  }
  const std::string waits = waiting_text(run);
  if (!waits.empty()) fmt::print(out, "{:<15} {}\n", "waiting for", waits);
}

int show(const OneRun& command, Output output) {
  const Json run = command.where.connect().get("/api/v1/runs/{id}", place(command));
  if (command.where.json) {
    print_json(run, output.out);
  } else {
    print_run(run, output.out);
  }
  return 0;
}

int result(const OneRun& command, Output output) {
  Remote remote = command.where.connect();
  return print_result(
      remote.get("/api/v1/runs/{id}/result", place(command), {{"wait", command.wait}}),
      command.where, output);
}

/// What came of a start.
int print_started(const Json& answer, const Where& where, Output output) {
  if (where.json) {
    print_json(answer, output.out);
    return 0;
  }
  const json::object& object = answer.as_object();
  const bool created = object.at("created").as_bool();
  const Json& run = object.at("run");
  if (created) {
    fmt::print(output.out, "started {}\n", text_of(run, "id"));
  } else {
    fmt::print(output.out, "{} is there already: {}\n", text_of(run, "id"), text_of(run, "status"));
  }
  return 0;
}

int start(const StartCommand& command, Output output) {
  json::object body{{"workflow", command.workflow},
                    {"input", json_argument("--input", command.input)}};
  for (const auto& [name, text] : command.texts) {
    if (!text.empty()) body[name] = text;
  }
  json::object attributes;
  for (const std::string& each : command.attributes) {
    const std::size_t equals = each.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Error("VALIDATION_ERROR", "--attribute " + each + ": write NAME=VALUE");
    attributes[each.substr(0, equals)] = each.substr(equals + 1);
  }
  if (!attributes.empty()) body["attributes"] = attributes;
  Remote remote = command.where.connect();
  const Json answer = remote.post("/api/v1/runs", {}, body);
  if (!command.wait) return print_started(answer, command.where, output);
  const std::string id = text_of(answer.as_object().at("run"), "id");
  for (;;) {
    const Json found = remote.get("/api/v1/runs/{id}/result", {{"id", id}}, {{"wait", "60s"}});
    if (is_over(text_of(found, "status"))) return print_result(found, command.where, output);
  }
}

/// A request about one run that answers with the run.
int steer(const OneRun& command, const std::string& verb, const Json& body, const std::string& done,
          Output output) {
  const Json answer =
      command.where.connect().post("/api/v1/runs/{id}/" + verb, place(command), body);
  if (command.where.json) {
    print_json(answer, output.out);
  } else {
    fmt::print(output.out, "{}",
               fmt::format(fmt::runtime(done), fmt::arg("id", command.id),
                           fmt::arg("status", text_of(answer, "status"))));
  }
  return 0;
}

int cancel(const OneRun& command, Output output) {
  json::object body;
  if (command.grace) body["grace"] = *command.grace;
  return steer(command, "cancel", body, "{id} is {status}\n", output);
}

int retry(const OneRun& command, Output output) {
  return steer(command, "retry", json::object{}, "{id} goes on: {status}\n", output);
}

int fork(const OneRun& command, Output output) {
  json::object body;
  body["seq"] = *command.seq;
  const Json answer = command.where.connect().post("/api/v1/runs/{id}/fork", place(command), body);
  if (command.where.json) {
    print_json(answer, output.out);
  } else {
    fmt::print(output.out, "started {} from entry {} of {}\n",
               text_of(answer.as_object().at("run"), "id"), *command.seq, command.id);
  }
  return 0;
}

int wake(const OneRun& command, Output output) {
  const Json answer =
      command.where.connect().post("/api/v1/runs/{id}/wake", place(command), json::object{});
  if (command.where.json) {
    print_json(answer, output.out);
  } else {
    fmt::print(output.out, "{} of its sleeps ended\n", text_of(answer, "woken"));
  }
  return 0;
}

std::string entry_line(const Json& entry) {
  return fmt::format("{:>5}  {}  {:<18} {:<20} {}", text_of(entry, "seq"),
                     time_for_people(text_of(entry, "at")), text_of(entry, "kind"),
                     text_of(entry, "name"), shortened(text_of(entry, "value"), value_width));
}

/// The journal as it grows, until the run is over.
int tail(const OneRun& command, Output output) {
  Remote remote = command.where.connect();
  remote.follow("/api/v1/runs/{id}/journal", place(command), [&](const Event& event) {
    if (event.kind == "end") return false;
    const Json entry = value::from_text(event.data);
    if (command.where.json) {
      print_json(entry, output.out);
    } else {
      fmt::print(output.out, "{}\n", entry_line(entry));
    }
    output.out.flush();
    return true;
  });
  const std::string status = text_of(remote.get("/api/v1/runs/{id}", place(command)), "status");
  if (!command.where.json) fmt::print(output.out, "{}\n", painted(status, output.has_colour));
  return status == "completed" ? 0 : ended_badly;
}

CLI::App& add_one(CLI::App& runs, const std::string& name, const std::string& about, OneRun& run,
                  const std::string& example) {
  CLI::App* command = runs.add_subcommand(name, about);
  command->add_option("RUN_ID", run.id, "as `semel runs list` shows it")->required();
  add_where(*command, run.where);
  command->footer("Example:\n  semel runs " + example);
  return *command;
}

void add_start(CLI::App& runs, Action& chosen) {
  const auto options = std::make_shared<StartCommand>();
  CLI::App* command = runs.add_subcommand("start", "Start a run; the same key starts one run only");
  command->add_option("WORKFLOW", options->workflow, "as `semel workflows` lists it")->required();
  command
      ->add_option("--input", options->input,
                   "JSON, @FILE or -: an array is the arguments, anything else the only one")
      ->type_name("JSON")
      ->capture_default_str();
  const auto text = [&](const char* option, const char* member, const char* type,
                        const char* about) {
    command->add_option(option, options->texts[member], about)->type_name(type);
  };
  text("--key", "idempotencyKey", "TEXT", "asked again with the same key: the same run");
  text("--run-id", "runId", "ID", "instead of one made up");
  text("--token", "token", "TEXT", "registered with the run, so that a resume is never too early");
  text("--delay", "delay", "TIME", "begin after that time, for example 5m");
  text("--deadline", "deadline", "TIME", "fail when it takes longer");
  text("--on-running", "onRunning", "WHAT", "attach, reject or supersede");
  text("--after-done", "afterDone", "WHAT", "returnResult, startNew, startNewIfFailed or reject");
  command->add_option("--attribute", options->attributes, "to find it by; may be repeated")
      ->type_name("NAME=VALUE");
  command->add_flag("--wait", options->wait, "until it is over, and show its result");
  add_where(*command, options->where);
  command->footer(
      "Example:\n  semel runs start process-order --input '\"789\"' --key order-789 --token "
      "order:789");
  on_chosen(*command, chosen, options, start);
}

}  // namespace

std::string waiting_text(const Json& run) {
  const json::value* all = run.as_object().if_contains("waitingFor");
  std::string text;
  if (all == nullptr || !all->is_array()) return text;
  for (const Json& each : all->as_array()) {
    if (!text.empty()) text += ", ";
    text += text_of(each, "kind");
    for (const char* member : {"token", "until", "name", "runId"}) {
      const std::string what = text_of(each, member);
      if (!what.empty()) text += " " + what;
    }
  }
  return text;
}

std::string error_text(const Json& run) {
  const json::value* error = run.as_object().if_contains("error");
  if (error == nullptr || !error->is_object()) return "";
  return shortened(text_of(*error, "code") + ": " + text_of(*error, "message"), value_width);
}

void print_runs(const Json& page, Output output) {
  const json::array& runs = page.as_object().at("items").as_array();
  if (runs.empty()) {
    fmt::print(output.out, "no runs\n");
    return;
  }
  Table table({"RUN", "WORKFLOW", "STATUS", "STARTED (UTC)", "WAITING FOR, OR WHY NOT"});
  for (const Json& run : runs) {
    const std::string waits = shortened(waiting_text(run), value_width);
    table.add({text_of(run, "id"), text_of(run, "workflow"), text_of(run, "status"),
               time_for_people(text_of(run, "createdAt")),
               waits.empty() ? error_text(run) : waits});
  }
  table.print(output.out, output.has_colour);
  if (page.as_object().at("more").as_bool())
    fmt::print(output.out, "the {} newest; --limit shows more\n", runs.size());
}

void add_run_commands(CLI::App& runs, Action& chosen) {
  const auto add = [&](const char* name, const char* about, const char* example, auto run) {
    const auto options = std::make_shared<OneRun>();
    CLI::App& command = add_one(runs, name, about, *options, example);
    on_chosen(command, chosen, options, run);
    return std::pair<CLI::App*, OneRun*>(&command, options.get());
  };
  add("show", "Show a run: what it was given, what it waits for, what came of it", "show order-789",
      show);
  add_start(runs, chosen);
  const auto [cancelled, cancel_options] =
      add("cancel", "Cancel a run, and free its tokens", "cancel order-789 --grace 30s", cancel);
  cancelled->add_option("--grace", cancel_options->grace, "let it clean up for that long")
      ->type_name("TIME");
  add("retry", "Let a failed, dead or diverged run go on from its last good point",
      "retry order-789", retry);
  const auto [forked, fork_options] =
      add("fork", "Start a new run from an entry of this one", "fork order-789 --seq 4", fork);
  forked->add_option("--seq", fork_options->seq, "the last entry that counts, see `journal dump`")
      ->type_name("N")
      ->required();
  add("wake", "End a run's sleeps now", "wake order-789", wake);
  const auto [waited, result_options] =
      add("result", "Show what came of a run", "result order-789 --wait 30s", result);
  waited->add_option("--wait", result_options->wait, "for it to end, up to 60s")
      ->type_name("TIME")
      ->capture_default_str();
  add("tail", "Show a run's journal as it grows, until the run is over", "tail order-789", tail);
}

}  // namespace semel::app
