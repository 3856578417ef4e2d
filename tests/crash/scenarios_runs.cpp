#include "tests/crash/scenarios.hpp"

#include <array>

namespace semel::crash {

using namespace std::chrono_literals;

namespace {

/// What most scenarios here are about: a run that works, sleeps and works.
struct Worker {
  Stage& stage;

  Workflow<int> work(int n) {
    const int first = co_await step("first", stage.body(n));
    co_await sleep(10s);
    co_return first + co_await step("second", stage.body(1));
  }
};

using Work = Workflow<int> (Worker::*)(int);

// ------------------------------------------------------------------------------------------------ runs that make runs

void children(Stage& stage) {
  struct Shop : Worker {
    WorkflowRef<Work> work_ref{};
    WorkflowRef<Workflow<int> (Shop::*)()> fails_ref{};

    Workflow<int> fails() {
      co_await step("tries", stage.body(1));
      throw std::runtime_error("no");
    }

    Workflow<int> run() {
      const int first = co_await child({}, work_ref, 10);
      const auto [a, b] =
          co_await all(child({.key = "child"}, work_ref, 20), child({}, work_ref, 30));
      const auto failed = co_await settled(child({}, fails_ref));
      const auto late = co_await race(child({.delay = 10min}, work_ref, 40), sleep(1min));
      co_return first + a + b + (failed.ok() ? 1000 : 0) + static_cast<int>(late.index());
    }
  } shop{{stage}};

  shop.work_ref =
      stage.engine.add("work", static_cast<Work>(&Shop::work), static_cast<Worker*>(&shop));
  shop.fails_ref = stage.engine.add("fails", &Shop::fails, &shop);
  const auto ref = stage.engine.add("parent", &Shop::run, &shop);

  stage.act([&] { stage.engine.start({.run_id = "parent"}, ref); });
  stage.until(2h);
}

void spawned_runs(Stage& stage) {
  struct Shop : Worker {
    WorkflowRef<Work> work_ref{};

    Workflow<int> run() {
      const std::string one = co_await spawn({}, work_ref, 10);
      const auto [other, nap] = co_await all(spawn({.key = "other"}, work_ref, 20), sleep(1min));
      const int sum = co_await result_of<int>(one) + co_await result_of<int>(other);
      const auto missing = co_await settled(result_of<int>("nobody"));
      co_return missing.ok() ? -1 : sum;
    }
  } shop{{stage}};

  shop.work_ref = stage.engine.add("work", &Worker::work, static_cast<Worker*>(&shop));
  const auto ref = stage.engine.add("parent", &Shop::run, &shop);

  stage.act([&] { stage.engine.start({.run_id = "parent"}, ref); });
  stage.until(1h);
}

void start_from_inside_a_step(Stage& stage) {
  struct Shop : Worker {
    WorkflowRef<Work> work_ref{};

    Workflow<int> run() {
      const auto order = [this](const StepContext& context) {
        stage.begun(context);
        return context.client().start({}, work_ref, 10).run.id();
      };
      const std::string id = co_await step("order", order);
      co_return co_await result_of<int>(id);
    }
  } shop{{stage}};

  shop.work_ref = stage.engine.add("work", &Worker::work, static_cast<Worker*>(&shop));
  const auto ref = stage.engine.add("parent", &Shop::run, &shop);

  stage.act([&] { stage.engine.start({.run_id = "parent"}, ref); });
  stage.until(1h);
}

// ------------------------------------------------------------------------------------------------ starts

void delayed_start(Stage& stage) {
  Worker worker{stage};
  const auto ref = stage.engine.add("work", &Worker::work, &worker);

  stage.act([&] { stage.engine.start({.run_id = "later", .delay = 1min}, ref, 1); });
  stage.until(50s);
  if (stage.engine.run("later").status() != RunStatus::pending) stage.complain("it began early");
  stage.until(1h);
}

void start_with_a_key(Stage& stage) {
  Worker worker{stage};
  const auto ref = stage.engine.add("work", &Worker::work, &worker);
  const auto start = [&](int n) {
    return stage.act([&] { return stage.engine.start({.key = "order"}, ref, n); });
  };

  const std::string first = start(1).run.id();
  const Started again = start(1);
  if (again.created || again.run.id() != first) stage.complain("the key has two owners");
  bool refused = false;
  try {
    start(2);
  } catch (const IdempotencyConflictError&) {
    refused = true;
  }
  if (!refused) stage.complain("other input under the key was accepted");
  stage.until(1h);
  const Started late = start(1);
  if (late.created || late.run.id() != first) stage.complain("the key was forgotten");
  if (stage.act([&] { return late.run.result<int>(); }) != 2) stage.complain("another result");
}

void key_taken_over(Stage& stage) {
  Worker worker{stage};
  const auto ref = stage.engine.add("work", &Worker::work, &worker);
  const auto start = [&](const std::string& id, int n, OnRunning on_running, AfterDone after_done) {
    stage.act([&] {
      if (stage.exists(id)) return;
      stage.engine.start(
          {.key = "order", .run_id = id, .on_running = on_running, .after_done = after_done}, ref,
          n);
    });
  };

  start("first", 1, OnRunning::attach, AfterDone::return_result);
  stage.until(5s);
  start("second", 2, OnRunning::supersede, AfterDone::return_result);
  stage.until(1h);
  start("third", 3, OnRunning::attach, AfterDone::start_new);
  stage.until(2h);
}

void start_before_a_deadline(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<> run() {
      co_await step("first", stage.body(1));
      co_await sleep(24h);
    }
  } shop{stage};

  const auto ref = stage.engine.add("late", &Shop::run, &shop);

  stage.act([&] {
    stage.engine.start({.run_id = "late", .deadline = 1min, .attributes = {{"customer", "7"}}},
                       ref);
  });
  stage.until(1h);
}

void starts_in_two_workspaces(Stage& stage) {
  Worker worker{stage};
  const auto ref = stage.engine.add("work", &Worker::work, &worker);

  stage.act([&] { stage.engine.start({.key = "order"}, ref, 1); });
  stage.act([&] { stage.engine.workspace("other").start({.key = "order"}, ref, 2); });
  stage.until(1h);
}

// ------------------------------------------------------------------------------------------------ steering

/// A run that waits for a child, and cleans up if it may.
struct Family : Worker {
  WorkflowRef<Workflow<> (Family::*)()> patient_ref{};

  Workflow<> patient() {
    const auto nap = co_await settled(sleep(24h));
    if (nap.cancelled()) co_await step("child cleans up", stage.body(1));
  }

  Workflow<> run() {
    co_await step("first", stage.body(1));
    const auto waited = co_await settled(child({}, patient_ref));
    co_await step("clean up", stage.body(2));
    co_await sleep(5s);
    co_await step("clean up more", stage.body(waited.ok() ? 3 : 4));
  }
};

void cancel_family(Stage& stage, std::optional<Millis> grace) {
  Family family{{stage}};
  family.patient_ref = stage.engine.add("patient", &Family::patient, &family);
  const auto ref = stage.engine.add("family", &Family::run, &family);

  stage.act([&] { stage.engine.start({.run_id = "family"}, ref); });
  stage.until(10s);
  stage.act([&] { stage.engine.run("family").cancel({.grace = grace}); });
  if (!grace && stage.engine.run("family").status() != RunStatus::cancelled)
    stage.complain("cancelled and not over");
  stage.until(1h);
}

void cancel_at_once(Stage& stage) { cancel_family(stage, std::nullopt); }

void cancel_with_grace(Stage& stage) { cancel_family(stage, 5min); }

void grace_that_is_too_short(Stage& stage) { cancel_family(stage, 2s); }

void retry_of_a_failed_run(Stage& stage) {
  struct Shop {
    Stage& stage;
    bool works = false;

    Workflow<int> run() {
      const int first = co_await step("first", stage.body(1));
      const auto picky = [this](const StepContext& context) {
        stage.begun(context);
        if (!works) throw FatalError("not today");
        return 2;
      };
      const auto [second, third] =
          co_await all(step("picky", picky), step("beside", stage.task(3)));
      co_return first + second + third;
    }
  } shop{stage};

  const auto ref = stage.engine.add("picky", &Shop::run, &shop);

  stage.act([&] { stage.engine.start({.run_id = "picky"}, ref); });
  stage.until(1min);
  shop.works = true;
  stage.act([&] {
    Run run = stage.engine.run("picky");
    if (run.status() == RunStatus::failed) run.retry();
  });
  stage.until(1h);
}

void fork_of_a_run(Stage& stage) {
  Worker worker{stage};
  const auto ref = stage.engine.add("work", &Worker::work, &worker);

  stage.act([&] { stage.engine.start({.run_id = "work"}, ref, 1); });
  stage.until(1h);
  stage.act([&] {
    Run run = stage.engine.run("work");
    // Behind the first step: that one is not run again.
    for (const Entry& entry : run.journal()) {
      if (entry.kind == "step_completed") {
        run.fork(entry.seq);
        return;
      }
    }
  });
  stage.until(2h);
}

void wake(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<int> run() {
      co_await all(sleep(24h), sleep(48h));
      co_return co_await step("awake", stage.body(1));
    }
  } shop{stage};

  const auto ref = stage.engine.add("sleeper", &Shop::run, &shop);

  stage.act([&] { stage.engine.start({.run_id = "sleeper"}, ref); });
  stage.until(1min);
  stage.act([&] { stage.engine.run("sleeper").wake(); });
  stage.until(1h);
}

/// Writes a line each time it is run and gives how many there are: done twice, it would give one more.
int write_line(sql::Transaction& tx) {
  tx.exec("CREATE TABLE IF NOT EXISTS line (number INTEGER PRIMARY KEY)");
  tx.exec("INSERT INTO line DEFAULT VALUES");
  return tx.query<int>("SELECT count(*) FROM line").front();
}

void transactional_steps(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<int> run() {
      const int first = co_await transaction("first", write_line);
      const int step_between = co_await step("between", stage.body(10));
      const auto [second, third] =
          co_await all(transaction("second", write_line), transaction("third", write_line));
      const StepOptions options{.retry = {.attempts = 2, .initial = 10s, .jitter = false}};
      const auto failed = co_await settled(transaction("fails", options, [](sql::Transaction& tx) {
        write_line(tx);
        throw std::runtime_error("no");
      }));
      co_await sleep(1min);
      const int last = co_await transaction("last", write_line);
      co_return first + second + third + last + step_between + (failed.ok() ? 1000 : 0);
    }
  } shop{stage};

  const auto ref = stage.engine.add("lines", &Shop::run, &shop);

  stage.act([&] { stage.engine.start({.run_id = "lines"}, ref); });
  stage.until(1h);
}

void start_in_a_transaction(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<int> run() {
      co_return co_await transaction("count", [](sql::Transaction& tx) {
        return tx.query<int>("SELECT count(*) FROM placed").front();
      });
    }
  } shop{stage};

  const auto ref = stage.engine.add("placed", &Shop::run, &shop);

  stage.act([&] {
    stage.engine.transaction([&](sql::Transaction& tx) {
      tx.exec("CREATE TABLE IF NOT EXISTS placed (id TEXT PRIMARY KEY)");
      tx.exec("INSERT INTO placed VALUES ('one') ON CONFLICT DO NOTHING");
      stage.engine.start_in(tx, {.run_id = "one"}, ref);
    });
  });
  stage.until(1h);
}

constexpr std::array runs = std::to_array<Scenario>({
    {"children", children},
    {"spawned runs", spawned_runs},
    {"a start from inside a step", start_from_inside_a_step},
    {"a delayed start", delayed_start},
    {"a start with a key", start_with_a_key},
    {"a key taken over", key_taken_over},
    {"a start before a deadline", start_before_a_deadline},
    {"starts in two workspaces", starts_in_two_workspaces},
    {"a cancel at once", cancel_at_once},
    {"a cancel with grace", cancel_with_grace},
    {"a grace that is too short", grace_that_is_too_short},
    {"retry of a failed run", retry_of_a_failed_run},
    {"fork of a run", fork_of_a_run, true},
    {"wake", wake},
    {"transactional steps", transactional_steps},
    {"a start in a transaction", start_in_a_transaction},
});

}  // namespace

std::span<const Scenario> run_scenarios() { return runs; }

}  // namespace semel::crash
