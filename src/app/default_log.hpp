// Whom an engine tells what happens: the program's own log, or spdlog's default logger.
#pragma once

#include <semel/options.hpp>

namespace semel::app {

/// What is below the level of the options is not told.
Log log_of(const EngineOptions& options);

}  // namespace semel::app
