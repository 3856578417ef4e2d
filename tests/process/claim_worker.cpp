// The program that is killed: rounds of 16 threads that claim one token, each under a run id of its own, so that a round
// that was cut off is gone through again.
//
//   claim_worker STORE ROUNDS    exits with 0 when all rounds are over
#include "tests/process/claim_workflows.hpp"
#include "tests/process/process.hpp"

#include <cstdio>
#include <thread>
#include <vector>

namespace semel::process {
namespace {

/// The result, also of a run that was killed with its process so often that it was taken for the cause.
std::string result_of(Run run) {
  for (;;) {
    try {
      return run.result<std::string>();
    } catch (const RunFailedError&) {
      if (run.status() != RunStatus::dead) throw;
    }
    run.retry();
  }
}

void go_through(Engine& engine, int round) {
  {
    std::vector<std::jthread> threads;
    for (int claimant = 0; claimant < claimants; ++claimant) {
      threads.emplace_back([&engine, round, claimant] {
        engine.start({.run_id = claim_id(round, claimant)}, claim, claim_token(round));
      });
    }
  }
  // Once only, whoever was killed when: the receipt is remembered.
  engine.resume(claim_token(round), true, {.resume_id = "go"});
  for (int claimant = 0; claimant < claimants; ++claimant)
    static_cast<void>(result_of(engine.run(claim_id(round, claimant))));
}

int work(const std::string& store, int rounds) {
  Engine engine{store};
  engine.add("claim", claim);
  engine.start_workers();
  say_ready();
  for (int round = 0; round < rounds; ++round) go_through(engine, round);
  return 0;
}

}  // namespace
}  // namespace semel::process

int main(int count, char** arguments) {
  if (count != 3) return 2;
  try {
    return semel::process::work(arguments[1], std::stoi(arguments[2]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "claim_worker: %s\n", error.what());
    return 1;
  }
}
