// What a shell and a manual know of the command line, made from its own description.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace semel::app {

/// A script for "bash", "zsh" or "fish" that completes commands and options. Throws Error VALIDATION_ERROR for others.
std::string completion_script(const CLI::App& program, const std::string& shell);

/// The manual page, semel(1), as roff.
std::string manual_page(const CLI::App& program, const std::string& version);

}  // namespace semel::app
