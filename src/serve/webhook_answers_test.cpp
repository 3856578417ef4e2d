#include "serve/webhook_answers.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace semel::serve {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a promise of an answer says where it will be, and is no answer itself") {
  const AnswerPlace place{.run_id = "run:1", .answer_id = new_answer_id(), .from = 7, .within = 2s};
  http::Response promise = promise_of(place);
  promise.headers.push_back({"idempotency-replayed", "true"});

  CHECK(take_place(promise) == place);
  CHECK_FALSE(take_place(promise));
  CHECK(promise.headers == std::vector<http::Header>{{"idempotency-replayed", "true"}});
}

TEST_CASE("a hook says with its shape how its requests are answered") {
  const std::string shape = type<WebhookRequest>().shape;

  const auto fixed = plan_of(detail::with_answer(shape, WebhookAnswer{.status = 201, .body = "x"}));
  const auto within = plan_of(detail::with_answer(shape, AnswerWithin{1500ms}));

  CHECK_FALSE(plan_of(shape).fixed);
  CHECK_FALSE(plan_of(shape).within);
  REQUIRE(fixed.fixed);
  CHECK(fixed.fixed->status == 201);
  CHECK(fixed.fixed->body == "x");
  CHECK(within.within == 1500ms);
}

TEST_CASE("an answer that cannot be sent is refused where the hook is made") {
  const std::string shape = type<WebhookRequest>().shape;
  for (const WebhookAnswer& answer :
       {WebhookAnswer{.status = 100}, WebhookAnswer{.status = 600}, WebhookAnswer{.status = 302},
        WebhookAnswer{.headers = {{"a b", "c"}}},
        WebhookAnswer{.headers = {{"a", "b\r\nset-cookie: c"}}}}) {
    CHECK_THROWS_AS(detail::with_answer(shape, answer), Error);
  }
  CHECK_THROWS_AS(detail::with_answer(shape, AnswerWithin{0ms}), Error);
  CHECK_THROWS_AS(detail::with_answer(shape, AnswerWithin{61s}), Error);
}

}  // namespace
}  // namespace semel::serve
