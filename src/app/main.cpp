#include "app/cli.hpp"

#include <iostream>

int main(int argc, char** argv) {
  return semel::app::run_command({argv + 1, argv + argc},
                                 {std::cout, std::cerr, semel::app::terminal_has_colour()});
}
