// The seam between workflow code (templates, in the user's program) and the engine (compiled once).
//
// A `Frame` is the live side of a run: coroutines file what they ask for and are resumed when it settles. The same
// calls are made on replay; then the frame compares what is asked with what was recorded. Nothing here has effects:
// what is asked for is released by the engine after the commit.
#pragma once

#include <semel/detail/failure.hpp>
#include <semel/options.hpp>
#include <semel/task.hpp>

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

namespace semel {

class Client;
struct StepContext;

namespace sql {
class Transaction;
}

namespace detail {

/// How an operation ended, as its journal entry says it.
struct Settlement {
  std::string value;                 ///< JSON where it succeeded
  const Failure* failure = nullptr;  ///< null: it succeeded
};

/// An operation under way, waiting for its settlement. Destroying it files nothing: the operation goes on unwatched.
class Leaf {
 public:
  virtual void settle(Settlement settlement) = 0;

 protected:
  ~Leaf() = default;
};

/// A hook: settled with the answer to its registration.
class HookLeaf : public Leaf {
 public:
  /// It was closed.
  virtual void gone() noexcept = 0;

 protected:
  ~HookLeaf() = default;
};

/// Something the frame resumes in its turn.
class Resumable {
 public:
  virtual std::coroutine_handle<> resumption() = 0;

 protected:
  ~Resumable() = default;
};

/// A suspended coroutine the frame keeps: a branch that goes on unwatched, or one that lost a race and may only be
/// destroyed when no step body is in flight.
class Kept {
 public:
  virtual ~Kept() = default;
};

/// A step's function with its arguments.
class StepBody {
 public:
  virtual ~StepBody() = default;

  /// `start` gives a Task for the loop.
  virtual bool is_task() const { return false; }

  /// `transact` is called inside the commit that writes its result.
  virtual bool is_transaction() const { return false; }

  // The result as JSON; they throw what the function throws. One of them is there.
  virtual std::string run(const StepContext& context);
  virtual Task<std::string> start(const StepContext& context);
  virtual std::string transact(sql::Transaction& transaction);
};

struct StepSpec {
  std::string name;
  StepOptions options;
  std::shared_ptr<StepBody> body;
  std::uint64_t arguments_hash = 0;
};

struct ChildSpec {
  std::string workflow;  ///< empty: named by `function`
  std::string function;  ///< identity of the workflow function
  std::string input;     ///< JSON array of the arguments
  StartOptions options;
  bool wait = true;
};

struct HookSpec {
  std::string token;  ///< empty: to be made up
  std::string shape;
  bool webhook = false;
};

/// Counts the bytes of a run's coroutine frames.
struct FrameMeter {
  std::size_t bytes = 0;
};

class Frame {
 public:
  virtual void ask_step(Leaf& leaf, const std::string& op, StepSpec spec) = 0;
  virtual void ask_sleep(Leaf& leaf, const std::string& op, std::chrono::nanoseconds duration) = 0;
  virtual void ask_sleep_until(Leaf& leaf, const std::string& op, TimePoint until) = 0;
  virtual void ask_child(Leaf& leaf, const std::string& op, ChildSpec spec) = 0;
  virtual void ask_result(Leaf& leaf, const std::string& op, const std::string& run_id) = 0;

  /// Registers a hook under `op`; fills in a token that was to be made up. Not `awaited`: only a conflict is answered.
  virtual void ask_hook(HookLeaf& leaf, const std::string& op, HookSpec& spec, bool awaited) = 0;
  virtual void ask_next(Leaf& leaf, const std::string& op, const std::string& hook) = 0;
  virtual void ask_try(Leaf& leaf, const std::string& op, const std::string& hook) = 0;
  virtual void ask_close(Leaf& leaf, const std::string& op, const std::string& hook) = 0;
  /// Frees the token and fails what awaits it. Nothing happens while the frame itself is destroyed.
  virtual void release_hook(const std::string& op) noexcept = 0;
  virtual void forget_hook(HookLeaf& leaf) noexcept = 0;

  /// The run goes on as new. Throws ValidationError where the arguments do not fit.
  virtual void ask_continue(const std::string& arguments) = 0;

  // Answered at once. False: the run has diverged and will not be resumed.
  virtual bool ask_now(const std::string& op, TimePoint& answer) = 0;
  virtual bool ask_uuid(const std::string& op, std::string& answer) = 0;
  virtual bool ask_random(const std::string& op, std::uint64_t& answer) = 0;
  virtual bool ask_version(const std::string& name, int min, int max, int& answer) = 0;
  virtual bool ask_attribute(const std::string& op, const std::string& name,
                             const std::string& value) = 0;
  virtual bool ask_emit(const std::string& op, const std::string& stream, std::string value) = 0;

  /// Nobody waits for the operation any more: a sleep or a wait is dropped, a step is asked to stop.
  virtual void abandon(Leaf& leaf) = 0;
  /// The leaf is going away.
  virtual void forget(Leaf& leaf) noexcept = 0;

  virtual void ready(Resumable& resumable) = 0;
  virtual void unready(Resumable& resumable) noexcept = 0;
  virtual void keep_running(std::unique_ptr<Kept> branch) = 0;
  virtual void bury(std::unique_ptr<Kept> branch) = 0;

 protected:
  ~Frame() = default;
};

/// Where operations get their ids: branch path and number. A branch's ids do not depend on its neighbours.
struct Scope {
  std::string path;
  std::uint32_t used = 0;

  std::string next_op() {
    const std::string number = std::to_string(++used);
    return path.empty() ? number : path + "." + number;
  }
};

/// The meter that coroutine frames allocated on this thread are charged to; null outside of workflows.
FrameMeter*& current_meter() noexcept;

void* allocate_frame(std::size_t size);
void free_frame(void* frame, std::size_t size) noexcept;

}  // namespace detail
}  // namespace semel
