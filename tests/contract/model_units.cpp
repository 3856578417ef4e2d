// Code of somebody else's inside a transaction, as the specification has it.
#include "store/outcome.hpp"
#include "tests/contract/model_commands.hpp"

#include <algorithm>

namespace semel::store {

/// Has no SQL: that is what SQLite's own tests are about.
class ModelStore::Unit final : public UnitOfWork {
 public:
  Unit(ModelStore& store, TimePoint now) : store_(store), now_(now) {}

  void run(std::string_view, std::span<const sql::Value>,
           const std::function<void(const sql::Row&)>&) override {
    throw sql::SqlError("SQL_ERROR", "the model has no SQL");
  }

  void run_own(std::string_view sql, std::span<const sql::Value> parameters,
               const std::function<void(const sql::Row&)>& each) override {
    run(sql, parameters, each);
  }

  Answer execute(const Command& command) override {
    Answer answer = store_.answer_one(command);
    if (const auto* started = std::get_if<RunStarted>(&answer)) {
      add(started->effects);
      const StartRun& start = std::get<StartRun>(command);
      if (!start.first_entry.empty()) {
        effects.opened.push_back(start.run.key);
      } else if (!start.run.start_at) {
        effects.created.push_back(start.run.key);
      }
    } else if (const auto* delivered = std::get_if<Delivered>(&answer)) {
      add(delivered->effects);
    } else if (const auto* cancelled = std::get_if<Cancelled>(&answer)) {
      add(cancelled->effects);
      if (is_end(cancelled->run.status)) effects.ended.push_back(cancelled->run.key);
    } else if (const auto* advanced = std::get_if<Advanced>(&answer)) {
      add(advanced->effects);
      if (const auto* reopen = std::get_if<ReopenRun>(&command)) {
        effects.opened.push_back(reopen->run);
      } else if (const auto* advance = std::get_if<AdvanceRun>(&command);
                 advance != nullptr &&
                 std::ranges::find(effects.opened, advance->run) == effects.opened.end()) {
        effects.moved.push_back(advance->run);
      }
    }
    return answer;
  }

  RunKey new_run_key() override { return store_.reserve(1); }

  TimePoint now() const override { return now_; }

  Effects effects;

 private:
  void add(const Effects& more) {
    std::ranges::copy(more.wake, std::back_inserter(effects.wake));
    std::ranges::copy(more.created, std::back_inserter(effects.created));
    std::ranges::copy(more.ended, std::back_inserter(effects.ended));
  }

  ModelStore& store_;
  TimePoint now_;
};

Answer ModelStore::answer(const Transact& command) {
  const auto is_next = [&] {
    if (!command.step) return true;
    const auto found = model_.runs.find(command.step->run);
    return found != model_.runs.end() && can_advance(found->second) &&
           found->second.entries.size() == command.step->seq;
  };
  if (!is_next()) return Stale{};
  const Model before = model_;
  Transacted done;
  Unit unit(*this, command.now);
  try {
    done.value = command.work->run(unit);
    if (!is_next()) std::rethrow_exception(moved_its_own_run());
  } catch (...) {
    model_ = before;
    done.error = std::current_exception();
    return done;
  }
  if (command.step) {
    const Transact::Step& step = *command.step;
    done.entry = step_outcome(step.op, step.name, step.attempt, done.value);
    append(step.run, done.entry, command.now);
  }
  done.effects = std::move(unit.effects);
  settle(done.effects);
  return done;
}

}  // namespace semel::store
