// Exceptions into what the journal keeps of them, and back.
#include <semel/detail/failure.hpp>
#include <semel/error.hpp>
#include <semel/value.hpp>

#include <string>

namespace semel::detail {

namespace {

/// What a person wrote may not be text; what is journalled must be.
std::string printable(const char* text) {
  std::string out = text == nullptr ? "" : text;
  for (char& c : out) {
    if (static_cast<unsigned char>(c) >= 0x80U || c == '\0') {
      // Not worth a UTF-8 check of its own: encode() refuses what is not UTF-8.
      try {
        static_cast<void>(value::encode(out));
      } catch (const ValidationError&) {
        for (char& bad : out) bad = static_cast<unsigned char>(bad) < 0x80U ? bad : '?';
      }
      break;
    }
  }
  return out;
}

/// What an error carried along, or nothing where that has no JSON form: describing an error must not be one.
std::string details_text(const Json& details) {
  if (details.is_null()) return {};
  try {
    return value::to_text(details);
  } catch (const ValidationError&) {
    return {};
  }
}

}  // namespace

Failure describe(const std::exception_ptr& error) noexcept {
  Failure failure;
  try {
    std::rethrow_exception(error);
  } catch (const StepFailedError& step) {
    failure.code = step.code();
    failure.message = step.what();
    failure.name = step.name;
    failure.op = step.op;
    failure.attempts = static_cast<std::uint32_t>(step.attempts);
    failure.details = details_text(step.details);
  } catch (const FatalError& fatal) {
    failure.code = fatal.code();
    failure.message = printable(fatal.what());
    failure.details = details_text(fatal.details);
  } catch (const OutcomeUnknownError& unknown) {
    failure.code = unknown.code();
    failure.message = printable(unknown.what());
    failure.op = unknown.op;
  } catch (const RunFailedError& run) {
    failure.code = run.code();
    failure.message = printable(run.what());
    failure.op = run.op;
  } catch (const Error& known) {
    failure.code = known.code();
    failure.message = printable(known.what());
  } catch (const std::exception& other) {
    failure.code = "EXCEPTION";
    failure.message = printable(other.what());
  } catch (...) {
    failure.code = "EXCEPTION";
    failure.message = "something that is not a std::exception was thrown";
  }
  return failure;
}

void throw_step_failure(const Failure& failure) {
  if (failure.code == "OUTCOME_UNKNOWN") {
    OutcomeUnknownError error("OUTCOME_UNKNOWN", failure.message);
    error.op = failure.op;
    throw error;
  }
  StepFailedError error("STEP_FAILED", "step \"" + failure.name + "\" failed after " +
                                           std::to_string(failure.attempts) +
                                           (failure.attempts == 1 ? " attempt: " : " attempts: ") +
                                           failure.message);
  error.name = failure.name;
  error.op = failure.op;
  error.attempts = static_cast<int>(failure.attempts);
  error.message = failure.message;
  if (!failure.details.empty()) error.details = value::from_text(failure.details);
  throw error;
}

void throw_hook_failure(const Failure& failure) {
  const auto details = [&] {
    return failure.details.empty()
               ? std::string{}
               : value::decode<std::string>(failure.details, value::Mode::journal);
  };
  if (failure.code == "HOOK_CONFLICT") {
    HookConflictError error(failure.code, failure.message);
    error.run_id = details();
    throw error;
  }
  if (failure.code == "HOOK_DISPOSED") throw HookDisposedError(failure.code, failure.message);
  if (failure.code == "VALIDATION_ERROR") throw ValidationError(details(), failure.message);
  throw Error(failure.code, failure.message);
}

void throw_run_failure(const Failure& failure) {
  if (failure.code == "HOOK_CONFLICT") throw_hook_failure(failure);
  if (failure.code == "RUN_CANCELLED") throw RunCancelledError("RUN_CANCELLED", failure.message);
  if (failure.code == "RUN_NOT_FOUND") throw RunNotFoundError("RUN_NOT_FOUND", failure.message);
  if (failure.code == "IDEMPOTENCY_CONFLICT")
    throw IdempotencyConflictError(failure.code, failure.message);
  if (failure.code == "RUN_ACTIVE" || failure.code == "RUN_FINISHED")
    throw Error(failure.code, failure.message);
  const bool says_more = failure.code != "RUN_FAILED";
  RunFailedError error("RUN_FAILED", (says_more ? failure.code + ": " : "") + failure.message);
  error.op = failure.op;
  throw error;
}

}  // namespace semel::detail
