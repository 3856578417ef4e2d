#include "tests/simulation/workflows.hpp"

namespace semel::sim {

using namespace std::chrono_literals;

namespace {

const StepOptions quick{.retry = {.attempts = 4, .initial = 200ms, .factor = 2, .max = 2s}};
const StepOptions single{.retry = {.attempts = 1}};
const StepOptions short_lived{.retry = {.attempts = 3, .initial = 100ms, .max = 1s}, .timeout = 2s};
const StepOptions kept_alive{.retry = {.attempts = 3, .initial = 100ms, .max = 1s}, .timeout = 3s};
const StepOptions never_twice{.mode = StepMode::at_most_once};

auto work(Outside& outside) {
  return [&outside](const StepContext& context, int x) { return outside.work(context, x); };
}

auto slow_work(Outside& outside) {
  return [&outside](const StepContext& context, int x) -> Task<int> {
    co_await outside.pause(context);
    co_return outside.work(context, x);
  };
}

int fatal_work(int x) { throw FatalError("as always", {{"x", x}}); }

}  // namespace

Workflow<int> Workflows::chain(int n) {
  int value = n;
  for (int i = 0; i < chain_length(n); ++i) {
    if (i % 2 == 0) {
      value = co_await step("link", work(outside_), value);
    } else {
      value = co_await step("slow link", slow_work(outside_), value);
    }
  }
  co_return value;
}

Workflow<int> Workflows::flaky(int n) {
  const auto body = [this](const StepContext& context, int x) {
    return outside_.flaky_work(context, x, 3);
  };
  const int first = co_await step("flaky", quick, body, n);
  const auto slow = [this](const StepContext& context, int x) -> Task<int> {
    co_await outside_.pause(context);
    co_return outside_.flaky_work(context, x, 2);
  };
  co_return co_await step("slow flaky", slow, first);
}

Workflow<int> Workflows::hopeless(int n) {
  const int before = co_await step("before", work(outside_), n);
  const auto body = [this, n](const StepContext& context, int x) {
    return outside_.stubborn_work(context, x, 1 + n % 2);
  };
  co_return co_await step("hopeless", quick, body, before);
}

Workflow<int> Workflows::once(int n) {
  const auto body = [this](const StepContext& context, int x) {
    return outside_.flaky_work(context, x, 1);
  };
  const auto only = co_await settled(step("only once", never_twice, body, n));
  const int last = co_await step("after", work(outside_), n);
  co_return only.ok() ? only.value() + last : -1;
}

Workflow<int> Workflows::timed(int n) {
  const auto first = co_await settled(step("timed", short_lived, work(outside_), n));
  const auto second = co_await settled(step("slow timed", short_lived, slow_work(outside_), n));
  co_return first.ok() && second.ok() ? first.value() + second.value() : -1;
}

Workflow<int> Workflows::beating(int n) {
  const auto body = [this](const StepContext& context, int x) -> Task<int> {
    for (int i = 0; i < 3; ++i) {
      outside_.beat(context);
      co_await outside_.pause(context);
    }
    co_return outside_.work(context, x);
  };
  const auto done = co_await settled(step("beating", kept_alive, body, n));
  co_return done.ok() ? done.value() : -1;
}

Workflow<int> Workflows::sleeper(int n) {
  const TimePoint begun = co_await now();
  co_await set_attribute("stage", "asleep");
  co_await sleep(Millis{500 * (n + 1)});
  const std::string name = co_await uuid();
  co_await emit("names", name);
  const std::uint64_t number = co_await random();
  co_await sleep_until(begun + 2s);
  co_await emit("numbers", number);
  co_await sleep(-1s);
  const int way = co_await version("way", 1, 2);
  co_await set_attribute("stage", "awake");
  co_return n * 10 + way;
}

Workflow<int> Workflows::graceful(int n) {
  const auto nap = co_await settled(sleep(20s));
  if (!nap.cancelled()) co_return n;
  co_await step("clean up", work(outside_), n);
  co_return -n;
}

Workflow<int> Workflows::clerk(int n) {
  const std::string line = co_await uuid();
  const auto write_down = [this, line, n](sql::Transaction& ledger) {
    ledger.exec("INSERT INTO ledger (line) VALUES (?1)", line);
    outside_.trip(line, 2);
    return 2 * n + 1;
  };
  const int written = co_await transaction(std::string(transaction_name), quick, write_down);
  co_return co_await step("after", work(outside_), written);
}

Workflow<int> Workflows::fan(int n) {
  const auto [a, b, c, d] = co_await all(step("left", work(outside_), n), chain(n),
                                         step("right", slow_work(outside_), n), sleep(Millis{300}));
  std::vector<Op<int>> many;
  for (int i = 0; i < 2 + n % 3; ++i) many.push_back(step("one of many", work(outside_), i));
  int sum = a + b + c;
  for (const int each : co_await all(std::move(many))) sum += each;
  co_return sum + co_await chain(n + 1);
}

Workflow<int> Workflows::brittle(int n) {
  bool failed = false;
  try {
    co_await all(step("fine", slow_work(outside_), n), step("fatal", quick, fatal_work, n));
  } catch (const StepFailedError&) {
    failed = true;
  }
  const int last = co_await step("after", work(outside_), n);
  co_return failed ? last : -1;
}

Workflow<int> Workflows::verdicts(int n) {
  const auto [good, bad] = co_await all_settled(step("good", slow_work(outside_), n),
                                                step("bad", single, fatal_work, n));
  std::vector<Op<int>> many;
  for (int i = 0; i < 3; ++i) {
    if (i == 1) {
      many.push_back(step("bad", single, fatal_work, i));
    } else {
      many.push_back(step("good", work(outside_), i));
    }
  }
  int score = (good.ok() ? 100 : 0) + (bad.ok() ? 0 : 10);
  for (const auto& each : co_await all_settled(std::move(many))) score += each.ok() ? 1 : 0;
  co_return score;
}

Workflow<std::vector<int>> Workflows::racing(int n) {
  const auto first = co_await race(step("runner", quick, slow_work(outside_), n), sleep(1500ms));
  const int runner = first.index() == 0 ? std::get<0>(first) : -1;

  std::vector<Op<void>> naps;
  for (int i = 0; i < 3; ++i) naps.push_back(sleep(Millis{300 * (i + 1)}));
  const auto nap = co_await race(std::move(naps));

  const auto third = co_await race(chain(n), sleep(2s));
  const int branch = third.index() == 0 ? std::get<0>(third) : -1;

  const auto fourth = co_await race(settled(child(&Workflows::chain, n)), sleep(4s));
  int other = -1;
  if (fourth.index() == 0) other = std::get<0>(fourth).ok() ? std::get<0>(fourth).value() : -2;
  co_return std::vector<int>{runner, static_cast<int>(nap.index), branch, other};
}

Workflow<int> Workflows::background(int n) {
  Pending<int> early = co_await begin(step("early", slow_work(outside_), n));
  Pending<int> branch = co_await begin(chain(n));
  {
    const auto unwatched = co_await begin(step("unwatched", work(outside_), n));
  }
  co_await sleep(700ms);
  const int late = co_await std::move(branch);
  co_return late + co_await std::move(early);
}

Workflow<int> Workflows::saga(int n) {
  Saga undo;
  const int seat = co_await step("reserve", work(outside_), n);
  undo.add("unreserve", work(outside_), seat);
  const int bill = co_await step("charge", slow_work(outside_), seat);
  undo.add("refund", slow_work(outside_), bill);
  if (n % 2 == 1) co_return bill;
  const auto shipped = co_await settled(step("ship", single, fatal_work, bill));
  if (shipped.ok()) co_return 0;
  co_await undo.compensate();
  co_return -bill;
}

Workflow<int> Workflows::parent(int n) {
  const auto one = co_await settled(child(&Workflows::chain, n));
  const std::string id = co_await spawn(&Workflows::flaky, n);
  const auto two = co_await settled(result_of<int>(id));
  co_return one.ok() && two.ok() ? one.value() + two.value() : -1;
}

Workflow<int> Workflows::family(int n) {
  const std::string key = "leaf-" + std::to_string(n % 2);
  const auto [leaf, twin, grown, failing] = co_await all_settled(
      child({.key = key}, &Workflows::chain, n % 2),
      child({.key = key, .after_done = AfterDone::start_new_if_failed}, &Workflows::chain, n % 2),
      child({.delay = Millis{200 * n}}, &Workflows::parent, n), child(&Workflows::brittle, n));
  co_return leaf.ok() && twin.ok() && grown.ok() && failing.ok()
      ? leaf.value() + twin.value() + grown.value() + failing.value()
      : -1;
}

Workflow<int> Workflows::patient(std::string id, int n) {
  const auto other = co_await race(settled(result_of<Json>(id)), sleep(std::chrono::minutes{2}));
  if (other.index() == 1) co_return -2;
  co_return std::get<0>(other).ok() ? n : -1;
}

// ---------------------------------------------------------------------------------------------- talked to

Workflow<int> Workflows::mailbox(int n) {
  const std::string token = "box-" + std::to_string(n % 3);
  int read = 0;
  {
    auto letters = hook<int>(token);
    if (co_await letters.conflict()) co_return -1;
    for (int i = 0; i < 4 && read < 3; ++i) {
      if (co_await letters.next(std::chrono::seconds{2})) ++read;
    }
    if (n % 2 == 0) co_return read;
  }
  auto again = hook<int>(token);
  if (co_await again.conflict()) co_return read;
  while (co_await again.try_next()) ++read;
  // With a time, for a fork has the answer "a payload waits" of the run it was taken from, and not the payload.
  while (!co_await again.close()) co_await again.next(std::chrono::seconds{2});
  co_return read;
}

Workflow<int> Workflows::renewing(int n) {
  auto letters = hook<int>("new-" + std::to_string(n % 2));
  if (co_await letters.conflict()) co_return -1;
  auto dropped = co_await begin(sleep(std::chrono::minutes{1}));
  co_await race(letters, sleep(std::chrono::seconds{2}));
  if (n < 20) co_await continue_as_new(n + 10);
  co_return n;
}

Workflow<int> Workflows::poison(int n) {
  const auto body = [this](const StepContext& context) { return outside_.poison(context); };
  co_await step("poison", body);
  co_return n;
}

Workflow<int> Workflows::drifting(int n) {
  const int first = co_await step("first", work(outside_), n);
  co_await sleep(3s);
  if (outside_.code_version == 1) co_return co_await step("old way", slow_work(outside_), first);
  co_return co_await step("new way", slow_work(outside_), first);
}

}  // namespace semel::sim
