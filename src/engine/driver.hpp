// Drives a loop: passes time in, executes batches, runs steps. One with threads for production, one that goes on only
// when told to for tests.
#pragma once

#include "base/clock.hpp"
#include "engine/driver_meter.hpp"
#include "engine/loop.hpp"
#include "idempotency/port.hpp"
#include "store/key_claims.hpp"
#include "store/store.hpp"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

namespace semel::engine {

/// A call somebody waits for.
struct Waiting {
  std::mutex mutex;
  std::condition_variable answered;
  bool done = false;

  void finish() {
    const std::lock_guard lock(mutex);
    done = true;
    answered.notify_all();
  }
};

/// How long a call may take, and what may happen meanwhile where nothing runs in the background.
struct Patience {
  std::optional<Millis> limit{};
  bool run_steps = false;  ///< a result is waited for, not just a commit
};

/// An attempt came back: the most common input, so it costs no closure.
struct StepFinished {
  store::RunKey run = 0;
  std::string op;
  std::uint32_t attempt = 0;
  StepOutcome outcome;
};

using Call = std::function<void(Loop&, TimePoint now)>;
using Input = std::variant<StepFinished, Call>;

void feed(Loop& loop, Input& input, TimePoint now);

class Driver {
 public:
  virtual ~Driver() = default;

  /// From any thread; inputs are fed in the order they come. False once it has stopped: nobody will look at it.
  virtual bool post(Input input) = 0;

  using Reply = idempotency::Reply;

  /// Executes a command about a reservation, at the time that is then. From any thread. False once it has stopped: nothing
  /// happens, and nobody is told.
  virtual bool execute(idempotency::Errand& errand) = 0;

  /// The same. `reply` is called once, on any thread, and must neither block nor throw.
  virtual bool execute(store::Command command, Reply reply);

  /// Where keys are claimed before the store hears of them. Whoever executes a `Reserve` that `is_claimed` settles its claim
  /// behind the answer. Where the transaction of one with an outcome fails the driver does, once it has reserved the key,
  /// unfinished, in the store that was opened anew. None: nothing is claimed here. From any thread.
  virtual store::KeyClaims* claims() { return nullptr; }

  /// Returns true once `waiting` is done; false if it took too long or cannot ever be. Throws CALL_ON_LOOP where waiting
  /// would keep from happening what is waited for.
  virtual bool wait(Waiting& waiting, const Patience& patience) = 0;

  /// True on a thread whose waiting would keep from happening what is waited for.
  virtual bool is_loop_thread() const { return false; }

  virtual void start_workers() = 0;
  virtual void stop() = 0;

  /// By the clock that it passes to the loop; from any thread.
  virtual TimePoint now() const = 0;

  /// What is committed, from any thread.
  virtual std::shared_ptr<store::Reader> reader() = 0;

  /// Nothing is acknowledged until the store is open again. From any thread.
  virtual bool is_store_lost() { return false; }

  /// From any thread. Only a driver with threads measures anything.
  const DriverMeter& meter() const { return meter_; }

 protected:
  DriverMeter& own_meter() { return meter_; }

 private:
  DriverMeter meter_;
};

/// Opens the store, again where it was lost. The reader that comes with it sees what it commits. The claims, where there
/// are any, are the same each time.
struct OpenedStore {
  std::unique_ptr<store::Store> store;
  std::shared_ptr<store::Reader> reader;
  std::shared_ptr<store::KeyClaims> claims{};
};

using StoreFactory = std::function<base::Result<OpenedStore>()>;

/// Makes the client that a step body is given.
using StepClientFactory = std::function<std::shared_ptr<Client>(const std::string& workspace,
                                                                const std::string& step_id)>;

/// Runs a blocking body on this thread and posts what came of it.
void run_blocking(StepJob job, Driver& driver, const StepClientFactory& clients);

/// Runs a body that is a Task, on this thread as far as it goes.
void run_task(StepJob job, Driver& driver, const StepClientFactory& clients);

}  // namespace semel::engine
