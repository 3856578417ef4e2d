#include <semel/detail/failure.hpp>
#include <semel/error.hpp>

#include <doctest/doctest.h>

namespace semel::detail {

namespace {

template <class E>
Failure described(const E& error) {
  return describe(std::make_exception_ptr(error));
}

template <class F>
auto code_of(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return std::string("nothing");
}

}  // namespace

TEST_CASE("every exception can be described") {
  CHECK(described(std::runtime_error("plain")) == Failure{.code = "EXCEPTION", .message = "plain"});
  CHECK(described(Error("MY_CODE", "coded")) == Failure{.code = "MY_CODE", .message = "coded"});
  CHECK(described(FatalError("fatal", {{"a", 1}})) ==
        Failure{.code = "FATAL", .message = "fatal", .details = R"({"a":1})"});
  CHECK(described(42).code == "EXCEPTION");
  CHECK(described(std::runtime_error("")).message.empty());
}

TEST_CASE("a message that is not UTF-8 is made so") {
  CHECK(described(std::runtime_error("caf\xc3\xa9")).message == "caf\xc3\xa9");
  CHECK(described(std::runtime_error("caf\xe9")).message == "caf?");
}

TEST_CASE("a step's failure is thrown with everything that is known of it") {
  const Failure failure{.code = "STEP_FAILED",
                        .message = "no paper",
                        .details = R"({"tray":2})",
                        .name = "print",
                        .op = "3.1",
                        .attempts = 4};
  try {
    throw_step_failure(failure);
  } catch (const StepFailedError& error) {
    CHECK(error.code() == "STEP_FAILED");
    CHECK(error.name == "print");
    CHECK(error.op == "3.1");
    CHECK(error.attempts == 4);
    CHECK(error.message == "no paper");
    CHECK(error.details == Json{{"tray", 2}});
    CHECK(std::string(error.what()) == "step \"print\" failed after 4 attempts: no paper");
  }
}

TEST_CASE("a failure nobody knows the outcome of is thrown as such") {
  const Failure failure{.code = "OUTCOME_UNKNOWN", .message = "it may have happened", .op = "2"};

  CHECK_THROWS_AS(throw_step_failure(failure), OutcomeUnknownError);
  CHECK(described(OutcomeUnknownError("OUTCOME_UNKNOWN", "x")).code == "OUTCOME_UNKNOWN");
}

TEST_CASE("a run's failure is thrown by its code") {
  CHECK_THROWS_AS(throw_run_failure({.code = "RUN_CANCELLED"}), RunCancelledError);
  CHECK_THROWS_AS(throw_run_failure({.code = "RUN_NOT_FOUND"}), RunNotFoundError);
  CHECK_THROWS_AS(throw_run_failure({.code = "IDEMPOTENCY_CONFLICT"}), IdempotencyConflictError);
  CHECK(code_of([] { throw_run_failure({.code = "RUN_ACTIVE"}); }) == "RUN_ACTIVE");
  CHECK(code_of([] { throw_run_failure({.code = "RUN_FINISHED"}); }) == "RUN_FINISHED");
  CHECK_THROWS_AS(throw_run_failure({.code = "EXCEPTION", .message = "x"}), RunFailedError);
}

}  // namespace semel::detail
