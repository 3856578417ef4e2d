// A program of users' that is the server.
#include "app/cli.hpp"

#include <semel/serve.hpp>

#include <algorithm>
#include <iostream>

namespace semel {

int App::main(int count, char** arguments) {
  return app::run_command({arguments + std::min(count, 1), arguments + count},
                          {std::cout, std::cerr, app::terminal_has_colour()}, workflows_);
}

}  // namespace semel
