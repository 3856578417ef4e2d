#include <semel/semel.hpp>

#include <iostream>

using namespace std::chrono_literals;

struct Order {
  std::string id;
  int cents;
};
BOOST_DESCRIBE_STRUCT(Order, (), (id, cents))

// A step is an ordinary function. Its id is the same on every attempt: a bank that is sent it charges once.
std::string charge(const semel::StepContext& step, Order order) {
  std::cout << "charging " << order.cents << " under " << step.id << '\n';
  return "receipt-" + order.id;
}

semel::Workflow<std::string> fulfil(Order order) {
  const std::string receipt = co_await semel::step("charge", charge, order);
  co_await semel::step("ship", {.retry = {.attempts = 10}}, [] { std::cout << "shipping\n"; });
  co_await semel::sleep(1s);  // or thirty days: no thread waits, and no crash forgets it
  co_await semel::step("thank", [receipt] { std::cout << "thank you for " << receipt << '\n'; });
  co_return receipt;
}

int main() {
  semel::Engine engine{"sqlite:orders.db"};
  engine.add("fulfil", fulfil);
  engine.start_workers();  // goes on with what an earlier process left unfinished
  const auto started = engine.start({.key = "order-789"}, fulfil, Order{"789", 4990});
  const auto receipt = started.run.result<std::string>();
  std::cout << receipt << (started.created ? "\n" : ", as before\n");
}
