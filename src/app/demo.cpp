#include "app/demo.hpp"

#include <semel/hook.hpp>
#include <semel/step.hpp>

#include <fmt/format.h>

#include <chrono>

namespace semel::app {

namespace {

using namespace std::chrono_literals;

struct OrderRequest {
  bool confirmed = false;
};
BOOST_DESCRIBE_STRUCT(OrderRequest, (), (confirmed))

struct OrderResult {
  std::string status;
  std::optional<std::string>
      charge{};  ///< the id under which it was charged: the same on every attempt
};
BOOST_DESCRIBE_STRUCT(OrderResult, (), (status, charge))

/// Waits for somebody to confirm the order, then charges it. One run owns an order at a time.
Workflow<OrderResult> process_order(std::string order_id) {
  auto request = hook<OrderRequest>("order:" + order_id);
  if (co_await request.conflict()) co_return OrderResult{"duplicate"};
  const OrderRequest answer = co_await request;
  if (!answer.confirmed) co_return OrderResult{"cancelled"};
  const std::string charge =
      co_await step("charge-order", [](const StepContext& attempt) { return attempt.id; });
  co_return OrderResult{"processed", charge};
}

/// Sleeps for an hour; `wake` ends that.
Workflow<std::string> remind(std::string text) {
  co_await semel::sleep(1h);
  co_return text;
}

}  // namespace

void add_demo(Engine& engine) {
  engine.add("process-order", process_order, {.token_payload = type<OrderRequest>()});
  engine.add("remind", remind);
}

std::string demo_text(const std::string& url) {
  return fmt::format(R"(
The demo workflows process-order and remind are here. In another terminal:

  # start a run; it waits for its order to be confirmed
  curl -s {0}/api/v1/runs -H 'Content-Type: application/json' -H 'Idempotency-Key: start-789' \
    -d '{{"workflow":"process-order","input":"789","token":"order:789"}}'

  # the same again: the same answer, and no second run
  curl -si {0}/api/v1/runs -H 'Content-Type: application/json' -H 'Idempotency-Key: start-789' \
    -d '{{"workflow":"process-order","input":"789","token":"order:789"}}'

  # confirm it; the run goes on and charges once
  curl -s {0}/api/v1/hooks/order:789/resume -H 'Content-Type: application/json' \
    -H 'Idempotency-Key: confirm-789' -d '{{"confirmed":true}}'

All runs: {0}/api/v1/runs   The API: {0}/openapi.json   Stop with Ctrl-C.
)",
                     url);
}

}  // namespace semel::app
