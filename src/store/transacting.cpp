#include "store/transacting.hpp"

#include "base/assert.hpp"
#include "store/ending.hpp"
#include "store/outcome.hpp"

#include <algorithm>

namespace semel::store {

namespace {

void add(Effects& effects, const Effects& more) {
  effects.wake.insert(effects.wake.end(), more.wake.begin(), more.wake.end());
  effects.created.insert(effects.created.end(), more.created.begin(), more.created.end());
  effects.ended.insert(effects.ended.end(), more.ended.begin(), more.ended.end());
}

class Unit final : public UnitOfWork {
 public:
  Unit(UnitHost& host, TimePoint now) : host_(host), now_(now) {}

  void run(std::string_view sql, std::span<const sql::Value> parameters,
           const std::function<void(const sql::Row&)>& each) override {
    host_.run(sql, parameters, each);
  }

  Answer execute(const Command& command) override {
    has_commands = true;
    Answer answer = host_.execute(command);
    if (const auto* started = std::get_if<RunStarted>(&answer)) {
      add(effects, started->effects);
      const auto& [run, first_entry, changes] = std::get<StartRun>(command);
      if (!first_entry.empty()) {
        effects.opened.push_back(run.key);
      } else if (!run.start_at) {
        effects.created.push_back(run.key);
      }
    } else if (const auto* delivered = std::get_if<Delivered>(&answer)) {
      add(effects, delivered->effects);
    } else if (const auto* cancelled = std::get_if<Cancelled>(&answer)) {
      add(effects, cancelled->effects);
      if (is_end(cancelled->run.status)) effects.ended.push_back(cancelled->run.key);
    } else if (const auto* advanced = std::get_if<Advanced>(&answer)) {
      add(effects, advanced->effects);
      note_entry(command);
    }
    return answer;
  }

  void run_own(std::string_view sql, std::span<const sql::Value> parameters,
               const std::function<void(const sql::Row&)>& each) override {
    host_.run_own(sql, parameters, each);
  }

  RunKey new_run_key() override {
    has_commands = true;
    return host_.new_run_key();
  }

  TimePoint now() const override { return now_; }

  Effects effects;
  bool has_commands = false;

 private:
  void note_entry(const Command& command) {
    if (const auto* reopen = std::get_if<ReopenRun>(&command))
      effects.opened.push_back(reopen->run);
    const auto* advance = std::get_if<AdvanceRun>(&command);
    if (advance == nullptr) return;
    const bool is_new = std::ranges::find(effects.opened, advance->run) != effects.opened.end();
    if (!is_new) effects.moved.push_back(advance->run);
  }

  UnitHost& host_;
  TimePoint now_;
};

bool is_next(Tables& tables, const Transact::Step& step) {
  if (const auto known = tables.open_runs.next(step.run)) return *known == step.seq;
  const auto status = tables.runs.status(step.run);
  return status && *status <= Status::waiting && tables.journal.next(step.run) == step.seq;
}

}  // namespace

Answer transact(UnitHost& host, const Transact& command) {
  if (command.step && !is_next(host.tables(), *command.step)) {
    ++host.tables().counters.stale;
    return Stale{};
  }
  Transacted answer;
  Unit unit(host, command.now);
  host.begin();
  try {
    answer.value = command.work->run(unit);
    if (command.step && !is_next(host.tables(), *command.step))
      std::rethrow_exception(moved_its_own_run());
    host.keep();
  } catch (const Internal&) {
    throw;
  } catch (...) {
    answer.error = std::current_exception();
    host.undo(unit.has_commands);
    ++host.tables().counters.units_undone;
    return answer;
  }
  if (command.step) {
    const Transact::Step& step = *command.step;
    answer.entry = step_outcome(step.op, step.name, step.attempt, answer.value);
    host.tables().journal.append(step.run, step.seq, command.now, answer.entry);
  }
  answer.effects = std::move(unit.effects);
  settle(answer.effects);
  return answer;
}

}  // namespace semel::store
