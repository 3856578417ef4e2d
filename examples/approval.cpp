// Approval by a person, with a time limit and somebody to ask next.
#include <semel/semel.hpp>

#include <iostream>

using namespace std::chrono_literals;

struct Decision {
  bool approved = false;
  std::string by;
};
BOOST_DESCRIBE_STRUCT(Decision, (), (approved, by))

void send_mail(const std::string& to, const std::string& token) {
  std::cout << "to " << to << ": please decide, your link is .../" << token << '\n';
}

semel::Workflow<std::string> expense(std::string what, int euros) {
  auto decision = semel::hook<Decision>();  // a token that nobody can guess
  const std::string token = co_await decision.open();
  co_await semel::set_attribute("token", token);

  for (const char* person : {"team lead", "head of department"}) {
    co_await semel::step("ask", [to = std::string(person), token] { send_mail(to, token); });
    if (const auto decided = co_await decision.next(24h)) {
      co_return what + (decided->approved ? " approved by " : " refused by ") + decided->by;
    }
  }
  co_return euros < 50 ? what + " approved: nobody minded" : what + " refused: nobody answered";
}

int main() {
  semel::testing::Engine engine;
  engine.add("expense", expense);

  const auto chair = engine.start(expense, "a chair", 200).run;
  engine.advance(25h);  // the team lead is on holiday
  engine.resume(chair.attributes().at("token"), Decision{true, "the head"});
  engine.run_until_idle();

  const auto pencil = engine.start(expense, "a pencil", 2).run;
  engine.advance(49h);

  const bool as_told = chair.result<std::string>() == "a chair approved by the head" &&
                       pencil.result<std::string>() == "a pencil approved: nobody minded";
  std::cout << chair.result<std::string>() << '\n' << pencil.result<std::string>() << '\n';
  return as_told ? 0 : 1;
}
