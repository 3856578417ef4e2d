// What an exception leaves behind in the journal.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace semel::detail {

struct Failure {
  std::string code;
  std::string message;
  std::string details;  ///< JSON, or empty
  std::string name;     ///< of the step that failed, where one did
  std::string op;       ///< of the operation that failed, where one did
  std::uint32_t attempts = 0;

  bool operator==(const Failure&) const = default;
};

/// Describes any exception; never throws.
Failure describe(const std::exception_ptr& error) noexcept;

/// Throws what `co_await` of a step throws: StepFailedError, or OutcomeUnknownError where nobody knows.
[[noreturn]] void throw_step_failure(const Failure& failure);

/// Throws what waiting for a run throws: RunFailedError, RunCancelledError, RunNotFoundError, or the refusal of a start.
[[noreturn]] void throw_run_failure(const Failure& failure);

/// Throws what asking something of a hook throws: HookConflictError, HookDisposedError, ValidationError.
[[noreturn]] void throw_hook_failure(const Failure& failure);

}  // namespace semel::detail
