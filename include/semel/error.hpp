// What can go wrong, as values a program can decide by. A code is the same in C++, HTTP and the command line.
#pragma once

#include <boost/json/value.hpp>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace semel {

using Json = boost::json::value;
using TimePoint = std::chrono::system_clock::time_point;
using Millis = std::chrono::milliseconds;

/// The base of everything semel throws. `code()` is stable and meant for programs, `what()` for people.
class Error : public std::runtime_error {
 public:
  Error(std::string code, const std::string& message)
      : std::runtime_error(message), code_(std::move(code)) {}

  const std::string& code() const { return code_; }

 private:
  std::string code_;
};

/// Thrown by a step: do not try again.
struct FatalError : Error {
  explicit FatalError(const std::string& message, Json details = {})
      : Error("FATAL", message), details(std::move(details)) {}

  Json details;
};

/// Thrown by a step: try again, after `after` where it is given and by the step's policy otherwise.
struct RetryableError : Error {
  explicit RetryableError(const std::string& message) : Error("RETRYABLE", message) {}

  RetryableError(const std::string& message, Millis after)
      : Error("RETRYABLE", message), after(after) {}

  std::optional<Millis> after;
};

/// Thrown out of `co_await` when a step failed for good.
struct StepFailedError : Error {
  using Error::Error;

  std::string name;     ///< the step's
  int attempts = 0;     ///< how many were made
  std::string message;  ///< what the last attempt threw
  Json details;         ///< what a FatalError carried along, if anything
  std::string op;  ///< the operation's id in its run; `retry` uses it to void this very failure
};

/// An `at_most_once` step was under way when its process ended: nobody knows whether it happened.
struct OutcomeUnknownError : Error {
  using Error::Error;

  std::string op;  ///< the operation's id in its run
};

/// Thrown once out of the current `co_await` of a run that is cancelled with a grace period.
struct CancelledError : Error {
  using Error::Error;
};

struct HookNotFoundError : Error {
  using Error::Error;
};

struct HookConflictError : Error {
  using Error::Error;

  std::string run_id;  ///< who owns the token
};

struct HookDisposedError : Error {
  using Error::Error;
};

struct IdempotencyConflictError : Error {
  using Error::Error;
};

struct IdempotencyInProgressError : Error {
  using Error::Error;
};

/// The run has moved on from the version the caller expected.
struct ConcurrencyError : Error {
  using Error::Error;
};

struct RunNotFoundError : Error {
  using Error::Error;
};

struct RunNotActiveError : Error {
  using Error::Error;
};

/// Thrown by `result()` of a failed, dead or diverged run, and by waiting for one in a workflow.
struct RunFailedError : Error {
  using Error::Error;

  std::string op;  ///< in a workflow: the operation that waited
};

/// Thrown by `result()` of a cancelled run.
struct RunCancelledError : Error {
  using Error::Error;
};

/// A value does not fit its type. `what()` reads "/items/3/price: expected a number".
struct ValidationError : Error {
  ValidationError(std::string path, const std::string& message)
      : Error("VALIDATION_ERROR", (path.empty() ? "/" : path) + ": " + message),
        path(std::move(path)) {}

  std::string path;  ///< JSON pointer of the bad field; empty for the whole value
};

}  // namespace semel
