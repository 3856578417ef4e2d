#include "tests/crash/scenarios.hpp"

#include <array>
#include <set>

namespace semel::crash {

using namespace std::chrono_literals;

namespace {

/// One run of `workflow`, up to an hour.
template <class F, class Shop>
void run_one(Stage& stage, F workflow, Shop& shop) {
  const auto ref = stage.engine.add("one", workflow, &shop);
  stage.act([&] { stage.engine.start({.run_id = "one"}, ref); });
  stage.until(1h);
}

// ------------------------------------------------------------------------------------------------ steps

void blocking_and_task_steps(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<int> run() {
      const int a = co_await step("blocking", stage.body(1));
      const int b = co_await step("task", stage.task(a + 1));
      const auto add = [this](const StepContext& context, int x, int y) {
        stage.begun(context);
        return x + y;
      };
      co_return co_await step("bound", add, a, b);
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
}

void step_that_is_retried(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<int> run() {
      const StepOptions options{.retry = {.attempts = 5, .initial = 10s, .jitter = false}};
      const auto flaky = [this](const StepContext& context) {
        stage.begun(context);
        if (context.attempt == 1) throw std::runtime_error("not yet");
        if (context.attempt == 2) throw RetryableError("nor yet", 30s);
        return 7;
      };
      const int first = co_await step("flaky", options, flaky);
      co_return first + co_await step("behind", stage.body(1));
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
}

void step_that_fails_for_good(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<std::string> run() {
      const auto refused = co_await settled(step("refused", [this](const StepContext& context) {
        stage.begun(context);
        throw FatalError("never", {{"because", 1}});
      }));
      co_await step("undo", stage.body(2));
      const StepOptions twice{.retry = {.attempts = 2, .initial = 10s, .jitter = false}};
      const auto hopeless = [this](const StepContext& context) {
        stage.begun(context);
        throw std::runtime_error("no hope");
      };
      co_await step("hopeless", twice, hopeless);
      co_return refused.message();
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
}

void step_that_times_out(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<int> run() {
      const StepOptions options{.retry = {.attempts = 3, .initial = 1s, .jitter = false},
                                .timeout = 5s};
      const auto slow = [this](const StepContext& context) {
        stage.begun(context);
        // The time-out is written while the body is under way, and what it returns is dropped.
        if (context.attempt == 1) stage.engine.advance_to(stage.engine.now() + 20s);
        return 3;
      };
      co_return co_await step("slow", options, slow);
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
}

void step_that_happens_at_most_once(Stage& stage) {
  struct Shop {
    Stage& stage;
    int bodies = 0;

    Workflow<int> run() {
      const StepOptions options{.retry = {.attempts = 1}, .mode = StepMode::at_most_once};
      const auto pay = [this](const StepContext& context) {
        stage.begun(context);
        ++bodies;
        return 5;
      };
      co_await settled(step("pay", options, pay));
      co_return co_await step("behind", stage.body(9));
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
  if (shop.bodies > 1) stage.complain("an at_most_once body began twice");
}

void step_with_a_heartbeat(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<int> run() {
      const StepOptions options{.retry = {.attempts = 5, .initial = 1s, .jitter = false},
                                .timeout = 10s};
      const auto beating = [this](const StepContext& context) {
        stage.begun(context);
        for (int i = 0; i < 2; ++i) {
          context.heartbeat({{"done", i}});
          stage.engine.advance_to(stage.engine.now() + 6s);
        }
        if (context.attempt == 1) throw std::runtime_error("half way");
        return 4;
      };
      co_return co_await step("beating", options, beating);
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
}

// ------------------------------------------------------------------------------------------------ many at once

void all_of_a_tuple(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<int> pair(int n) {
      const int first = co_await step("first", stage.body(n));
      co_await sleep(10s);
      co_return first + co_await step("second", stage.task(n));
    }

    Workflow<int> run() {
      const auto [a, b, c, d] = co_await all(step("left", stage.body(1)), pair(10), sleep(5s),
                                             step("right", stage.task(100)));
      co_return a + b + d;
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
}

void all_of_a_vector(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<int> run() {
      std::vector<Op<int>> steps;
      for (int i = 0; i < 4; ++i) steps.push_back(step("one of four", stage.body(i)));
      int sum = 0;
      for (const int each : co_await all(std::move(steps))) sum += each;
      co_return sum;
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
}

void all_that_fails(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<int> slow() {
      co_await sleep(10s);
      co_return co_await step("slow", stage.body(2));
    }

    Workflow<std::string> run() {
      const auto fails = [this](const StepContext& context) -> int {
        stage.begun(context);
        throw FatalError("no");
      };
      const auto both = co_await settled(all(step("fails", fails), slow()));
      co_await sleep(1min);
      co_return both.message();
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
}

void all_settled_of_both_sorts(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<int> run() {
      const auto fails = [this](const StepContext& context) -> int {
        stage.begun(context);
        throw FatalError("no");
      };
      const auto [a, b] = co_await all_settled(step("fails", fails), step("works", stage.body(1)));
      std::vector<Op<int>> more;
      more.push_back(step("works", stage.task(2)));
      more.push_back(step("fails", fails));
      const auto outcomes = co_await all_settled(std::move(more));
      co_return (a.ok() ? 100 : 0) + b.value() + outcomes[0].value() + (outcomes[1].ok() ? 100 : 0);
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
}

void races(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<int> run() {
      const auto limited = co_await race(step("quick", stage.body(1)), sleep(10min));
      std::vector<Op<void>> naps;
      naps.push_back(sleep(30s));
      naps.push_back(sleep(10s));
      const auto first = co_await race(std::move(naps));
      const int last = co_await step("behind", stage.body(5));
      co_return static_cast<int>(limited.index() * 100 + first.index * 10) + last;
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
}

void race_of_workflows(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<int> after(Millis time, int n) {
      const int value = co_await step("before", stage.body(n));
      co_await sleep(time);
      co_return value + co_await step("after", stage.body(1));
    }

    Workflow<int> run() {
      const auto winner = co_await race(after(1min, 10), after(10s, 20));
      co_await sleep(5min);
      co_return std::get<1>(winner);
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
}

void work_begun_and_awaited_later(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<int> aside(int n) {
      co_await sleep(10s);
      co_return co_await step("aside", stage.body(n));
    }

    Workflow<int> run() {
      auto early = co_await begin(step("early", stage.body(1)));
      auto branch = co_await begin(aside(10));
      const int middle = co_await step("middle", stage.task(100));
      co_await sleep(5s);
      co_return middle + co_await std::move(early) + co_await std::move(branch);
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
}

void saga_that_undoes(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<std::string> run() {
      const auto undo = [this](const StepContext& context, int) { stage.begun(context); };
      Saga saga;
      for (int i = 0; i < 3; ++i) {
        co_await step("do", stage.body(i));
        saga.add("undo", undo, i);
      }
      const auto last = co_await settled(step("fails", [this](const StepContext& context) {
        stage.begun(context);
        throw FatalError("no");
      }));
      if (!last.ok()) co_await saga.compensate();
      co_return last.message();
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
}

// ------------------------------------------------------------------------------------------------ time and chance

void sleeps(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<bool> run() {
      const TimePoint begun = co_await now();
      co_await sleep(10s);
      co_await step("between", stage.body(1));
      co_await sleep_until(begun + 1min);
      co_await sleep(-1s);
      co_return co_await now() >= begun + 1min;
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
}

void chance_and_versions(Stage& stage) {
  struct Shop {
    Stage& stage;
    std::set<std::string> used{};

    Workflow<int> run() {
      const std::string id = co_await uuid();
      const std::uint64_t number = co_await random();
      const int way = co_await version("way", 1, 2);
      co_await sleep(10s);
      const auto use = [this, id, number](const StepContext& context) {
        stage.begun(context);
        used.insert(id + std::to_string(number));
        return 1;
      };
      const int first = co_await step("use", use);
      co_await sleep(10s);
      co_return first + co_await step("use again", use) + way;
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
  if (shop.used.size() != 1) stage.complain("bodies were given different numbers");
}

void attributes_and_streams(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<> run() {
      co_await set_attribute("stage", "packing");
      co_await emit("progress", 1);
      co_await step("pack", stage.body(1));
      co_await emit("progress", 2);
      co_await set_attribute("stage", "shipping");
      co_await sleep(10s);
      co_await emit("progress", 3);
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
  const auto stream = stage.engine.run("one").stream<int>("progress");
  if (stream != std::vector{1, 2, 3}) stage.complain("the stream is not 1, 2, 3");
}

void sub_workflows(Stage& stage) {
  struct Shop {
    Stage& stage;

    Workflow<int> leaf(int n) {
      co_await sleep(5s);
      if (n == 3) throw FatalError("not three");
      co_return co_await step("leaf", stage.body(n));
    }

    Workflow<int> twice(int n) { co_return co_await leaf(n) + co_await leaf(n + 1); }

    Workflow<int> run() {
      const int first = co_await twice(1) + co_await leaf(7);
      const auto failed = co_await settled(leaf(3));
      const auto [a, b] = co_await all(twice(10), leaf(20));
      const auto winner = co_await race(leaf(30), sleep(1min));
      co_return first + a + b + std::get<0>(winner) + (failed.ok() ? 1000 : 0);
    }
  } shop{stage};

  run_one(stage, &Shop::run, shop);
}

constexpr std::array operations = std::to_array<Scenario>({
    {"blocking and task steps", blocking_and_task_steps},
    {"a step that is retried", step_that_is_retried},
    {"a step that fails for good", step_that_fails_for_good},
    {"a step that times out", step_that_times_out},
    {"a step that happens at most once", step_that_happens_at_most_once},
    {"a step with a heartbeat", step_with_a_heartbeat},
    {"all of a tuple", all_of_a_tuple},
    {"all of a vector", all_of_a_vector},
    {"all that fails", all_that_fails},
    {"all_settled of both sorts", all_settled_of_both_sorts},
    {"races", races},
    {"a race of workflows", race_of_workflows},
    {"work begun and awaited later", work_begun_and_awaited_later},
    {"a saga that undoes", saga_that_undoes},
    {"sleeps", sleeps},
    {"chance and versions", chance_and_versions},
    {"attributes and streams", attributes_and_streams},
    {"sub-workflows", sub_workflows},
});

}  // namespace

std::span<const Scenario> operation_scenarios() { return operations; }

}  // namespace semel::crash
