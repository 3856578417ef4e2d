#include "app/cli.hpp"

#include "app/bench.hpp"
#include "app/cli_commands.hpp"
#include "app/cli_completion.hpp"
#include "app/cli_proxy.hpp"
#include "app/cli_runs.hpp"
#include "app/cli_serve.hpp"
#include "app/cli_verify.hpp"

#include <semel/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace semel::app {

namespace {

constexpr int failure = 1;
constexpr int misuse = 2;

/// The options of all commands, filled while the arguments are read.
struct Chosen {
  Action action;  ///< of the commands that set it
  DoctorOptions doctor;
  MigrateOptions migrate;
  ProxyCommand proxy;
  ServeCommand serve;
  VerifyOptions verify;
  bench::Options bench;
  std::string bench_child;
  std::string shell;
};

CLI::Option* add_store(CLI::App& command, std::string& store) {
  return command.add_option("--store", store, "where the runs are, as the engine was told")
      ->type_name("sqlite:FILE");
}

void add_json(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "for scripts: JSON instead of a table");
}

void add_workspace(CLI::App& command, std::string& workspace) {
  command.add_option("--workspace", workspace, "whose runs")
      ->type_name("NAME")
      ->capture_default_str();
}

void add_doctor(CLI::App& program, DoctorOptions& options) {
  CLI::App* command = program.add_subcommand(
      "doctor", "Look a store over: what is in it, and whether every unfinished run will wake");
  add_store(*command, options.store)->required();
  command->add_option("--limit", options.limit, "how many runs at fault to list")
      ->type_name("N")
      ->capture_default_str();
  add_json(*command, options.json);
  command->footer(
      "Only looks; may be used while an engine runs. Ends with 1 where a run will not wake.\n\n"
      "Example:\n  semel doctor --store sqlite:shop.db");
}

void add_list(CLI::App& runs, Action& chosen) {
  auto shared = std::make_shared<RunsOptions>();
  RunsOptions& options = *shared;
  CLI::App* command = runs.add_subcommand("list", "List runs, newest first");
  command
      ->add_option("--status", options.status,
                   "pending, running, waiting, completed, failed, cancelled, dead or diverged")
      ->type_name("STATUS");
  command->add_option("--workflow", options.workflow, "of this workflow alone")->type_name("NAME");
  command->add_option("--limit", options.limit, "how many")->type_name("N")->capture_default_str();
  add_where(*command, options.where);
  add_store(*command, options.store);
  add_workspace(*command, options.workspace);
  command->footer(
      "With --store it reads the file, also beside a running engine.\n\n"
      "Example:\n  semel runs list --store sqlite:shop.db --status failed --limit 5");
  on_chosen(*command, chosen, std::move(shared),
            [](const RunsOptions& runs, Output output) { return list_runs(runs, output); });
}

void add_runs(CLI::App& program, Action& chosen) {
  CLI::App* runs = program.add_subcommand("runs", "List, start and steer runs");
  runs->require_subcommand(1);
  runs->footer("Example:\n  semel runs list --status waiting");
  add_list(*runs, chosen);
  add_run_commands(*runs, chosen);
}

void add_journal(CLI::App& program, Action& chosen) {
  CLI::App* journal = program.add_subcommand("journal", "Look at what runs remember");
  journal->require_subcommand(1);
  journal->footer("Example:\n  semel journal dump order-7");
  auto shared = std::make_shared<JournalOptions>();
  JournalOptions& options = *shared;
  CLI::App* command = journal->add_subcommand("dump", "Show what a run remembers, entry by entry");
  command->add_option("RUN_ID", options.run_id, "as `semel runs list` shows it")->required();
  add_where(*command, options.where);
  add_store(*command, options.store);
  add_workspace(*command, options.workspace);
  command->footer(
      "With --store it reads the file, also beside a running engine.\n\n"
      "Example:\n  semel journal dump order-7 --store sqlite:shop.db --json");
  on_chosen(*command, chosen, std::move(shared), [](const JournalOptions& dump, Output output) {
    return show_journal(dump, output.out);
  });
}

void add_verify(CLI::App& program, VerifyOptions& options) {
  CLI::App* command = program.add_subcommand(
      "verify", "Replay stored journals against this program's workflows, and change nothing");
  add_store(*command, options.store)->required();
  command->add_option("--workflow", options.workflow, "of this workflow alone")->type_name("NAME");
  add_workspace(*command, options.workspace);
  command->add_flag("--all", options.all, "finished runs as well");
  add_json(*command, options.json);
  command->footer(
      "Before a new version goes out: ends with 1 where a run would be parked as diverged.\n\n"
      "Example:\n  semel verify --store sqlite:shop.db");
}

void add_migrate(CLI::App& program, MigrateOptions& options) {
  CLI::App* command = program.add_subcommand(
      "migrate", "Bring a store to this program's schema; opening an engine does it too");
  add_store(*command, options.store)->required();
  add_json(*command, options.json);
  command->footer(
      "Keep a copy of the file: an older program refuses a newer schema.\n\n"
      "Example:\n  semel migrate --store sqlite:shop.db");
}

void add_completion(CLI::App& program, std::string& shell) {
  CLI::App* command =
      program.add_subcommand("completion", "Print a script that completes commands in your shell");
  command->add_option("SHELL", shell, "bash, zsh or fish")->required();
  command->footer("Example:\n  semel completion bash > /etc/bash_completion.d/semel");
  program.add_subcommand("man", "Print the manual page")
      ->footer("Example:\n  semel man | man -l -");
}

void add_serve(CLI::App& program, ServeCommand& serve) {
  CLI::App* command = program.add_subcommand("serve", "Run workflows and serve them over HTTP");
  command->add_option("--store", serve.store, "where the runs are; made where it is not there")
      ->type_name("sqlite:FILE | postgres://HOST/DB")
      ->required();
  command->add_option("--listen", serve.listen, "where clients come; port 0 is one that is free")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command->add_flag("--demo", serve.is_demo, "with workflows to try it with");
  command
      ->add_option("--node", serve.node,
                   "on PostgreSQL: its name among others; by default the host's")
      ->type_name("NAME");
  command
      ->add_option("--lease", serve.lease,
                   "on PostgreSQL: silent for so long, it loses its runs to others")
      ->type_name("DURATION")
      ->capture_default_str();
  command
      ->add_option("--log", serve.log,
                   "of the log on stderr; by default text on a terminal, json elsewhere")
      ->type_name("json | text");
  command->add_option("--log-level", serve.log_level, "debug, info, warning, error or off")
      ->type_name("LEVEL")
      ->capture_default_str();
  const auto limit = [&](const char* option, auto& value, const char* about) {
    command->add_option(option, value, about)->type_name("N")->check(CLI::NonNegativeNumber);
  };
  limit("--requests-per-second", serve.workspace.requests_per_second,
        "of each workspace; replays are free");
  limit("--active-runs", serve.workspace.active_runs_max, "of each workspace, at a time");
  limit("--stored-bytes", serve.workspace.stored_bytes_max,
        "of each workspace: inputs, outputs, journals");
  command->footer(
      "Without API keys it serves this machine alone and everybody on it. SIGTERM or Ctrl-C ends "
      "it "
      "in order.\n\n"
      "Example:\n  semel serve --store sqlite:shop.db --demo\n"
      "  semel serve --store 'postgres://semel@db1,db2/semel?target_session_attrs=read-write' "
      "--node shop-1");
}

void add_proxy(CLI::App& program, ProxyCommand& proxy) {
  CLI::App* command = program.add_subcommand(
      "proxy", "Give an HTTP service idempotency keys: stand in front of it and remember answers");
  command->add_option("--listen", proxy.listen, "where clients come; port 0 is one that is free")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command->add_option("--upstream", proxy.upstream, "the service")
      ->type_name("http://HOST[:PORT][/BASE]")
      ->required();
  command
      ->add_option("--store", proxy.store,
                   "where keys and answers are kept; memory: forgets them with the process")
      ->type_name("sqlite:FILE")
      ->required();
  command->add_option("--preset", proxy.preset, "default, ietf, beignet, codecourier or stripe")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--config", proxy.config_file, "settings, which win over the preset")
      ->type_name("FILE");
  command->add_option("--admin", proxy.admin, "where /healthz, /readyz and /metrics are")
      ->type_name("HOST:PORT");
  command->add_flag("--quiet", proxy.is_quiet, "no line on the standard output per request");
  command->footer(
      "Serves until SIGTERM, then finishes what is under way for up to 30 s. One process at a time "
      "owns a\nstore.\n\n"
      "Example:\n  semel proxy --upstream http://127.0.0.1:3000 --store sqlite:keys.db");
}

void add_bench(CLI::App& program, Chosen& chosen) {
  CLI::App* command = program.add_subcommand(
      "bench", "Measure the engine on this machine, beside its database and the disk");
  bench::Options& options = chosen.bench;
  command->add_flag("--short", options.brief, "half a minute, for CI; too short to judge by");
  command
      ->add_option("--only", options.only, "some of the measurements; all of them are named below")
      ->type_name("NAME,...")
      ->delimiter(',');
  command->add_option("--json", options.json_file, "write the figures there, too")
      ->type_name("FILE");
  command
      ->add_option("--dir", options.directory,
                   "make the files there; by default on the first disk of"
                   " TMPDIR, /var/tmp, /tmp")
      ->type_name("DIR");
  command
      ->add_option("--store", options.postgres_url,
                   "on PostgreSQL, in an empty database; by default SQLite")
      ->type_name("postgres://...");
  command
      ->add_option("--runs", options.large_runs,
                   "of `large`: finished runs in the tables; by default 100000")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->add_option("--child", chosen.bench_child)->group("");
  command->footer(fmt::format(
      "Measurements: {}\n\n"
      "Takes about four minutes. A ratio compares with the limit measured next to it. Ends with 1 "
      "where\n"
      "figures make no sense, not where they are low. `large` is measured where --only names "
      "it.\n\n"
      "Example:\n  semel bench --only latency,throughput --json figures.json",
      fmt::join(bench::measurement_names(), ", ")));
}

int dispatch(const CLI::App& program, const Chosen& chosen, Output output,
             const Workflows& workflows) {
  if (chosen.action) return chosen.action(output);
  if (program.got_subcommand("serve")) return run_serve(chosen.serve, workflows, output);
  if (program.got_subcommand("verify")) return verify(chosen.verify, workflows, output);
  if (program.got_subcommand("doctor")) return doctor(chosen.doctor, output.out);
  if (program.got_subcommand("migrate")) return migrate(chosen.migrate, output.out);
  if (program.got_subcommand("completion")) {
    output.out << completion_script(program, chosen.shell);
    return 0;
  }
  if (program.got_subcommand("man")) {
    output.out << manual_page(program, SEMEL_VERSION);
    return 0;
  }
  if (program.got_subcommand("proxy")) return run_proxy(chosen.proxy, output);
  if (!chosen.bench_child.empty()) return bench::run_child(chosen.bench_child, output.out);
  return bench::run(chosen.bench, output.out);
}

/// CLI11 would only say that a subcommand is required.
void require_command(const CLI::App& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
  const std::string there_are =
      fmt::format("there are {}; `semel --help` says more", fmt::join(names, ", "));
  if (arguments.empty()) throw Error("VALIDATION_ERROR", "give a command: " + there_are);
  const std::string& first = arguments.front();
  if (first.starts_with('-') || std::ranges::find(names, first) != names.end()) return;
  throw Error("VALIDATION_ERROR", fmt::format("there is no command \"{}\": {}", first, there_are));
}

int explain(const Error& error, std::ostream& err) {
  fmt::print(err, "semel: {}\n", error.what());
  return error.code() == "VALIDATION_ERROR" ? misuse : failure;
}

}  // namespace

bool terminal_has_colour() {
  const char* refused = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  if (refused != nullptr && *refused != '\0') return false;
  return terminal != nullptr && std::string_view(terminal) != "dumb" &&
         ::isatty(STDOUT_FILENO) == 1;
}

int run_command(std::vector<std::string> arguments, Output output, const Workflows& workflows) {
  CLI::App program(
      "semel: durable workflows and idempotency keys. Commands speak to a server, or look at a "
      "store.",
      "semel");
  Chosen chosen;
  program.set_version_flag("--version", std::string("semel " SEMEL_VERSION));
  program.require_subcommand(1);
  add_serve(program, chosen.serve);
  add_proxy(program, chosen.proxy);
  add_runs(program, chosen.action);
  add_hooks(program, chosen.action);
  add_workflows(program, chosen.action);
  add_nodes(program, chosen.action);
  add_journal(program, chosen.action);
  add_idempotency(program, chosen.action);
  add_api_keys(program, chosen.action);
  add_verify(program, chosen.verify);
  add_doctor(program, chosen.doctor);
  add_migrate(program, chosen.migrate);
  add_copy(program, chosen.action);
  add_bench(program, chosen);
  add_completion(program, chosen.shell);
  program.footer(
      "`semel COMMAND --help` says more.\n\nExample:\n  semel runs list --status waiting");

  try {
    require_command(program, arguments);
    std::ranges::reverse(arguments);  // CLI11 takes them from the end
    program.parse(std::move(arguments));
    return dispatch(program, chosen, output, workflows);
  } catch (const CLI::ParseError& error) {
    const int code = program.exit(error, output.out, output.err);
    return code == 0 ? 0 : misuse;
  } catch (const Error& error) {
    return explain(error, output.err);
  } catch (const std::exception& error) {
    fmt::print(output.err, "semel: {}\n", error.what());
    return failure;
  }
}

}  // namespace semel::app
