// A saga that is cancelled half-way: the cancel is an exception at the current co_await, and what was done is undone
// within the grace that it leaves.
#include <semel/semel.hpp>

#include <iostream>

using namespace std::chrono_literals;

struct Payment {
  int cents = 0;
};
BOOST_DESCRIBE_STRUCT(Payment, (), (cents))

namespace {

class Hotel {
 public:
  semel::Workflow<std::string> reserve(std::string guest) {
    semel::Saga saga;
    co_await semel::step("hold a room", [this] { note("room held"); });
    saga.add("release the room", [this] { note("room released"); });

    auto payment = semel::hook<Payment>("payment:" + guest);
    // Not in a try block: C++ has no co_await in a catch, and `settled` needs none.
    const auto paid = co_await semel::settled(payment);
    if (!paid.ok()) {
      co_await saga.compensate();
      co_return paid.cancelled() ? "given up" : paid.message();
    }
    co_return guest + " paid " + std::to_string(paid.value().cents);
  }

  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void note(const std::string& what) {
    std::cout << what << '\n';
    notes_.push_back(what);
  }

  std::vector<std::string> notes_;
};

}  // namespace

int main() {
  Hotel hotel;
  semel::testing::Engine engine;
  const auto reserve = engine.add("reserve", &Hotel::reserve, &hotel);

  auto run = engine.start(reserve, "Ada").run;
  engine.run_until_idle();
  run.cancel({.grace = 30s});
  engine.run_until_idle();

  // Cancelled, whatever it returned; and the token is free again.
  const auto again = engine.start(reserve, "Ada").run;
  engine.run_until_idle();
  engine.resume("payment:Ada", Payment{9900});
  engine.run_until_idle();

  const std::vector<std::string> expected{"room held", "room released", "room held"};
  const bool as_told = run.status() == semel::RunStatus::cancelled &&
                       again.result<std::string>() == "Ada paid 9900" && hotel.notes() == expected;
  return as_told ? 0 : 1;
}
