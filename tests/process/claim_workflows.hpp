// What the killed claimants run.
#pragma once

#include <semel/semel.hpp>

#include <string>

namespace semel::process {

inline constexpr int claimants = 16;

inline std::string claim_token(int round) { return "round-" + std::to_string(round); }

inline std::string claim_id(int round, int claimant) {
  return claim_token(round) + "-" + std::to_string(claimant);
}

/// The owner waits to be let go; others say who it is.
inline Workflow<std::string> claim(std::string token) {
  auto mine = hook<bool>(token);
  if (const auto conflict = co_await mine.conflict()) co_return conflict->run_id;
  co_await mine;
  co_return "owner";
}

}  // namespace semel::process
