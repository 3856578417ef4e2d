// The command line. Exit codes: 0 all is well, 1 it is not (or could not be found out), 2 the command was not understood,
// 3 the run asked for is not over yet, 4 it ended and did not complete.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace semel {
class Engine;
}

namespace semel::app {

/// Each adds one to an engine.
using Workflows = std::vector<std::function<void(Engine&)>>;

struct Output {
  std::ostream& out;
  std::ostream& err;
  bool has_colour = false;  ///< `out` is a terminal whose user wants some
};

/// Whether standard output is a terminal, and NO_COLOR is not set nor TERM "dumb".
bool terminal_has_colour();

/// `arguments` without the program's name, and what it can run. Returns the exit code; never throws.
int run_command(std::vector<std::string> arguments, Output output, const Workflows& workflows = {});

}  // namespace semel::app
