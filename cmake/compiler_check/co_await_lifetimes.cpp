// Counts what a compiler constructs and destroys around co_await, for each shape of expression that
// workflow code relies on. Prints a line for every shape that does not add up; exits with their number.
#include <coroutine>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <utility>

namespace {

int constructed = 0;
int destroyed = 0;
int moved_bitwise = 0;

/// Counts itself, and notices when its bytes were copied to a place where no constructor ran.
class Counted {
 public:
  Counted() { ++constructed; }

  Counted(const Counted&) { ++constructed; }

  Counted& operator=(const Counted&) { return *this; }

  ~Counted() {
    ++destroyed;
    if (self_ != this) ++moved_bitwise;
  }

 private:
  const Counted* self_ = this;
};

/// A coroutine that starts at once and, whatever becomes of it, ends with this object.
class Run {
 public:
  struct promise_type {
    Run get_return_object() {
      return Run{std::coroutine_handle<promise_type>::from_promise(*this)};
    }

    std::suspend_never initial_suspend() noexcept { return {}; }

    std::suspend_always final_suspend() noexcept { return {}; }

    void return_void() {}

    void unhandled_exception() { std::terminate(); }
  };

  explicit Run(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  ~Run() { handle_.destroy(); }

  void finish() {
    while (!handle_.done()) handle_.resume();
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

/// Suspends once, then gives its value: what awaiting a step comes down to.
template <class T>
struct Step {
  T value;

  bool await_ready() const noexcept { return false; }

  void await_suspend(std::coroutine_handle<>) const noexcept {}

  T await_resume() { return std::move(value); }
};

struct Options {
  Counted name;
  int attempts = 1;
};

struct Three {
  Counted first;
  int awaited = 0;
  Counted last;
};

template <class F>
Step<int> step(F function) {
  return Step<int>{function()};
}

template <class F>
Step<int> step(const Options& options, F function) {
  return Step<int>{options.attempts + function()};
}

Step<int> step_of_list(std::initializer_list<Counted> list) {
  return Step<int>{static_cast<int>(list.size())};
}

Run lambda_with_captures() {
  Counted value;
  co_await step([value] { return 1; });
}

Run aggregate_with_designators() {
  Counted value;
  co_await step(Options{.name = value, .attempts = 3}, [value] { return 1; });
}

Run aggregate_awaiter() { co_await Step<Counted>{Counted{}}; }

Run braced_list() { co_await step_of_list({Counted{}, Counted{}}); }

Run braced_list_of_awaited() {
  const int count = co_await step_of_list({co_await Step<Counted>{}, co_await Step<Counted>{}});
  (void)count;
}

Run ternary(bool left) {
  const Counted chosen = left ? co_await Step<Counted>{} : co_await Step<Counted>{};
  (void)chosen;
}

Run ternary_left() { return ternary(true); }

Run ternary_right() { return ternary(false); }

Run bindings() {
  const auto [value, number] =
      std::pair<Counted, int>{co_await Step<Counted>{}, co_await Step<int>{4}};
  (void)value;
  (void)number;
}

Run awaited_pair() {
  auto [first, second] = co_await Step<std::pair<Counted, Counted>>{};
  (void)first;
  (void)second;
}

Run inside_aggregate() {
  const Three three{Counted{}, co_await Step<int>{1}, Counted{}};
  (void)three;
}

Run inside_array() {
  const Counted array[] = {Counted{}, co_await Step<Counted>{}, Counted{}};
  (void)array;
}

struct Shape {
  const char* name;
  Run (*run)();
};

constexpr Shape shapes[] = {
    {"a lambda that captures by value", lambda_with_captures},
    {"an aggregate with designated initialisers", aggregate_with_designators},
    {"an aggregate that is awaited itself", aggregate_awaiter},
    {"a braced list", braced_list},
    {"a braced list of awaited values", braced_list_of_awaited},
    {"the left arm of a conditional", ternary_left},
    {"the right arm of a conditional", ternary_right},
    {"structured bindings of a pair of awaited values", bindings},
    {"structured bindings of an awaited pair", awaited_pair},
    {"an aggregate initialiser", inside_aggregate},
    {"an array initialiser", inside_array},
};

/// Whether every object of the shape is destroyed once, where it was constructed.
bool adds_up(const Shape& shape, bool finish) {
  constructed = destroyed = moved_bitwise = 0;
  {
    Run run = shape.run();
    if (finish) run.finish();
  }
  if (constructed > 0 && constructed == destroyed && moved_bitwise == 0) return true;
  std::printf("  %s, %s: %d constructed, %d destroyed, %d moved without a constructor\n",
              shape.name, finish ? "run to its end" : "destroyed while suspended", constructed,
              destroyed, moved_bitwise);
  return false;
}

}  // namespace

int main() {
  int wrong = 0;
  for (const Shape& shape : shapes) {
    for (const bool finish : {true, false}) wrong += adds_up(shape, finish) ? 0 : 1;
  }
  return wrong;
}
