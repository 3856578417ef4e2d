// Small workflows that between them use every operation there is, and the calls made on them.
#pragma once

#include "tests/crash/stage.hpp"

#include <span>
#include <string_view>

namespace semel::crash {

struct Scenario {
  std::string_view name;
  void (*play)(Stage& stage);
  bool repeats =
      false;  ///< a call repeated because nobody answered makes a second run like the first
};

/// One run each: what a workflow can await.
std::span<const Scenario> operation_scenarios();

/// Several runs, and what is done to them from outside.
std::span<const Scenario> run_scenarios();

}  // namespace semel::crash
