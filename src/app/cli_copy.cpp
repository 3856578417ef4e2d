#include "app/cli_progress.hpp"
#include "app/cli_runs.hpp"
#include "app/copy.hpp"

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

namespace semel::app {

namespace {

namespace json = boost::json;

struct CopyCommand {
  CopyOptions options;
  bool undoes = false;
  bool json = false;
};

void print(const CopyCommand& command, const Copied& copied, Output output) {
  const std::string& workspace = command.options.workspace;
  if (command.json) {
    output.out << json::serialize(json::object{{"workspace", workspace},
                                               {"runs", copied.runs},
                                               {"entries", copied.entries},
                                               {"payloads", copied.payloads},
                                               {"reservations", copied.reservations},
                                               {"wasDone", copied.was_done},
                                               {"leftOver", json::value_from(copied.left_over)}})
               << '\n';
    return;
  }
  fmt::print(output.out,
             "{} workspace {}: {} runs with {} journal entries, {} payloads that wait, {} "
             "idempotency keys\n",
             copied.was_done ? "there is nothing to do; moved was" : "moved", workspace,
             copied.runs, copied.entries, copied.payloads, copied.reservations);
  fmt::print(output.out, "start engines with --store on the target; the file is opened by none\n");
  if (!copied.left_over.empty()) {
    fmt::print(output.out, "still in the file alone, move them with --workspace: {}\n",
               fmt::join(copied.left_over, ", "));
  }
}

int run_copy(const CopyCommand& command, Output output) {
  CopyOptions options = command.options;
  if (command.undoes) {
    undo_copy(options);
    if (!command.json)
      fmt::print(output.out, "workspace {} is the file's again\n", options.workspace);
    return 0;
  }
  Copied copied;
  {
    Progress progress(output.err, "runs and keys");
    options.progress = [&](const CopyProgress& now) {
      progress.show(static_cast<std::uint64_t>(now.done), static_cast<std::uint64_t>(now.all));
    };
    copied = copy_workspace(options);
  }
  print(command, copied, output);
  return 0;
}

}  // namespace

void add_copy(CLI::App& program, Action& chosen) {
  auto command = std::make_shared<CopyCommand>();
  CopyOptions& options = command->options;
  CLI::App* copy =
      program.add_subcommand("copy", "Move a workspace from a SQLite file to PostgreSQL");
  copy->add_option("--from", options.from, "the file; no engine may have it open")
      ->type_name("sqlite:FILE")
      ->required();
  copy->add_option("--to", options.to, "the database; no engine may have it open")
      ->type_name("postgres://HOST/DATABASE")
      ->required();
  copy->add_option("--workspace", options.workspace, "whose runs and keys")
      ->type_name("NAME")
      ->capture_default_str();
  copy->add_flag("--undo", command->undoes, "take back a move that was not finished");
  copy->add_flag("--json", command->json, "for scripts: JSON instead of words");
  copy->footer(
      "Runs, hooks, payloads and idempotency keys move; API keys and the audit log do not. "
      "Stopped\n"
      "at any moment, the same command goes on. From its begin no engine opens the file any "
      "more.\n\n"
      "Example:\n  semel copy --from sqlite:shop.db --to postgres://semel@db1/semel");
  on_chosen(*copy, chosen, std::move(command), run_copy);
}

}  // namespace semel::app
