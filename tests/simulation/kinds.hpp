// The catalogue of the simulated workflows: how to register them, how often they are started, what is a right result.
#pragma once

#include "engine/registry.hpp"
#include "tests/simulation/workflows.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace semel::sim {

/// What a run's journal and its bodies say about how it may have ended.
struct Evidence {
  bool step_failed = false;   ///< a step failed for good
  bool step_unknown = false;  ///< the outcome of an at_most_once step is unknown
  bool other_failed = false;  ///< another run it asked for was refused, failed or was cancelled
  std::function<std::uint64_t(std::string_view op)> first_effect{};  ///< see Outside::Step
};

/// What is wrong with the output of a completed run; empty: nothing is.
using Judge = std::string (*)(int n, const std::string& output, const Evidence& evidence);

struct Kind {
  std::string_view name;
  unsigned weight = 0;  ///< how often clients start it, beside the others
  void (*add)(engine::Registry& registry, Workflows& workflows, std::string name) = nullptr;
  Judge judge = nullptr;
  bool may_fail = false;    ///< with STEP_FAILED
  bool surely_ends = true;  ///< others may wait for it
};

std::span<const Kind> kinds();

/// Null if there is none.
const Kind* find_kind(std::string_view name);

}  // namespace semel::sim
