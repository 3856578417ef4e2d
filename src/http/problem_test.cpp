#include "http/problem.hpp"

#include <doctest/doctest.h>

namespace semel::http {
namespace {

TEST_CASE("a problem says what people and programs need") {
  const Response answer = problem("CONCURRENCY_ERROR", "the run has moved on", {{"runId", "r1"}});

  CHECK(answer.status == 409);
  CHECK(answer.headers == std::vector<Header>{{"content-type", "application/problem+json"}});
  CHECK(answer.body ==
        R"({"type":"about:blank","title":"Conflict","status":409,"detail":"the run has moved on",)"
        R"("code":"CONCURRENCY_ERROR","retryable":true,"runId":"r1"})");
}

TEST_CASE("codes have their status, and few are worth a retry") {
  CHECK(status_of("RUN_NOT_FOUND") == 404);
  CHECK(status_of("ROUTE_NOT_FOUND") == 404);
  CHECK(status_of("VALIDATION_ERROR") == 422);
  CHECK(status_of("STORE_UNAVAILABLE") == 503);
  CHECK(status_of("SOMETHING_ELSE") == 500);
  CHECK(is_retryable("IDEMPOTENCY_IN_PROGRESS"));
  CHECK(is_retryable("STORE_UNAVAILABLE"));
  CHECK_FALSE(is_retryable("IDEMPOTENCY_CONFLICT"));
  CHECK_FALSE(is_retryable("TIMEOUT"));
  CHECK_FALSE(is_retryable("SOMETHING_ELSE"));
}

}  // namespace
}  // namespace semel::http
