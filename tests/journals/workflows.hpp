// The code whose journals are stored here. It must go on asking for the same things in the same order, for ever: what is
// tested is whether the library still understands what it wrote once, not this code.
#pragma once

#include <semel/semel.hpp>

#include <stdexcept>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

namespace semel::journals {

struct Order {
  std::string id;
  int count = 1;
};
BOOST_DESCRIBE_STRUCT(Order, (), (id, count))

/// Bodies only matter when a journal is made; on replay none is called.
struct Outside {
  bool repaired = false;
  int charges = 0;
};

inline Outside& outside() {
  static Outside world;
  return world;
}

inline Workflow<int> helper(int number) {
  co_await sleep(std::chrono::minutes{10});
  co_return number * 2;
}

inline Workflow<std::string> inlined(std::string text) {
  co_return co_await step("inlined", [text] { return "<" + text + ">"; });
}

/// Asks for everything that can be asked for.
inline Workflow<std::string> everything(Order order) {
  using namespace std::chrono_literals;
  const int checks = co_await version("fraud-check", 1, 2);
  const TimePoint begun = co_await now();
  const std::string id = co_await uuid();
  const std::uint64_t number = co_await random();
  co_await set_attribute("stage", "packing");
  co_await emit("progress", order.count);

  const std::string charged = co_await step(
      "charge", {.retry = {.initial = 1s, .jitter = false}},
      [](Order bound) {
        if (outside().charges++ == 0) throw std::runtime_error("bank closed");
        return "charged " + bound.id;
      },
      order);
  co_await step("once", {.mode = StepMode::at_most_once}, [] {});
  co_await sleep(1h);
  co_await sleep(24h);

  const auto [left, right] =
      co_await all(step("left", [] { return 1; }), step("right", [] { return 2; }));
  const auto dropped = co_await race(sleep(48h), step("quick", [] { return 3; }));
  const auto abandoned = co_await race(step("slow", [] { return 4; }), sleep(1min));

  const std::string spawned = co_await spawn(helper, 1);
  const int doubled = co_await child(helper, 21);
  const int adopted = co_await result_of<int>(spawned);
  const auto failed = co_await settled(step("fails", {.retry = {.attempts = 1}},
                                            [] { throw FatalError("no", {{"why", "paper"}}); }));
  const std::string text = co_await inlined("text");
  auto pending = co_await begin(step("begun", [] { return 5; }));
  const auto both = co_await all(inlined("a"), inlined("b"));
  co_await step("repaired", {.retry = {.attempts = 1}}, [] {
    if (!outside().repaired) throw std::runtime_error("broken");
  });

  co_return charged + std::to_string(checks) + std::to_string(left + right) +
      std::to_string(std::get<1>(dropped)) + std::to_string(abandoned.index()) +
      std::to_string(doubled + adopted) + (failed.ok() ? "" : "!") + text +
      std::to_string(co_await std::move(pending)) + std::get<0>(both) + std::get<1>(both) +
      (begun > TimePoint{} && !id.empty() && number != 0 ? "." : "");
}

/// Cleans up when it is told to stop.
inline Workflow<> careful() {
  using namespace std::chrono_literals;
  const auto slept = co_await settled(sleep(24h));
  if (!slept.ok()) co_await step("clean up", [] {});
}

/// Everything that can be asked of a hook; the second generation has nothing left to wait for.
inline Workflow<std::string> talk(std::string token, std::string said) {
  using namespace std::chrono_literals;
  auto line = hook<std::string>(token);
  if (const auto owner = co_await line.conflict()) co_return "owned by another";
  if (!said.empty()) {
    const auto silence = co_await line.next(50ms);
    co_return said + (silence ? *silence : ".");
  }

  auto made_up = hook<int>();
  const std::string name = co_await made_up.open();
  auto public_one = webhook();
  co_await public_one.open();
  const std::string first = co_await line;
  const auto nothing = co_await line.try_next();
  const auto raced = co_await race(line, made_up);
  public_one.dispose();
  const bool closed = co_await made_up.close();
  co_await continue_as_new(token, first + std::to_string(raced.index()) + (nothing ? "?" : "") +
                                      (closed && !name.empty() ? "!" : ""));
  co_return "";
}

}  // namespace semel::journals
