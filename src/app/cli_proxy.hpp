// `semel proxy`: the idempotency layer in front of an HTTP service.
#pragma once

#include "app/cli.hpp"

#include <string>

namespace semel::app {

struct ProxyCommand {
  std::string listen = "127.0.0.1:8080";
  std::string upstream;
  std::string store;
  std::string preset = "default";
  std::string config_file;  ///< empty: none
  std::string admin;        ///< where health and metrics are; empty: nowhere
  bool is_quiet = false;    ///< no access log
};

/// Serves until SIGTERM or SIGINT, then finishes what is under way. Throws Error.
int run_proxy(const ProxyCommand& command, Output output);

}  // namespace semel::app
