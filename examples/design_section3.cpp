// The C++ API as its design spells it: every call here is written the way the design document does, and what it
// promises is checked. Hooks, transactions, schedules, HTTP and continue_as_new are not there yet.
#include <semel/semel.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <source_location>
#include <thread>

using namespace std::chrono_literals;

namespace {

// ---------------------------------------------------------------- the example

struct Payments {
  struct Options {
    std::string idempotency_key;
  };

  void charge(const std::string& order_id, const Options& options) {
    const std::lock_guard lock(mutex);
    charged[options.idempotency_key] = order_id;
  }

  std::mutex mutex;
  std::map<std::string, std::string> charged;
};

Payments payments;

struct OrderResult {
  std::string status;
  std::optional<std::string> run_id{};
};
BOOST_DESCRIBE_STRUCT(OrderResult, (), (status, run_id))

// A step is an ordinary function. If its first parameter is a StepContext it is told its id, attempt and deadline.
void charge_order(const semel::StepContext& step, std::string order_id) {
  payments.charge(order_id, {.idempotency_key = step.id});  // the same id on every attempt
}

semel::Workflow<OrderResult> process_order(std::string order_id) {
  co_await semel::step("charge-order", charge_order, order_id);
  co_return OrderResult{"processed"};
}

void check(bool holds, std::source_location at = std::source_location::current()) {
  if (holds) return;
  std::cerr << at.file_name() << ":" << at.line() << ": in " << at.function_name()
            << ": not as promised\n";
  std::exit(1);
}

/// Checks that `call` throws a semel::Error with `code`.
template <class F>
void refuses(const std::string& code, F call,
             std::source_location at = std::source_location::current()) {
  try {
    call();
  } catch (const semel::Error& error) {
    if (error.code() != code) std::cerr << "got " << error.code() << ": " << error.what() << '\n';
    check(error.code() == code, at);
    return;
  }
  check(false, at);
}

void the_example() {
  semel::Engine engine{"sqlite:orders.db"};  // or "memory:", or "postgres://…"
  engine.add("process-order", process_order);
  engine.start_workers();

  // One transaction: the run and its key. started.run, started.created.
  auto started = engine.start({.key = "process-order-789"}, process_order, "789");
  OrderResult result = started.run.result<OrderResult>();  // blocks; result_async() is an awaitable

  check(started.created && result.status == "processed" && !result.run_id);
  check(payments.charged.size() == 1 && payments.charged.begin()->second == "789");
  auto again = engine.start({.key = "process-order-789"}, process_order, "789");
  check(!again.created && again.run.id() == started.run.id());
  check(payments.charged.size() == 1);
}

// ---------------------------------------------------------------- what a workflow may take

struct Item {
  std::string name;
  int count = 1;
  bool operator==(const Item&) const = default;
};
BOOST_DESCRIBE_STRUCT(Item, (), (name, count))

semel::Workflow<Item> echo(Item item) { co_return item; }

semel::Workflow<std::string> join(std::string left, std::string right) { co_return left + right; }

struct Shop {
  semel::Workflow<std::string> fulfil(std::string order) { co_return name + order; }

  std::string name = "shop-";
};

void what_a_workflow_may_take() {
  semel::testing::Engine engine;
  Shop shop;
  const auto echo_ref = engine.add("echo", echo);
  engine.add("join", join);
  const auto fulfil = engine.add("fulfil", &Shop::fulfil, &shop);
  const auto lambda =
      engine.add("lambda", [](int number) -> semel::Workflow<int> { co_return number + 1; });

  check(engine.start({}, join, "7", "89").run.result<std::string>() == "789");
  check(engine.start({}, echo, {"tea", 2}).run.result<Item>() == Item{"tea", 2});
  check(engine.start(echo_ref, Item{"tea"}).run.result<Item>() == Item{"tea", 1});
  check(engine.start(fulfil, "1").run.result<std::string>() == "shop-1");
  check(engine.start(lambda, 41).run.result<int>() == 42);
  check(engine.start({}, "echo", {{"name", "ham"}, {"count", 3}}).run.result<Item>() ==
        Item{"ham", 3});
  refuses("WORKFLOW_NOT_FOUND", [&] { engine.start({}, "nobody", {}); });
  try {
    engine.start({}, "echo", {{"name", "ham"}, {"count", "two"}});
    check(false);
  } catch (const semel::ValidationError& error) {
    check(error.code() == "VALIDATION_ERROR" && error.path.ends_with("/count"));
  }
}

// ---------------------------------------------------------------- steps

struct Steps {
  semel::Workflow<int> retried() {
    co_return co_await semel::step(
        "charge",
        {.retry = {.attempts = 5, .initial = 200ms, .factor = 2, .max = 30s, .jitter = true},
         .timeout = 10s},
        [this](const semel::StepContext& step, int cents) {
          ids.insert(step.id);
          attempts.push_back(step.attempt);
          if (step.attempt < 3) throw std::runtime_error("busy");
          return cents;
        },
        499);
  }

  semel::Workflow<std::string> exhausted() {
    try {
      co_await semel::step("never", {.retry = {.attempts = 2}},
                           [] { throw std::runtime_error("broken"); });
    } catch (const semel::StepFailedError& error) {
      co_return error.name + " " + std::to_string(error.attempts) + " " + error.message;
    }
    co_return "";
  }

  semel::Workflow<std::string> fatal() {
    try {
      co_await semel::step("refused", [this] {
        ++calls;
        throw semel::FatalError("no", {{"why", "because"}});
      });
    } catch (const semel::StepFailedError& error) {
      co_return std::string(error.details.at("why").as_string());
    }
    co_return "";
  }

  semel::Workflow<int> later() {
    co_return co_await semel::step("later", [](const semel::StepContext& step) {
      if (step.attempt == 1) throw semel::RetryableError{"in an hour", 1h};
      return step.attempt;
    });
  }

  semel::Workflow<int> once() {
    co_return co_await semel::step(
        "once", {.retry = {.attempts = 1}, .mode = semel::StepMode::at_most_once},
        [this] { return ++calls; });
  }

  semel::Workflow<void> none() {
    co_await semel::step("none", {.retry = {.attempts = 0}}, [] {});
  }

  semel::Workflow<std::string> starts_another() {
    co_return co_await semel::step("start", [this](const semel::StepContext& step) {
      const auto started = step.client().start({}, "other", semel::Json(boost::json::array{}));
      started_runs.insert(started.run.id());
      if (step.attempt == 1) throw std::runtime_error("after the start");
      return started.run.id();
    });
  }

  semel::Workflow<int> tasks() {
    co_return co_await semel::step(
        "task", [](int number) -> semel::Task<int> { co_return number * 2; }, 21);
  }

  std::set<std::string> ids;
  std::vector<int> attempts;
  std::set<std::string> started_runs;
  int calls = 0;
};

semel::Workflow<void> other() { co_return; }

void steps() {
  semel::testing::Engine engine;
  Steps steps;
  const auto retried = engine.start(engine.add("retried", &Steps::retried, &steps)).run;
  engine.run_until_idle();
  check(steps.attempts == std::vector{1});
  engine.advance(10min);
  check(retried.result<int>() == 499 && steps.attempts == std::vector{1, 2, 3} &&
        steps.ids.size() == 1);

  const auto exhausted = engine.start(engine.add("exhausted", &Steps::exhausted, &steps)).run;
  engine.advance(10min);
  check(exhausted.result<std::string>() == "never 2 broken");

  check(engine.start(engine.add("fatal", &Steps::fatal, &steps)).run.result<std::string>() ==
        "because");
  check(steps.calls == 1);

  const auto later = engine.start(engine.add("later", &Steps::later, &steps)).run;
  engine.advance(1h - 1ms);
  check(later.status() == semel::RunStatus::waiting);
  engine.advance(1ms);
  check(later.result<int>() == 2);

  check(engine.start(engine.add("once", &Steps::once, &steps)).run.result<int>() == 2);
  check(engine.start(engine.add("tasks", &Steps::tasks, &steps)).run.result<int>() == 42);

  const auto none = engine.start(engine.add("none", &Steps::none, &steps)).run;
  engine.run_until_idle();
  check(none.status() == semel::RunStatus::failed && none.error().starts_with("VALIDATION_ERROR"));

  engine.add("other", other);
  const auto starts =
      engine.start(engine.add("starts-another", &Steps::starts_another, &steps)).run;
  engine.advance(10min);
  check(starts.result<std::string>() == *steps.started_runs.begin() &&
        steps.started_runs.size() == 1);
}

/// A time-out asks the body to stop and fails the attempt; a heartbeat moves it and hands progress on.
semel::Workflow<std::string> times_out() {
  co_return co_await semel::step("slow",
                                 {.retry = {.attempts = 2, .initial = 1ms}, .timeout = 30ms},
                                 [](const semel::StepContext& step) {
                                   if (step.attempt == 2)
                                     return std::string(step.progress.as_string());
                                   step.heartbeat("half of it");
                                   std::mutex mutex;
                                   std::condition_variable_any never;
                                   std::unique_lock lock(mutex);
                                   never.wait(lock, step.stop, [] { return false; });
                                   return std::string("too late");
                                 });
}

void step_timeouts() {
  semel::Engine engine{"memory:"};
  engine.add("times-out", times_out);
  engine.start_workers();
  check(engine.start(times_out).run.result<std::string>() == "half of it");
}

// ---------------------------------------------------------------- many at once, failures and clean-up

semel::Workflow<int> number(int value) {
  co_return co_await semel::step("number", [value] { return value; });
}

struct Many {
  semel::Workflow<int> all() {
    auto [a, b] =
        co_await semel::all(semel::step("a", [] { return 1; }), semel::step("b", [] { return 2; }));
    std::vector<semel::Op<int>> several;
    for (int i = 0; i < 3; ++i) several.push_back(semel::step("several", [i] { return i; }));
    const std::vector<int> values = co_await semel::all(std::move(several));
    auto [c, d] = co_await semel::all(number(3), number(4));
    co_return a + b + values.at(0) + values.at(1) + values.at(2) + c + d;
  }

  semel::Workflow<bool> fails_fast() {
    bool threw = false;
    try {
      co_await semel::all(semel::step("bad", []() -> int { throw semel::FatalError("no"); }),
                          semel::sleep(1h));
    } catch (const semel::StepFailedError& error) {
      threw = error.name == "bad";
    }
    co_return threw;
  }

  semel::Workflow<std::string> races() {
    auto first = co_await semel::race(semel::sleep(24h), semel::step("quick", [] { return 7; }));
    std::vector<semel::Op<int>> several;
    several.push_back(semel::step("several", [] { return 8; }));
    auto [index, value] = co_await semel::race(std::move(several));
    co_return std::to_string(first.index()) + std::to_string(std::get<1>(first)) +
        std::to_string(index) + std::to_string(value);
  }

  semel::Workflow<int> begins() {
    auto pending = co_await semel::begin(semel::step("begun", [] { return 5; }));
    co_await semel::sleep(1h);
    co_return co_await std::move(pending);
  }

  semel::Workflow<std::string> compensates() {
    semel::Saga saga;
    saga.add("undo first", [this] { undone += "1"; });
    saga.add("undo second", [this] { undone += "2"; });
    auto done =
        co_await semel::settled(semel::step("fails", [] { throw semel::FatalError("no"); }));
    if (!done.ok()) co_await saga.compensate();
    co_return undone;
  }

  std::string undone;
};

void many_at_once() {
  semel::testing::Engine engine;
  Many many;
  check(engine.start(engine.add("all", &Many::all, &many)).run.result<int>() == 13);
  check(engine.start(engine.add("fails-fast", &Many::fails_fast, &many)).run.result<bool>());
  check(engine.start(engine.add("races", &Many::races, &many)).run.result<std::string>() == "1708");
  const auto begins = engine.start(engine.add("begins", &Many::begins, &many)).run;
  engine.advance(1h);
  check(begins.result<int>() == 5);
  check(engine.start(engine.add("compensates", &Many::compensates, &many))
            .run.result<std::string>() == "21");
}

// ---------------------------------------------------------------- time, ids, chance

struct Drawn {
  semel::TimePoint at{};
  std::string uuid;
  std::uint64_t random = 0;
  semel::TimePoint late{};
};
BOOST_DESCRIBE_STRUCT(Drawn, (), (at, uuid, random, late))

semel::Workflow<Drawn> draws() {
  Drawn drawn;
  drawn.at = co_await semel::now();
  drawn.uuid = co_await semel::uuid();
  drawn.random = co_await semel::random();
  co_await semel::sleep(std::chrono::days{30});
  co_await semel::sleep_until(drawn.at);  // past: goes on at once
  co_await semel::sleep(-1s);
  drawn.late = co_await semel::now();
  co_return drawn;
}

void time_ids_chance() {
  semel::testing::Engine engine;
  engine.add("draws", draws);
  const auto run = engine.start(draws).run;
  const auto begun = engine.now();
  engine.run_until_idle();
  engine.crash();  // replayed by the next call: same answers, or it would diverge
  engine.advance(std::chrono::days{30});
  const auto drawn = run.result<Drawn>();
  check(drawn.at == begun && drawn.late == begun + std::chrono::days{30} &&
        drawn.uuid.size() == 36);
}

// ---------------------------------------------------------------- sub-workflows

semel::Workflow<int> family() {
  const int inlined = co_await number(1);
  const int waited = co_await semel::child({.key = "two"}, number, 2);
  const std::string spawned = co_await semel::spawn(number, 3);
  const int adopted = co_await semel::result_of<int>(spawned);
  co_return inlined + waited + adopted;
}

void sub_workflows() {
  semel::testing::Engine engine;
  engine.add("number", number);
  engine.add("family", family);
  check(engine.start(family).run.result<int>() == 6);
  check(engine.runs({.workflow = "number"}).size() == 2);
  check(!engine.start({.key = "two"}, number, 2).created);
}

// ---------------------------------------------------------------- starting

semel::Workflow<std::string> sleeper(std::string name) {
  co_await semel::sleep(1h);
  co_return name;
}

semel::Workflow<void> failing(bool fails) {
  if (fails) throw std::runtime_error("as asked");
  co_return;
}

void starting() {
  semel::testing::Engine engine;
  engine.add("sleeper", sleeper);
  engine.add("failing", failing);
  using semel::AfterDone;
  using semel::OnRunning;

  refuses("IDEMPOTENCY_KEY_INVALID", [&] { engine.start({.key = ""}, sleeper, "a"); });
  const auto first = engine.start({.key = "k", .key_ttl = 1h}, sleeper, "a");
  check(!engine.start({.key = "k"}, sleeper, "a").created);
  refuses("RUN_ACTIVE",
          [&] { engine.start({.key = "k", .on_running = OnRunning::reject}, sleeper, "a"); });
  refuses("IDEMPOTENCY_CONFLICT", [&] { engine.start({.key = "k"}, sleeper, "b"); });
  check(!engine.start({.key = "k", .fingerprint = semel::Fingerprint::off}, sleeper, "b").created);

  const auto second =
      engine.start({.key = "k", .key_ttl = 1h, .on_running = OnRunning::supersede}, sleeper, "b");
  check(second.created && first.run.status() == semel::RunStatus::cancelled);
  engine.advance(1h);
  check(engine.start({.key = "k"}, sleeper, "b").run.result<std::string>() == "b");
  refuses("RUN_FINISHED",
          [&] { engine.start({.key = "k", .after_done = AfterDone::reject}, sleeper, "b"); });
  check(!engine.start({.key = "k", .after_done = AfterDone::start_new_if_failed}, sleeper, "b")
             .created);
  check(engine.start({.key = "k", .key_ttl = 1h, .after_done = AfterDone::start_new}, sleeper, "c")
            .created);
  engine.advance(3h);  // finished, and its key is forgotten an hour after
  check(engine.start({.key = "k"}, sleeper, "d").created);

  const auto chosen = engine.start({.run_id = "order-1"}, sleeper, "x");
  check(chosen.run.id() == "order-1" && !engine.start({.run_id = "order-1"}, sleeper, "x").created);

  const auto delayed = engine.start({.delay = 2h}, sleeper, "late").run;
  check(delayed.status() == semel::RunStatus::pending);
  engine.advance(3h);
  check(delayed.result<std::string>() == "late");

  const auto hurried =
      engine.start({.deadline = 1min, .attributes = {{"customer", "ada"}}}, sleeper, "x").run;
  check(engine.runs({.attributes = {{"customer", "ada"}}}).size() == 1);
  engine.advance(1min);
  check(hurried.status() == semel::RunStatus::failed &&
        hurried.error().starts_with("DEADLINE_EXCEEDED"));

  engine.start({.key = "f"}, failing, true);
  engine.run_until_idle();
  check(!engine.start({.key = "f"}, failing, true).created);
  check(engine.start({.key = "f", .after_done = AfterDone::start_new_if_failed}, failing, true)
            .created);
}

// ---------------------------------------------------------------- looking, steering, cancelling

struct Graceful {
  semel::Workflow<void> works() {
    try {
      co_await semel::sleep(1h);
    } catch (const semel::CancelledError&) {
      told = true;
    }
    if (told) co_await semel::step("tidy", [this] { tidied = true; });
  }

  bool told = false;
  bool tidied = false;
};

struct Flaky {
  semel::Workflow<int> works() {
    const int first = co_await semel::step("first", [this] { return ++firsts; });
    co_await semel::step("second", {.retry = {.attempts = 1}}, [this] {
      if (broken) throw std::runtime_error("broken");
    });
    co_return first;
  }

  int firsts = 0;
  bool broken = true;
};

semel::Workflow<std::string> parent() {
  co_return co_await semel::child({.run_id = "the-child"}, sleeper, "child");
}

void looking_and_steering() {
  semel::testing::Engine engine;
  Graceful graceful;
  Flaky flaky;
  engine.add("sleeper", sleeper);
  engine.add("parent", parent);
  const auto graceful_ref = engine.add("graceful", &Graceful::works, &graceful);
  const auto flaky_ref = engine.add("flaky", &Flaky::works, &flaky);

  auto run = engine.start(sleeper, "name").run;
  engine.run_until_idle();
  check(engine.run(run.id()).status() == semel::RunStatus::waiting);
  check(run.input() == semel::Json(boost::json::array{"name"}));
  check(run.version() == 0 && run.journal().size() == 1 && run.journal().front().kind == "started");
  refuses("CONCURRENCY_ERROR", [&] { run.cancel({.expected_version = 7}); });
  check(run.wake() == 1 && run.result<std::string>() == "name");
  refuses("RUN_NOT_ACTIVE", [&] { run.cancel(); });
  refuses("RUN_NOT_FOUND", [&] { engine.run("nobody"); });

  auto family = engine.start(parent).run;
  engine.run_until_idle();
  family.cancel();
  check(family.status() == semel::RunStatus::cancelled);
  check(engine.run("the-child").status() == semel::RunStatus::cancelled);
  family.cancel();
  refuses("RUN_CANCELLED", [&] { static_cast<void>(family.result<std::string>()); });

  auto told = engine.start(graceful_ref).run;
  engine.run_until_idle();
  told.cancel({.grace = 30s});
  engine.run_until_idle();
  check(graceful.told && graceful.tidied && told.status() == semel::RunStatus::cancelled);

  auto failed = engine.start(flaky_ref).run;
  engine.run_until_idle();
  check(failed.status() == semel::RunStatus::failed);
  refuses("RUN_FAILED", [&] { static_cast<void>(failed.result<int>()); });
  flaky.broken = false;
  failed.retry();
  check(failed.result<int>() == 1 && flaky.firsts == 1);
  const auto forked = failed.fork(0);
  check(forked.id() != failed.id() && forked.result<int>() == 2);

  auto& acme = engine.workspace("acme");
  const auto theirs = acme.start({.key = "k"}, sleeper, "acme").run;
  refuses("RUN_NOT_FOUND", [&] { engine.run(theirs.id()); });
  check(acme.runs().size() == 1);
}

// ---------------------------------------------------------------- telling the world

semel::Workflow<void> tells() {
  co_await semel::set_attribute("stage", "packing");
  for (int i = 1; i <= 3; ++i) co_await semel::emit("progress", i);
}

void telling_the_world() {
  semel::testing::Engine engine;
  engine.add("tells", tells);
  const auto run = engine.start(tells).run;
  engine.run_until_idle();
  check(run.attributes().at("stage") == "packing");
  check(engine.runs({.attributes = {{"stage", "packing"}}}).size() == 1);
  check(run.stream<int>("progress") == std::vector{1, 2, 3});
  check(run.stream<int>("progress", 2) == std::vector{3});
}

// ---------------------------------------------------------------- values

struct Values {
  std::int64_t large = 0;
  double fraction = 0;
  semel::Bytes bytes;
  std::optional<std::string> absent;
  std::map<std::string, std::vector<int>> map;
  std::variant<int, std::string> either;
  bool operator==(const Values&) const = default;
};
BOOST_DESCRIBE_STRUCT(Values, (), (large, fraction, bytes, absent, map, either))

semel::Workflow<Values> keeps(Values values) {
  co_return co_await semel::step("keep", [values] { return values; });
}

semel::Workflow<std::string> refused_string() {
  try {
    co_await semel::step("binary", [] { return std::string("\xff\xfe"); });
  } catch (const semel::StepFailedError& error) {
    co_return error.message;
  }
  co_return "";
}

void values() {
  semel::testing::Engine engine;
  engine.add("keeps", keeps);
  engine.add("refused-string", refused_string);
  Values values;
  values.large = std::numeric_limits<std::int64_t>::max();
  values.fraction = 0.1 + 0.2;
  values.map = {{"a", {1, 2}}, {"b", {}}};
  values.either = "text";
  check(engine.start(keeps, values).run.result<Values>() == values);
  check(engine.start(refused_string).run.result<std::string>().find("UTF-8") != std::string::npos);
}

// ---------------------------------------------------------------- an engine must not be called from inside a workflow

semel::testing::Engine* engine_for_calls = nullptr;

semel::Workflow<std::string> calls_the_engine() {
  try {
    engine_for_calls->start(sleeper, "x");
  } catch (const semel::Error& error) {
    co_return error.code();
  }
  co_return "";
}

void calling_the_engine_inside() {
  semel::testing::Engine engine;
  engine_for_calls = &engine;
  engine.add("sleeper", sleeper);
  engine.add("calls", calls_the_engine);
  check(engine.start(calls_the_engine).run.result<std::string>() == "CALL_INSIDE_WORKFLOW");
}

}  // namespace

int main() {
  the_example();
  what_a_workflow_may_take();
  steps();
  step_timeouts();
  many_at_once();
  time_ids_chance();
  sub_workflows();
  starting();
  looking_and_steering();
  telling_the_world();
  values();
  calling_the_engine_inside();
  std::cout << "as designed\n";
}
