// Duplicates, strategy 1: reject. Whoever comes second says who was first, and does nothing.
#include <semel/semel.hpp>

#include <iostream>

struct OrderRequest {
  bool confirmed = false;
};
BOOST_DESCRIBE_STRUCT(OrderRequest, (), (confirmed))

struct OrderResult {
  std::string status;
  std::optional<std::string> run_id{};
};
BOOST_DESCRIBE_STRUCT(OrderResult, (), (status, run_id))

semel::Workflow<OrderResult> process_order(std::string order_id) {
  auto request = semel::hook<OrderRequest>("order:" + order_id);
  if (auto owner = co_await request.conflict()) co_return OrderResult{"duplicate", owner->run_id};

  auto [confirmed] = co_await request;
  if (!confirmed) co_return OrderResult{"cancelled"};
  co_await semel::step("charge", [order_id] { std::cout << "charged " << order_id << '\n'; });
  co_return OrderResult{"processed"};
}

int main() {
  semel::Engine engine{"memory:"};
  engine.add("process-order", process_order, {.token_payload = semel::type<OrderRequest>()});
  engine.start_workers();

  const auto first = engine.start({.token = "order:789"}, process_order, "789");
  const auto second = engine.start(process_order, "789").run.result<OrderResult>();
  std::cout << "the second says: " << second.status << " of " << second.run_id.value_or("nobody")
            << '\n';

  engine.resume("order:789", OrderRequest{true});
  const auto result = first.run.result<OrderResult>();
  std::cout << "the first says: " << result.status << '\n';

  // Its end has freed the token: the order may be processed again.
  const auto third = engine.start({.token = "order:789"}, process_order, "789");
  engine.resume("order:789", OrderRequest{false});
  const bool as_told = second.status == "duplicate" && second.run_id == first.run.id() &&
                       result.status == "processed" &&
                       third.run.result<OrderResult>().status == "cancelled";
  return as_told ? 0 : 1;
}
