// Duplicates, strategy 4: signal. Whoever comes second gives the owner what it has brought, and is done.
#include <semel/semel.hpp>

#include <iostream>

using namespace std::chrono_literals;

struct Change {
  std::string what;
};
BOOST_DESCRIBE_STRUCT(Change, (), (what))

/// Collects changes of a page for a second and then publishes them together.
semel::Workflow<std::vector<std::string>> publish(std::string page, std::string change) {
  const std::string token = "publish:" + page;
  auto more = semel::hook<Change>(token);
  if (co_await more.conflict()) {
    // From a step, calls have keys of their own: tried again after a crash, the change is still sent once.
    co_await semel::step("signal the owner", [token, change](const semel::StepContext& step) {
      step.client().resume(token, Change{change});
    });
    co_return {};
  }

  std::vector<std::string> changes{change};
  while (auto next = co_await more.next(1s)) changes.push_back(next->what);
  // Closed only if nothing has come meanwhile: no change is left behind.
  while (!co_await more.close()) changes.push_back((co_await more).what);
  co_await semel::step("publish", [changes] {
    for (const std::string& each : changes) std::cout << "publishing: " << each << '\n';
  });
  co_return changes;
}

int main() {
  semel::testing::Engine engine;
  engine.add("publish", publish);

  const auto owner = engine.start(publish, "home", "new title");
  engine.run_until_idle();
  const auto second = engine.start(publish, "home", "new picture");
  const auto third = engine.start(publish, "home", "no picture after all");
  engine.run_until_idle();
  engine.advance(2s);

  const std::vector<std::string> published{"new title", "new picture", "no picture after all"};
  const bool as_told = owner.run.result<std::vector<std::string>>() == published &&
                       second.run.result<std::vector<std::string>>().empty() &&
                       third.run.result<std::vector<std::string>>().empty();
  return as_told ? 0 : 1;
}
