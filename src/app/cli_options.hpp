// What the commands that speak to a server have in common.
#pragma once

#include "app/cli.hpp"
#include "app/cli_remote.hpp"

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <string>

namespace semel::app {

/// What was chosen on the command line: set by the command's callback, done once all of it is understood.
using Action = std::function<int(Output)>;

/// Where a command looks, and how it shows what it found.
struct Where {
  std::string server;
  bool json = false;

  Remote connect() const;
};

void add_where(CLI::App& command, Where& where);

/// What somebody typed as JSON, as @FILE, or as - for standard input. Throws Error VALIDATION_ERROR naming `option`.
Json json_argument(const std::string& option, const std::string& text);

/// A member as text; empty where it is not there or null.
std::string text_of(const Json& object, std::string_view member);

/// "2026-11-16 09:17:16" of a server's time; empty stays empty.
std::string time_for_people(const std::string& time);

void print_json(const Json& json, std::ostream& out);

/// Adds a leaf: `options` live as long as the action that uses them.
template <class Options, class Run>
void on_chosen(CLI::App& command, Action& chosen, std::shared_ptr<Options> options, Run run) {
  command.callback([&chosen, options = std::move(options), run] {
    chosen = [options, run](Output output) { return run(*options, output); };
  });
}

}  // namespace semel::app
