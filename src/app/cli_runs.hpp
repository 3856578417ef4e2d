// `semel runs`, `semel hooks`, `semel idempotency`, `semel workflows`, `semel nodes`, `semel api-key`: what a server can do.
#pragma once

#include "app/cli_options.hpp"

namespace semel::app {

/// All but `list`, which also reads files.
void add_run_commands(CLI::App& runs, Action& chosen);
void add_hooks(CLI::App& program, Action& chosen);
void add_idempotency(CLI::App& program, Action& chosen);
void add_workflows(CLI::App& program, Action& chosen);
/// Also reads stores.
void add_nodes(CLI::App& program, Action& chosen);
void add_api_keys(CLI::App& program, Action& chosen);

/// From one store to another; without a server.
void add_copy(CLI::App& program, Action& chosen);

/// What a run waits for, in words.
std::string waiting_text(const Json& run);

/// Why a run failed, in words; empty where it did not.
std::string error_text(const Json& run);

/// A list of runs, {"items", "more"}, as a table.
void print_runs(const Json& page, Output output);

}  // namespace semel::app
