// The workflows that are killed: between them they use every operation, and every step body is written down in the
// ledger before and after. Each returns a number that follows from its input, so a wrong result shows.
#pragma once

#include "tests/process/process.hpp"

#include <semel/semel.hpp>

#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string_view>

namespace semel::process {

using Number = std::int64_t;

/// Where several share a store.
constexpr std::chrono::seconds kill_test_lease{1};

class KillWorkflows {
 public:
  explicit KillWorkflows(Ledger& ledger) : ledger_(ledger) {}

  Workflow<Number> one(Number n) { co_return co_await step("one", body(n)); }

  Workflow<Number> ten(Number n) {
    Number sum = 0;
    for (Number i = 0; i < 5; ++i) {
      sum += co_await step("blocking", body(n + i));
      sum += co_await step("task", task(n + i));
    }
    co_return sum;
  }

  Workflow<Number> sleeps(Number n) {
    const TimePoint begun = co_await now();
    const Number first = co_await step("before", body(n));
    co_await sleep(std::chrono::milliseconds{3});
    const std::string id = co_await uuid();
    const std::uint64_t chance = co_await random();
    co_await sleep_until(begun + std::chrono::milliseconds{20});
    const Number second = co_await step("after", task(first));
    const bool well = co_await now() >= begun + std::chrono::milliseconds{20} && id.size() == 36;
    co_return well ? second + static_cast<Number>(chance % 1) : -1;
  }

  /// Fails twice, at least where no attempt is lost.
  Workflow<Number> retries(Number n) {
    const Retry quickly{.attempts = 5, .initial = std::chrono::milliseconds{2}};
    const Number first =
        co_await step("flaky", {.retry = quickly}, [this, n](const StepContext& context) {
          const Effect effect(ledger_, context);
          if (context.attempt <= 2) throw std::runtime_error("not yet");
          return n;
        });
    const auto refused = co_await settled(step("refused", [this](const StepContext& context) {
      const Effect effect(ledger_, context);
      throw FatalError("never");
    }));
    co_return refused.ok() ? -1 : first;
  }

  Workflow<Number> family(Number n) {
    const Number inlined = co_await one(n);
    auto [mine, theirs] =
        co_await all(child(StartOptions{.key = "child-" + std::to_string(n)}, one_, n + 1),
                     child(StartOptions{}, sleeps_, n + 2));
    const std::string spawned = co_await spawn(StartOptions{}, one_, n + 3);
    co_return inlined + mine + theirs + co_await result_of<Number>(spawned);
  }

  Workflow<Number> crowd(Number n) {
    auto under_way = co_await begin(step("begun", body(n)));
    auto [a, b, c] = co_await all(step("a", body(n + 1)), step("b", task(n + 2)), one(n + 3));
    std::vector<Op<Number>> several;
    for (Number i = 0; i < 4; ++i) several.push_back(step("several", body(i)));
    Number sum = a + b + c;
    for (const Number value : co_await all(std::move(several))) sum += value;
    const auto won = co_await race(step("quick", body(n)), sleep(std::chrono::hours{1}));
    const auto lost =
        co_await race(step("slow", slow_body(n)), sleep(std::chrono::milliseconds{2}));
    sum += won.index() == 0 ? std::get<0>(won) : -1000;
    sum += lost.index() == 0 ? std::get<0>(lost) : n;
    co_return sum + co_await std::move(under_way);
  }

  /// `n` if it happened, `-n` if nobody knows.
  Workflow<Number> once(Number n) {
    const auto outcome = co_await settled(
        step("once", {.retry = {.attempts = 1}, .mode = StepMode::at_most_once}, body(n)));
    co_return co_await step("behind", body(outcome.ok() ? outcome.value() : -n));
  }

  Workflow<Number> undoes(Number n) {
    Saga saga;
    const Number first = co_await step("book", body(n));
    saga.add("unbook", body(n));
    const auto second = co_await settled(step("fails", [this](const StepContext& context) {
      const Effect effect(ledger_, context);
      throw FatalError("full");
    }));
    if (!second.ok()) co_await saga.compensate();
    co_return first;
  }

  /// Three rows of the program's own, none of them twice.
  Workflow<Number> books(Number n) {
    const std::string id = co_await uuid();
    const auto book = [id](sql::Transaction& tx) {
      tx.exec("INSERT INTO booking VALUES (?1)", id);
      return tx.query<Number>("SELECT count(*) FROM booking WHERE id = ?1", id).front();
    };
    co_await transaction("first", book);
    const Number between = co_await step("between", body(n));
    co_await transaction("second", book);
    const Number rows = co_await transaction("third", book);
    co_return rows == 3 ? between : -1;
  }

  void register_with(Engine& engine) {
    engine.transaction([](sql::Transaction& tx) {
      tx.exec(
          "CREATE TABLE IF NOT EXISTS booking (id TEXT); CREATE INDEX IF NOT EXISTS"
          " booking_id ON booking (id); CREATE TABLE IF NOT EXISTS placed (key TEXT)");
    });
    books_ = engine.add("books", &KillWorkflows::books, this);
    one_ = engine.add("one", &KillWorkflows::one, this);
    sleeps_ = engine.add("sleeps", &KillWorkflows::sleeps, this);
    engine.add("ten", &KillWorkflows::ten, this);
    engine.add("retries", &KillWorkflows::retries, this);
    engine.add("family", &KillWorkflows::family, this);
    engine.add("crowd", &KillWorkflows::crowd, this);
    engine.add("once", &KillWorkflows::once, this);
    engine.add("undoes", &KillWorkflows::undoes, this);
  }

  /// Starts a run of `books` and writes down that it was placed, or neither.
  Run place(Engine& engine, const std::string& key, Number n) {
    return engine
        .transaction([&](sql::Transaction& tx) {
          Started started = engine.start_in(tx, {.key = key}, books_, n);
          if (started.created) tx.exec("INSERT INTO placed VALUES (?1)", key);
          return started;
        })
        .run;
  }

  static constexpr std::array<std::string_view, 9> names{
      "one", "ten", "sleeps", "retries", "family", "crowd", "once", "undoes", "books"};

  static bool is_right(std::string_view name, Number n, Number result) {
    if (name == "ten") return result == 2 * (5 * n + 10);
    if (name == "family") return result == 4 * n + 6;
    if (name == "crowd") return result == (3 * n + 6) + 6 + n + n + n;
    if (name == "once") return result == n || result == -n;
    return result == n;
  }

 private:
  /// A step body at work.
  class Effect {
   public:
    Effect(Ledger& ledger, const StepContext& context)
        : ledger_(ledger), tail_(" " + context.id + " " + std::to_string(context.attempt)) {
      ledger_.append("begin" + tail_);
    }

    Effect(const Effect&) = delete;
    Effect& operator=(const Effect&) = delete;

    ~Effect() { ledger_.append("end" + tail_); }

   private:
    Ledger& ledger_;
    std::string tail_;
  };

  std::function<Number(const StepContext&)> body(Number n) {
    return [this, n](const StepContext& context) {
      const Effect effect(ledger_, context);
      return n;
    };
  }

  std::function<Task<Number>(const StepContext&)> task(Number n) {
    return [this, n](const StepContext& context) -> Task<Number> {
      const Effect effect(ledger_, context);
      co_return n;
    };
  }

  /// Takes 30 ms unless asked to stop.
  std::function<Number(const StepContext&)> slow_body(Number n) {
    return [this, n](const StepContext& context) {
      const Effect effect(ledger_, context);
      std::mutex mutex;
      std::condition_variable_any never;
      std::unique_lock lock(mutex);
      never.wait_for(lock, context.stop, std::chrono::milliseconds{30}, [] { return false; });
      return n;
    };
  }

  Ledger& ledger_;
  WorkflowRef<Workflow<Number> (KillWorkflows::*)(Number)> one_;
  WorkflowRef<Workflow<Number> (KillWorkflows::*)(Number)> sleeps_;
  WorkflowRef<Workflow<Number> (KillWorkflows::*)(Number)> books_;
};

}  // namespace semel::process
