// The served engine that is killed.
//
//   serve_worker DIRECTORY PORT STORE [NODE]     serves until it is killed, or asked to stop
//
// Each charge is written down in the ledger, with the id of its step.
#include "tests/process/process.hpp"

#include <semel/semel.hpp>

#include <csignal>
#include <cstdio>
#include <string>

namespace semel::process {
namespace {

using namespace std::chrono_literals;

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

struct Place {
  std::filesystem::path directory;
  std::uint16_t port = 0;
  std::string store;
  std::string node;
};

void serve(const Place& place) {
  // Before there are other threads: they are not to get it.
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  Ledger ledger(place.directory / "ledger");
  the_ledger = &ledger;
  // Nobody is to be blamed for these crashes. One that is killed comes back under its name, so nobody waits for its lease.
  Engine engine{place.store, {.crashes_max = 1'000'000, .node = place.node, .lease = 15s}};
  engine.add("process-order", process_order, {.token_payload = type<Approval>()});
  engine.start_workers();
  const auto server = http::serve(engine, {.port = place.port});
  say_ready();
  int signal = 0;
  sigwait(&stop, &signal);
  server->stop();
  engine.stop();
}

}  // namespace
}  // namespace semel::process

int main(int count, char** arguments) {
  if (count != 4 && count != 5) return 2;
  try {
    semel::process::serve({.directory = arguments[1],
                           .port = static_cast<std::uint16_t>(std::stoi(arguments[2])),
                           .store = arguments[3],
                           .node = count == 5 ? arguments[4] : ""});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "serve_worker: %s\n", error.what());
  }
  return 1;
}
