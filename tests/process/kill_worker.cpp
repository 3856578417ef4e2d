// The program that is killed: an engine, and clients that start runs under keys and do not let go before each is
// acknowledged. What a client was told goes into the ledger, which is also how it knows, after a kill, where it was.
//
//   kill_worker STORE DIRECTORY work FIRST COUNT   clients FIRST, FIRST + 1, … start runs for as long as it lives
//   kill_worker STORE DIRECTORY finish             starts only what was begun and not acknowledged, waits for every run,
//                                                  exits with 0
#include "tests/process/kill_workflows.hpp"

#include <cstdio>
#include <deque>
#include <map>
#include <thread>

namespace semel::process {
namespace {

/// How many unfinished runs a client has at most.
constexpr std::size_t ahead = 12;

/// What the ledger says that each client has begun and was told.
struct Progress {
  Number begun = 0;
  Number acknowledged = 0;
};

std::map<int, Progress> progress_in(const Ledger& ledger) {
  std::map<int, Progress> progress;
  for (const std::string& line : ledger.lines()) {
    const auto word = words(line);
    if (word.at(0) == "try") progress[std::stoi(word.at(1))].begun = std::stoll(word.at(2));
    if (word.at(0) == "ack") progress[std::stoi(word.at(1))].acknowledged = std::stoll(word.at(2));
  }
  return progress;
}

/// A node that loses its store, or its lease, says so to whoever asks meanwhile. Asked again, it is back.
template <class Call>
auto insisting(const Call& call) {
  for (;;) {
    try {
      return call();
    } catch (const Error& error) {
      if (error.code() != "STORE_UNAVAILABLE") throw;
    }
    pause(std::chrono::milliseconds{20});
  }
}

/// Starts the client's n-th run. Asked again with the same n it asks for the same under the same key.
Run start(Engine& engine, KillWorkflows& workflows, Ledger& ledger, int client, Number n) {
  const std::string who = std::to_string(client) + " " + std::to_string(n);
  const auto kind = static_cast<std::size_t>(n + client) % KillWorkflows::names.size();
  ledger.append("try " + who);
  const std::string key = "client-" + std::to_string(client) + "-" + std::to_string(n);
  const std::string_view name = KillWorkflows::names.at(kind);
  Run run = insisting([&] {
    return name == "books" ? workflows.place(engine, key, n)
                           : engine.start({.key = key}, name, boost::json::array{n}).run;
  });
  ledger.append("ack " + who + " " + run.id());
  return run;
}

/// Waits for the run's end. Killed five times in a row at the wrong moment, a run is taken for the cause and `dead`; that is
/// for an operator to judge, and here we know better.
void wait_for(Run run, Ledger& ledger) {
  for (;;) {
    try {
      static_cast<void>(insisting([&] { return run.result<Number>(); }));
      return;
    } catch (const RunFailedError&) {
      if (insisting([&] { return run.status(); }) != RunStatus::dead) throw;
    }
    ledger.append("dead " + run.id());
    insisting([&] { run.retry(); });
  }
}

void run_client(Engine& engine, KillWorkflows& workflows, Ledger& ledger, int client,
                Progress from) {
  std::deque<Run> unfinished;
  for (Number n = from.acknowledged + 1;; ++n) {
    unfinished.push_back(start(engine, workflows, ledger, client, n));
    if (unfinished.size() < ahead) continue;
    wait_for(unfinished.front(), ledger);
    unfinished.pop_front();
  }
}

void finish(Engine& engine, KillWorkflows& workflows, Ledger& ledger,
            const std::map<int, Progress>& progress) {
  for (const auto& [client, so_far] : progress) {
    for (Number n = so_far.acknowledged + 1; n <= so_far.begun; ++n)
      start(engine, workflows, ledger, client, n);
  }
  // Children first: a run that waits for a dead one waits for the operator, too.
  for (const Run& run : engine.runs({.limit = 10'000'000})) wait_for(run, ledger);
}

int run(const std::string& store, const std::filesystem::path& directory,
        const std::vector<std::string>& what) {
  Ledger ledger(directory / "ledger");
  const auto progress = progress_in(ledger);
  KillWorkflows workflows(ledger);
  // As long as a test can wait for, and as a busy machine needs to keep it up.
  Engine engine{store, {.node = what.size() > 1 ? what.at(1) : "last", .lease = kill_test_lease}};
  insisting([&] { workflows.register_with(engine); });
  engine.start_workers();
  say_ready();

  if (what.at(0) == "finish") {
    finish(engine, workflows, ledger, progress);
    engine.stop();
    return 0;
  }
  const int first = std::stoi(what.at(1));
  std::vector<std::jthread> threads;
  for (int client = first; client < first + std::stoi(what.at(2)); ++client) {
    const auto found = progress.find(client);
    const Progress from = found == progress.end() ? Progress{} : found->second;
    threads.emplace_back(
        [&, client, from] { run_client(engine, workflows, ledger, client, from); });
  }
  threads.clear();
  return 1;
}

}  // namespace
}  // namespace semel::process

int main(int argc, char** argv) {
  if (argc != 4 && argc != 6) return 2;
  return semel::process::run(argv[1], argv[2], {argv + 3, argv + argc});
}
