// One of several processes that claim the same tokens and the same keys at the same moments, on one PostgreSQL store.
//
//   claim_racer STORE DIRECTORY NUMBER RACERS ROUNDS
//
// Writes down what it was told: "token ROUND owner RUN", "token ROUND lost RUN", "key ROUND owner RUN", "key ROUND lost RUN".
#include "tests/process/process.hpp"

#include <semel/semel.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace semel::process {
namespace {

/// Lets all processes go on together, again and again. The file is shared memory between them.
class Gate {
 public:
  Gate(const std::filesystem::path& file, int racers) : racers_(racers) {
    const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0 || ::ftruncate(descriptor, sizeof(Arrivals)) != 0) std::abort();
    void* memory =
        ::mmap(nullptr, sizeof(Arrivals), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) std::abort();
    ::close(descriptor);
    arrivals_ = static_cast<Arrivals*>(memory);
  }

  void pass() {
    const int wanted = ++passed_ * racers_;
    arrivals_->count.fetch_add(1);
    while (arrivals_->count.load() < wanted) std::this_thread::yield();
  }

 private:
  struct Arrivals {
    std::atomic<int> count;  ///< the file begins as zeros
  };

  Arrivals* arrivals_ = nullptr;
  int racers_;
  int passed_ = 0;
};

Workflow<int> hold(int round) {
  co_await sleep(std::chrono::hours{1});
  co_return round;
}

std::string claim_token(Engine& engine, const std::string& token) {
  try {
    return "owner " + engine.start({.token = token}, "hold", 0).run.id();
  } catch (const HookConflictError& conflict) {
    return "lost " + conflict.run_id;
  }
}

std::string claim_key(Engine& engine, const std::string& key) {
  const Started started = engine.start({.key = key}, "hold", 1);
  return (started.created ? "owner " : "lost ") + started.run.id();
}

int race(const std::string& store, const std::filesystem::path& directory, int number, int racers,
         int rounds) {
  Ledger ledger(directory / "ledger");
  Gate gate(directory / "gate", racers);
  Engine engine{store, {.node = "racer " + std::to_string(number)}};
  engine.add("hold", hold);
  for (int round = 0; round < rounds; ++round) {
    const std::string name = std::to_string(round);
    gate.pass();
    const std::string token = claim_token(engine, "token " + name);
    ledger.append("token " + name + " " + token);
    gate.pass();
    const std::string key = claim_key(engine, "key " + name);
    ledger.append("key " + name + " " + key);
  }
  return 0;
}

}  // namespace
}  // namespace semel::process

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  return semel::process::race(argv[1], argv[2], std::stoi(argv[3]), std::stoi(argv[4]),
                              std::stoi(argv[5]));
}
