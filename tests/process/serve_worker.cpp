// The served engine that is killed.
//
//   serve_worker DIRECTORY PORT STORE     serves until it is killed
//
// Each charge is written down in the ledger, with the id of its step.
#include "tests/process/process.hpp"

#include <semel/semel.hpp>

#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>

namespace semel::process {
namespace {

struct Approval {
  bool granted = false;
};
BOOST_DESCRIBE_STRUCT(Approval, (), (granted))

Ledger* the_ledger = nullptr;

/// Waits for its approval, then charges under the step's id.
Workflow<std::string> process_order(std::string order) {
  auto hook = semel::hook<Approval>("order:" + order);
  const Approval approval = co_await hook;
  if (!approval.granted) co_return "refused";
  co_await step("charge", [order](const StepContext& attempt) {
    the_ledger->append("charge " + order + " " + attempt.id);
  });
  co_return "charged";
}

void serve(const std::filesystem::path& directory, std::uint16_t port, const std::string& store) {
  Ledger ledger(directory / "ledger");
  the_ledger = &ledger;
  // Nobody is to be blamed for these crashes.
  Engine engine{store, {.crashes_max = 1'000'000}};
  engine.add("process-order", process_order, {.token_payload = type<Approval>()});
  engine.start_workers();
  const auto server = http::serve(engine, {.port = port});
  say_ready();
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable never;
  never.wait(lock, [] { return false; });
}

}  // namespace
}  // namespace semel::process

int main(int count, char** arguments) {
  if (count != 4) return 2;
  try {
    semel::process::serve(arguments[1], static_cast<std::uint16_t>(std::stoi(arguments[2])),
                          arguments[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "serve_worker: %s\n", error.what());
  }
  return 1;
}
