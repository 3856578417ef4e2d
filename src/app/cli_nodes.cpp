// Which processes share a store, and how its partitions are theirs.
#include "app/cli_runs.hpp"
#include "app/cli_store.hpp"
#include "app/cli_table.hpp"
#include "serve/view.hpp"

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ostream.h>

namespace semel::app {

namespace {

namespace json = boost::json;

struct NodesCommand {
  Where where;
  std::string store{};
};

/// A name as people read it: the server that answered says so.
std::string name_of(const Json& node) {
  const std::string name = text_of(node, "name");
  const bool is_this = text_of(node, "isThis") == "true";
  return (name.empty() ? "-" : name) + (is_this ? " (this one)" : "");
}

std::string or_dash(std::string text) { return text.empty() ? "-" : text; }

int list_nodes(const NodesCommand& command, Output output) {
  const Json page =
      command.store.empty()
          ? command.where.connect().get("/api/v1/nodes")
          : Json(serve::view(value_or_throw(open_for_reading(command.store).reader->nodes())));
  if (command.where.json) {
    print_json(page, output.out);
    return 0;
  }
  const json::array& items = page.as_object().at("items").as_array();
  if (items.empty()) {
    fmt::print(output.out, "no nodes\n");
  } else {
    Table table({"NODE", "NUMBER", "PARTITIONS", "WORKS", "SINCE (UTC)", "LAST HEARD OF (UTC)",
                 "LEASE", "WORKFLOWS"});
    for (const Json& node : items) {
      table.add({name_of(node), text_of(node, "number"), text_of(node, "partitions"),
                 text_of(node, "works") == "true" ? "yes" : "no",
                 time_for_people(text_of(node, "since")),
                 time_for_people(text_of(node, "lastHeardOf")), or_dash(text_of(node, "lease")),
                 std::to_string(node.as_object().at("workflows").as_array().size())});
    }
    table.print(output.out, output.has_colour);
  }
  const std::string unowned = text_of(page, "unownedPartitions");
  if (unowned != "0") fmt::print(output.out, "partitions that nobody has: {}\n", unowned);
  return 0;
}

}  // namespace

void add_nodes(CLI::App& program, Action& chosen) {
  auto options = std::make_shared<NodesCommand>();
  CLI::App* command =
      program.add_subcommand("nodes", "List the processes that share a store, and what they have");
  add_where(*command, options->where);
  command->add_option("--store", options->store, "where the runs are, as the engine was told")
      ->type_name("postgres://HOST/DATABASE");
  command->footer(
      "With --store it looks at the database itself. With --json also which workflows each node "
      "can "
      "drive.\n\n"
      "Example:\n  semel nodes --store postgres://semel@db1,db2/semel");
  on_chosen(*command, chosen, std::move(options), list_nodes);
}

}  // namespace semel::app
