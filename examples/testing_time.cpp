// Testing a workflow that takes weeks: a clock that moves when told to, and a process that crashes when told to.
#include <semel/semel.hpp>

#include <iostream>
#include <map>
#include <stdexcept>

using namespace std::chrono_literals;

namespace {

/// Reminds a customer every day, at most three times, then gives up.
class Reminders {
 public:
  semel::Workflow<std::string> dun(std::string customer) {
    for (int day = 1; day <= 3; ++day) {
      const bool paid =
          co_await semel::step("remind", [this, customer](const semel::StepContext& step) {
            ++sent[step.id];
            return has_paid;
          });
      if (paid) co_return customer + " paid on day " + std::to_string(day);
      co_await semel::sleep(24h);
    }
    co_return customer + " is sent to court";
  }

  bool has_paid = false;
  std::map<std::string, int> sent;  ///< by step id
};

void expect(bool holds, const char* what) {
  std::cout << (holds ? "yes  " : "NO   ") << what << '\n';
  if (!holds) throw std::runtime_error(what);
}

}  // namespace

int main() {
  Reminders reminders;
  semel::testing::Engine
      engine;  // in memory, single-threaded: things happen in the calls below and nowhere else
  const auto dun = engine.add("dun", &Reminders::dun, &reminders);

  const auto run = engine.start(dun, "Ada").run;
  engine.run_until_idle();
  expect(reminders.sent.size() == 1, "the first reminder goes out at once");
  expect(run.status() == semel::RunStatus::waiting, "then it waits");

  const semel::TimePoint before = engine.now();
  engine.advance(24h - 1ms);
  expect(reminders.sent.size() == 1, "a day is not over a millisecond too early");
  engine.advance(1ms);
  expect(reminders.sent.size() == 2, "the second reminder goes out after exactly a day");
  expect(engine.now() - before == 24h, "the clock moved as far as it was told to");

  engine.crash();  // the next call is a new process on the same store
  reminders.has_paid = true;
  engine.advance(24h);
  expect(reminders.sent.size() == 3, "a crash loses no timer");
  for (const auto& [id, times] : reminders.sent)
    expect(times == 1, "and repeats no step that was recorded");
  expect(run.result<std::string>() == "Ada paid on day 3", "the result is there");

  const auto stubborn = engine.start(dun, "Bob").run;
  reminders.has_paid = false;
  try {
    static_cast<void>(stubborn.result<std::string>());
    expect(false, "a result that cannot come by itself does not hang");
  } catch (const semel::Error& error) {
    expect(error.code() == "TIMEOUT", "a result that cannot come by itself does not hang");
  }
  engine.advance(24h * 3);
  expect(stubborn.result<std::string>() == "Bob is sent to court",
         "advancing passes every timer on the way");
}
