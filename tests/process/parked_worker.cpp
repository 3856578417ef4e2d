// Many runs that sleep, and one that is due.
//
//   parked_worker DIRECTORY fill COUNT   parks COUNT runs for an hour and one for a moment, says "ready", waits for its end
//   parked_worker DIRECTORY wake COUNT   opens the store again; the ledger says what it found and how soon
#include "tests/process/process.hpp"

#include <semel/semel.hpp>

#include <fmt/format.h>

#include <atomic>
#include <fstream>
#include <thread>

namespace semel::process {
namespace {

using namespace std::chrono_literals;

constexpr int clients = 250;

Workflow<int> parked(int number, Millis time) {
  co_await sleep(time);
  co_return co_await step("woke", [number] { return number; });
}

std::string key_of(int number) { return "parked-" + std::to_string(number); }

long resident_kib() {
  std::ifstream in("/proc/self/statm");
  long total = 0;
  long resident = 0;
  in >> total >> resident;
  return resident * 4;
}

void fill(Engine& engine, Ledger& ledger, int count) {
  const auto begun = std::chrono::steady_clock::now();
  std::atomic<int> next = 1;
  std::vector<std::jthread> threads;
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&] {
      for (int number = next++; number <= count; number = next++) {
        engine.start({.key = key_of(number)}, parked, number, Millis{1h});
      }
    });
  }
  threads.clear();
  const auto took = std::chrono::steady_clock::now() - begun;
  ledger.append(fmt::format("filled-ms {}", took / 1ms));
  ledger.append(fmt::format("filled-kib {}", resident_kib()));
  engine.start({.key = key_of(0)}, parked, 0, 500ms);
  say_ready();
  for (;;) pause(1s);
}

void wake(Engine& engine, Ledger& ledger, int count,
          std::chrono::steady_clock::time_point opening) {
  static_cast<void>(engine.runs({.key = key_of(0)}).at(0).result<int>());
  const auto took = std::chrono::steady_clock::now() - opening;
  ledger.append(fmt::format("due-ran-after-us {}", took / 1us));
  ledger.append(fmt::format("opened-kib {}", resident_kib()));
  const auto waiting =
      engine.runs({.status = RunStatus::waiting, .limit = static_cast<std::size_t>(count) + 1});
  ledger.append(fmt::format("waiting {}", waiting.size()));
  for (const int number : {1, count / 3, count / 2, count}) {
    Run run = engine.runs({.key = key_of(number)}).at(0);
    const int woken = run.wake();
    ledger.append(fmt::format("woken {} {} {}", number, woken, run.result<int>()));
  }
}

int run(const std::filesystem::path& directory, const std::string& mode, int count) {
  Ledger ledger(directory / "ledger");
  const auto opening = std::chrono::steady_clock::now();
  Engine engine{"sqlite:" + (directory / "runs.db").string()};
  engine.add("parked", parked);
  engine.start_workers();
  if (mode == "fill") {
    fill(engine, ledger, count);
  } else {
    wake(engine, ledger, count, opening);
  }
  return 0;
}

}  // namespace
}  // namespace semel::process

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return semel::process::run(argv[1], argv[2], std::stoi(argv[3]));
}
