// `semel serve`: the engine over HTTP.
#pragma once

#include "app/cli.hpp"

#include <semel/serve.hpp>

#include <string>

namespace semel::app {

struct ServeCommand {
  std::string store;
  std::string listen = "127.0.0.1:7373";
  bool is_demo = false;
  std::string node;           ///< its name among others; by default the host's
  std::string lease = "15s";  ///< a duration
  std::string log;            ///< "json" or "text"; by default text on a terminal, JSON elsewhere
  std::string log_level = "info";
  http::WorkspaceLimits workspace{};
};

/// Serves until SIGTERM or SIGINT, then finishes what is under way, for ten seconds at most. Throws Error.
int run_serve(const ServeCommand& command, const Workflows& workflows, Output output);

}  // namespace semel::app
