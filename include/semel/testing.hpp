// An engine for tests: its clock moves when told to, nothing happens in the background, crashing is a call.
#pragma once

#include <semel/engine.hpp>

namespace semel::testing {

/// On SQLite in memory, single-threaded. Starts and cancels are durable when they return; steps run inside
/// `run_until_idle`, `advance` and `result`. After every suspension the run is replayed from its journal and compared:
/// a workflow that is not deterministic diverges at once.
class Engine : public semel::Engine {
 public:
  explicit Engine(EngineOptions options = {});

  /// The same on a store of yours, by its URL as `semel::Engine` takes it: for SQL that needs the database it was written
  /// for. What is there stays there; give each test its own.
  explicit Engine(const std::string& url, EngineOptions options = {});

  /// Moves the clock, stopping at every timer on the way, and runs what becomes due.
  template <class R, class P>
  void advance(std::chrono::duration<R, P> duration) {
    advance_by(std::chrono::duration_cast<std::chrono::nanoseconds>(duration));
  }

  /// Runs until nothing is left to do at this time.
  void run_until_idle();

  /// As if the process had been killed and started again; registrations stay. The next call goes on.
  void crash();

  TimePoint now() const;

 private:
  void advance_by(std::chrono::nanoseconds duration);
};

}  // namespace semel::testing
