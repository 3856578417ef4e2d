// Run: a handle to one execution of a workflow. Cheap to copy; looking at it reads what is committed.
#pragma once

#include <semel/detail/failure.hpp>
#include <semel/options.hpp>
#include <semel/task.hpp>
#include <semel/value.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace semel {

enum class RunStatus {
  pending,  ///< delayed
  running,  ///< a step is under way, or something to do
  waiting,  ///< parked on hooks, timers or other runs
  completed,
  failed,
  cancelled,
  dead,      ///< kept killing its process; not an end: `retry` goes on
  diverged,  ///< code and journal disagree; not an end: `retry` goes on
};

std::string_view to_string(RunStatus status);

/// One entry of a run's journal, for people and tools. `value` has what arrived and, under "requests", what the
/// workflow then asked for. Payloads that were accepted and never read follow as "undelivered", with `seq` of the last
/// entry and the token as `name`.
struct Entry {
  std::uint64_t seq = 0;
  std::string kind;
  std::string name;
  Json value;
  TimePoint at{};
};

namespace detail {

/// How a run ended (or stopped being able to go on).
struct RunEnd {
  RunStatus status = RunStatus::completed;
  std::string output;  ///< JSON
  Failure failure;
};

struct RunInfo {
  RunStatus status = RunStatus::pending;
  std::uint64_t version = 0;
  std::string input;
  std::string error;
  std::map<std::string, std::string> attributes;
};

/// What a handle needs of the engine.
class RunPort {
 public:
  virtual ~RunPort() = default;
  virtual RunInfo look(const std::string& id) = 0;
  virtual std::vector<Entry> journal(const std::string& id) = 0;
  virtual std::vector<std::string> stream(const std::string& id, const std::string& stream,
                                          std::uint64_t from) = 0;
  virtual RunEnd wait(const std::string& id, std::optional<Millis> limit) = 0;
  virtual void when_over(const std::string& id, std::function<void(RunEnd)> then,
                         std::function<void(std::exception_ptr)> failed) = 0;
  virtual void cancel(const std::string& id, const CancelOptions& options) = 0;
  virtual void retry(const std::string& id, const RunOptions& options) = 0;
  virtual std::string fork(const std::string& id, std::uint64_t seq, const RunOptions& options) = 0;
  virtual int wake(const std::string& id, const RunOptions& options) = 0;
};

/// Throws RunFailedError or RunCancelledError unless it completed.
void throw_unless_completed(const std::string& id, const RunEnd& end);

[[noreturn]] void throw_no_run();

}  // namespace detail

class Run {
 public:
  /// Stands for none, until one is assigned: whatever is asked of it throws RunNotFoundError.
  Run() = default;

  /// For the engine.
  Run(std::shared_ptr<detail::RunPort> port, std::string id)
      : port_(std::move(port)), id_(std::move(id)) {}

  const std::string& id() const { return id_; }

  RunStatus status() const { return port().look(id_).status; }

  /// Blocks until the run is over. RunFailedError or RunCancelledError if it did not complete.
  template <class T>
  T result() const {
    return decode<T>(port().wait(id_, std::nullopt));
  }

  /// As `result()`, but throws Error "TIMEOUT" after `limit`.
  template <class T>
  T result(Millis limit) const {
    return decode<T>(port().wait(id_, limit));
  }

  /// Resumes on the engine's loop: what follows `co_await` must not block.
  template <class T>
  Task<T> result_async() const {
    return awaited<T>(*this);
  }

  /// The arguments, as a JSON array.
  Json input() const { return value::from_text(port().look(id_).input); }

  /// The position of its last journal entry; grows by one with every change.
  std::uint64_t version() const { return port().look(id_).version; }

  std::vector<Entry> journal() const { return port().journal(id_); }

  std::map<std::string, std::string> attributes() const { return port().look(id_).attributes; }

  /// What `emit` appended to `stream`, from position `from` on.
  template <class T>
  std::vector<T> stream(const std::string& stream, std::uint64_t from = 0) const {
    std::vector<T> values;
    for (const std::string& json : port().stream(id_, stream, from)) {
      values.push_back(value::decode<T>(json, value::Mode::journal));
    }
    return values;
  }

  /// Why it failed, died, diverged or was cancelled; empty otherwise.
  std::string error() const { return port().look(id_).error; }

  /// Without grace: when it returns the run is over and its children are, too. With grace: when it returns the run
  /// will be told. Cancelling a cancelled run is fine; another finished one: RunNotActiveError.
  void cancel(const CancelOptions& options = {}) { port().cancel(id_, options); }

  /// Runs a failed, dead or diverged run on: the failure that ended it is voided, what was recorded stays.
  void retry(const RunOptions& options = {}) { port().retry(id_, options); }

  /// A new run from this one's journal up to and including `seq`; its steps get ids of their own.
  Run fork(std::uint64_t seq, const RunOptions& options = {}) {
    return Run{port_, port().fork(id_, seq, options)};
  }

  /// Ends its sleeps now; says how many.
  int wake(const RunOptions& options = {}) { return port().wake(id_, options); }

 private:
  /// The handle is a copy: whoever awaits the task may hold it longer than the handle it came from.
  template <class T>
  static Task<T> awaited(Run self) {
    struct Arrived {
      detail::RunEnd end;
      std::exception_ptr error;
    };

    Arrived arrived =
        co_await detail::Callback<Arrived>{[self](std::function<void(Arrived)> resume) {
          self.port().when_over(
              self.id_, [resume](detail::RunEnd end) { resume({std::move(end), nullptr}); },
              [resume](std::exception_ptr error) { resume({{}, std::move(error)}); });
        }};
    if (arrived.error) std::rethrow_exception(arrived.error);
    if constexpr (std::is_void_v<T>) {
      self.decode<T>(arrived.end);
    } else {
      co_return self.decode<T>(arrived.end);
    }
  }

  template <class T>
  T decode(const detail::RunEnd& end) const {
    detail::throw_unless_completed(id_, end);
    if constexpr (!std::is_void_v<T>) return value::decode<T>(end.output, value::Mode::journal);
  }

  detail::RunPort& port() const {
    if (!port_) detail::throw_no_run();
    return *port_;
  }

  std::shared_ptr<detail::RunPort> port_;
  std::string id_;
};

/// What a start answers: the run, and whether this call made it.
struct Started {
  Run run;
  bool created = false;
};

/// What a resume answers: who got the payload.
struct Resumed {
  std::string run_id;
  std::string hook_id;
};

/// The run that got the payload, and whether this call made it.
struct ResumedOrStarted {
  Run run;
  bool started = false;
};

/// An active hook.
struct HookInfo {
  std::string token;
  std::string run_id;
  std::uint64_t waiting = 0;  ///< payloads nobody has read
};

struct RunFilter {
  std::optional<std::string> workflow{};
  std::optional<RunStatus> status{};
  std::optional<std::string> key{};
  std::map<std::string, std::string> attributes{};
  std::size_t limit = 200;
};

}  // namespace semel
