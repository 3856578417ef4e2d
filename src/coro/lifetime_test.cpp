// What is constructed around a co_await is destroyed once, where it was constructed: for each shape of expression that
// workflow code relies on, run to its end and destroyed while suspended. g++ 12 and clang 16 fail some of these; the
// configure step refuses compilers by a smaller program of the same kind.
#include "tests/support/api.hpp"

#include <array>

namespace semel {

using namespace test;

namespace {

int constructed = 0;
int destroyed = 0;
int moved_bitwise = 0;

/// Counts itself, and notices when its bytes were copied to a place where no constructor ran.
class Counted {
 public:
  Counted() { ++constructed; }

  Counted(const Counted&) { ++constructed; }

  Counted& operator=(const Counted&) = default;

  ~Counted() {
    ++destroyed;
    if (self_ != this) ++moved_bitwise;
  }

  int number() const { return 1; }

 private:
  const Counted* self_ = this;
};

struct Wish {
  Counted counted{};
  StepOptions options{};
  int times = 1;
};

Op<int> step_of(const Wish& wish, Counted counted) {
  return step("wish", wish.options,
              [counted, times = wish.times] { return counted.number() * times; });
}

Op<int> numbered(int number, Counted counted = {}) {
  return step("numbered", [number, counted] { return number * counted.number(); });
}

Task<int> task_of(Counted counted) { co_return counted.number(); }

struct Three {
  Counted first;
  int awaited = 0;
  Counted last;
};

// ---------------------------------------------------------------- the shapes

Workflow<int> lambda_with_captures() {
  Counted value;
  co_return co_await step("step", [value] { return value.number(); });
}

Workflow<int> options_with_designators() {
  Counted value;
  co_return co_await step("step", {.retry = {.attempts = 2}, .timeout = 1h},
                          [value] { return value.number(); });
}

Workflow<int> aggregate_with_designators() {
  co_return co_await step_of(Wish{.options = {.retry = {.attempts = 1}}, .times = 3}, Counted{});
}

Workflow<int> named_operation() {
  auto op = numbered(2);
  Counted between;
  co_return co_await std::move(op);
}

Workflow<int> task_step() {
  Counted value;
  co_return co_await step("task", [value]() -> Task<int> {
    Counted inside;
    co_return co_await task_of(value) + co_await task_of(Counted{});
  });
}

Workflow<int> all_of_temporaries() {
  const auto [a, b] = co_await all(numbered(1), numbered(2, Counted{}));
  co_return a + b;
}

Workflow<int> all_of_a_vector() {
  std::vector<Op<int>> steps;
  for (int i = 0; i < 3; ++i) steps.push_back(numbered(i));
  const std::vector<int> numbers = co_await all(std::move(steps));
  co_return static_cast<int>(numbers.size());
}

Workflow<int> race_with_a_sleep() {
  const auto won = co_await race(numbered(5), sleep(1h));
  co_return won.index() == 0 ? std::get<0>(won) : 0;
}

Workflow<int> settled_and_thrown() {
  Counted before;
  const auto outcome = co_await settled(step(
      "fails", {.retry = {.attempts = 1}}, [before]() -> int { throw std::runtime_error("no"); }));
  try {
    Counted inside;
    co_await step("fails", {.retry = {.attempts = 1}},
                  [inside] { throw std::runtime_error("no"); });
  } catch (const StepFailedError&) {
    co_return outcome.ok() ? 0 : 1;
  }
  co_return 0;
}

Workflow<int> begun_and_awaited() {
  auto first = co_await begin(numbered(1));
  auto second = co_await begin(numbered(2));
  Counted between;
  co_return co_await std::move(second) + co_await std::move(first);
}

Workflow<int> begun_and_dropped() {
  static_cast<void>(co_await begin(numbered(1)));
  co_return co_await numbered(2);
}

Workflow<int> inner(Counted by_value, int number) {
  Counted local;
  co_return co_await numbered(number, by_value);
}

Workflow<int> awaited_workflow() { co_return co_await inner(Counted{}, 4); }

Workflow<int> workflows_as_branches() {
  Counted mine;
  const auto [a, b] = co_await all(inner(mine, 1), inner(Counted{}, 2));
  const auto won = co_await race(inner(mine, 3), sleep(1h));
  co_return a + b + std::get<0>(won);
}

Workflow<int> lost_branch() {
  Counted mine;
  const auto won = co_await race(sleep(0s), inner(mine, 3));
  co_return static_cast<int>(won.index());
}

Workflow<int> saga() {
  Saga undo;
  Counted value;
  undo.add("undo", [value] {});
  undo.add("undo", [value](int) {}, 7);
  co_await undo.compensate();
  co_return 1;
}

Workflow<int> conditional(bool left) {
  const int chosen = left ? co_await numbered(1) : co_await numbered(2, Counted{});
  co_return chosen;
}

Workflow<int> left_arm() { return conditional(true); }

Workflow<int> right_arm() { return conditional(false); }

Workflow<int> inside_an_aggregate() {
  const Three three{Counted{}, co_await numbered(1), Counted{}};
  co_return three.awaited;
}

Workflow<int> inside_an_array() {
  const std::array numbers{co_await numbered(1), co_await numbered(2, Counted{}), 3};
  co_return numbers[0];
}

Workflow<int> inside_a_call() {
  const auto sum = [](const Counted&, int a, const Counted&, int b) { return a + b; };
  co_return sum(Counted{}, co_await numbered(1), Counted{}, co_await numbered(2));
}

Workflow<int> inside_a_condition() {
  int count = 0;
  while (co_await numbered(count, Counted{}) < 3) ++count;
  if (co_await numbered(1) == 1 && co_await numbered(2) == 2) ++count;
  co_return count;
}

Workflow<int> inside_a_range_for() {
  int sum = 0;
  std::vector<Op<int>> steps;
  for (int i = 0; i < 3; ++i) steps.push_back(numbered(i));
  for (const int number : co_await all(std::move(steps))) sum += co_await numbered(number);
  co_return sum;
}

struct Shape {
  const char* name;
  Workflow<int> (*run)();
};

constexpr auto shapes = std::to_array<Shape>({
    {"a lambda that captures by value", lambda_with_captures},
    {"options with designated initialisers", options_with_designators},
    {"an aggregate with designated initialisers", aggregate_with_designators},
    {"an operation with a name", named_operation},
    {"a Task step", task_step},
    {"all of temporaries", all_of_temporaries},
    {"all of a vector", all_of_a_vector},
    {"a race with a sleep", race_with_a_sleep},
    {"failures, as a value and thrown", settled_and_thrown},
    {"operations begun and awaited", begun_and_awaited},
    {"an operation begun and dropped", begun_and_dropped},
    {"an awaited workflow", awaited_workflow},
    {"workflows as branches", workflows_as_branches},
    {"a branch that lost a race", lost_branch},
    {"a saga", saga},
    {"the left arm of a conditional", left_arm},
    {"the right arm of a conditional", right_arm},
    {"an aggregate initialiser", inside_an_aggregate},
    {"an array initialiser", inside_an_array},
    {"arguments of a call", inside_a_call},
    {"conditions", inside_a_condition},
    {"a range-based for", inside_a_range_for},
});

void check_counts(const char* when) {
  CAPTURE(when);
  CHECK(constructed > 0);
  CHECK(constructed == destroyed);
  CHECK(moved_bitwise == 0);
}

void reset_counts() { constructed = destroyed = moved_bitwise = 0; }

}  // namespace

TEST_CASE("every shape of co_await destroys what it constructs, once, when it is run to its end") {
  for (const Shape& shape : shapes) {
    CAPTURE(shape.name);
    reset_counts();
    {
      testing::Engine engine;
      engine.add("shape", shape.run);
      const Run run = engine.start(shape.run).run;
      engine.advance(2h);
      REQUIRE(run.status() == RunStatus::completed);
    }
    check_counts("at the end");
  }
}

TEST_CASE(
    "every shape of co_await destroys what it constructs when it is destroyed while suspended") {
  for (const Shape& shape : shapes) {
    CAPTURE(shape.name);
    reset_counts();
    {
      testing::Engine engine;
      engine.add("shape", shape.run);
      const Run run = engine.start(shape.run).run;
      REQUIRE(run.status() != RunStatus::completed);
    }
    check_counts("suspended");
  }
}

TEST_CASE(
    "every shape of co_await destroys what it constructs when it is cancelled, evicted or "
    "replayed") {
  for (const Shape& shape : shapes) {
    CAPTURE(shape.name);
    reset_counts();
    {
      testing::Engine engine{{.frame_bytes_max = 1}};
      engine.add("shape", shape.run);
      Run run = engine.start(shape.run).run;
      engine.crash();
      Run other = engine.start(shape.run).run;
      other.cancel({.grace = 1h});
      engine.advance(2h);
      REQUIRE(run.status() == RunStatus::completed);
      CHECK(other.status() == RunStatus::cancelled);
    }
    check_counts("in the end");
  }
}

TEST_CASE("a Task runs when it is awaited, not before, and frees itself when it is not") {
  reset_counts();

  struct Shop {
    bool ran = false;

    Task<int> work(Counted) {
      ran = true;
      co_return 1;
    }
  } shop;

  {
    const Task<int> unawaited = shop.work(Counted{});
    Task<int> moved = shop.work(Counted{});
    Task<int> target = std::move(moved);
    target = shop.work(Counted{});
  }

  CHECK_FALSE(shop.ran);
  check_counts("unawaited");
}

}  // namespace semel
