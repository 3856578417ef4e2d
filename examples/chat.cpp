// A chat session that lives as long as its user writes: the first message starts it, the following ones reach it, and
// when it has been silent it ends; the next message starts another. Whoever sends needs to know nothing of this.
#include <semel/semel.hpp>

#include <iostream>

using namespace std::chrono_literals;

struct Message {
  std::string text;
};
BOOST_DESCRIBE_STRUCT(Message, (), (text))

constexpr int messages_per_generation = 100;

semel::Workflow<int> session(std::string user, int answered) {
  auto inbox = semel::hook<Message>("chat:" + user);
  for (int i = 0; i < messages_per_generation; ++i) {
    const auto message = co_await inbox.next(1h);
    if (!message) {
      if (co_await inbox.close()) co_return answered;
      continue;  // one came in the very last moment
    }
    co_await semel::step("answer", [user, text = message->text] { return user + ": " + text; });
    ++answered;
  }
  // Same run, same token, waiting messages included; the journal begins anew, so memory and replay stay bounded.
  co_await semel::continue_as_new(user, answered);
  co_return answered;
}

int main() {
  semel::testing::Engine engine;
  engine.add("session", session, {.token_payload = semel::type<Message>()});

  const auto send = [&](const std::string& text) {
    return engine.resume_or_start("chat:ada", Message{text}, session, "ada", 0);
  };
  const auto first = send("hello");
  const auto second = send("are you there?");
  engine.run_until_idle();
  for (int i = 0; i < 250; ++i) send("message " + std::to_string(i));
  engine.run_until_idle();
  engine.crash();
  engine.advance(2h);
  const int answered = first.run.result<int>();
  std::cout << "the first session answered " << answered << " messages\n";

  const auto next_day = send("good morning");
  engine.advance(2h);
  const bool as_told = first.started && !second.started && second.run.id() == first.run.id() &&
                       answered == 252 && next_day.started && next_day.run.result<int>() == 1;
  return as_told ? 0 : 1;
}
