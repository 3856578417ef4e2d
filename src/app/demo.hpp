// Workflows to try the server with.
#pragma once

#include <semel/engine.hpp>

#include <string>

namespace semel::app {

void add_demo(Engine& engine);

/// What to paste into a terminal, for a server at `url`.
std::string demo_text(const std::string& url);

}  // namespace semel::app
