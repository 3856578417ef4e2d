// Many things at once in one workflow: all of them, the first of them, some now and some later.
#include <semel/semel.hpp>

#include <iostream>
#include <numeric>

using namespace std::chrono_literals;

struct Offer {
  std::string carrier;
  int cents = 0;
};
BOOST_DESCRIBE_STRUCT(Offer, (), (carrier, cents))

struct Trip {
  int total = 0;
  std::string answer;
  std::string fastest;
  std::string label;
  int failures = 0;
};
BOOST_DESCRIBE_STRUCT(Trip, (), (total, answer, fastest, label, failures))

Offer ask(std::string carrier, int cents) { return {carrier, cents}; }

/// A workflow may be a branch of another one: two steps in a row, beside whatever else is going on.
semel::Workflow<std::string> quick_quote(std::string carrier) {
  const Offer offer = co_await semel::step("ask", ask, carrier, 500);
  co_return co_await semel::step("format", [offer] { return offer.carrier + " takes it"; });
}

semel::Workflow<Trip> ship() {
  Trip trip;

  // Different things: a tuple. Captures go by value, since the steps may outlive this line.
  auto [box, insurance] = co_await semel::all(semel::step("box", [] { return 300; }),
                                              semel::step("insure", [] { return 150; }));

  // The same thing many times: a vector.
  std::vector<semel::Op<Offer>> asking;
  for (const char* carrier : {"hare", "tortoise", "snail"}) {
    asking.push_back(semel::step("ask", ask, std::string(carrier), 1000));
  }
  const std::vector<Offer> offers = co_await semel::all(std::move(asking));
  trip.total = std::accumulate(offers.begin(), offers.end(), box + insurance,
                               [](int sum, const Offer& offer) { return sum + offer.cents; });

  // The first to settle wins; a time limit is a sleep that may win.
  auto first = co_await semel::race(semel::step("quote", [] { return std::string("42"); }),
                                    semel::sleep(24h));
  trip.answer = first.index() == 0 ? std::get<0>(first) : "nobody answered";

  // Whole workflows race as well, here as a vector: which one, and what it said.
  std::vector<semel::Workflow<std::string>> quotes;
  quotes.push_back(quick_quote("hare"));
  quotes.push_back(quick_quote("tortoise"));
  trip.fastest = (co_await semel::race(std::move(quotes))).value;

  // Begun now, awaited when the result is needed.
  auto printing =
      co_await semel::begin(semel::step("print-label", [] { return std::string("label"); }));
  co_await semel::sleep(1ms);
  trip.label = co_await std::move(printing);

  // Where one failure must not hide the others.
  auto [good, bad] = co_await semel::all_settled(
      semel::step("good", [] { return 1; }),
      semel::step("bad", []() -> int { throw semel::FatalError("no"); }));
  trip.failures = (good.ok() ? 0 : 1) + (bad.ok() ? 0 : 1);
  co_return trip;
}

int main() {
  semel::Engine engine{"memory:"};
  engine.add("ship", ship);
  engine.start_workers();

  const Trip trip = engine.start(ship).run.result<Trip>();
  std::cout << trip.total << ", " << trip.answer << ", " << trip.fastest << ", " << trip.label
            << ", " << trip.failures << " failure\n";
  const bool as_told = trip.total == 3450 && trip.answer == "42" &&
                       trip.fastest.ends_with(" takes it") && trip.label == "label" &&
                       trip.failures == 1;
  return as_told ? 0 : 1;
}
