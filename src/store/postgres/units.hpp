// What code of somebody else's stands on inside a batch.
#pragma once

#include "store/postgres/held.hpp"
#include "store/postgres/user_sql.hpp"
#include "store/transacting.hpp"

#include <functional>
#include <memory>
#include <utility>

namespace semel::store::postgres {

/// Thrown where code that was to make commands only wants SQL; its command is done over by `SqlUnits`.
struct NeedsSql : Internal {};

/// On rows in memory, together with the other commands of its batch: what it did is undone by forgetting it. Where it needs
/// rows that were not read it is run again.
class HeldUnits final : public UnitHost {
 public:
  HeldUnits(Held& held, std::function<Answer(const Command&)> execute)
      : held_(held), execute_(std::move(execute)) {}

  Tables& tables() override { return held_.tables; }

  void begin() override { mark_ = held_.mark(); }

  /// The code may have caught what told it that something was missing.
  void keep() override {
    if (broken_) std::rethrow_exception(broken_);
  }

  void undo(bool) override {
    keep();
    held_.undo_to(mark_);
  }

  void run(std::string_view, std::span<const sql::Value>,
           const std::function<void(const sql::Row&)>&) override {
    give_up([] { throw NeedsSql{}; });
  }

  void run_own(std::string_view sql, std::span<const sql::Value> parameters,
               const std::function<void(const sql::Row&)>& each) override {
    run(sql, parameters, each);
  }

  Answer execute(const Command& command) override {
    Answer answer;
    give_up([&] { answer = execute_(command); });
    return answer;
  }

  RunKey new_run_key() override { return held_.draw(Number::run); }

 private:
  template <class Action>
  void give_up(const Action& action) {
    keep();
    try {
      action();
    } catch (const Internal&) {
      broken_ = std::current_exception();
      throw;
    }
  }

  Held& held_;
  std::function<Answer(const Command&)> execute_;
  Held::Mark mark_;
  std::exception_ptr broken_;
};

/// On the connection: each command is written as soon as it is decided, so statements and commands see each other's work,
/// and the code is run once unless the whole batch has to be done over.
class SqlUnits final : public UnitHost {
 public:
  struct Ways {
    std::function<Answer(const Command&)> execute;  ///< decides a command and writes it
    std::function<std::unique_ptr<Held>()> load;    ///< what the unit's own step needs
    std::function<RunKey()> new_run_key;
  };

  SqlUnits(UserSql& sql, Ways ways) : sql_(sql), ways_(std::move(ways)) {}

  Tables& tables() override {
    if (!held_) held_ = ways_.load();
    return held_->tables;
  }

  void begin() override { sql_.begin(); }

  void keep() override { sql_.keep(); }

  void undo(bool) override {
    sql_.undo();
    held_.reset();
  }

  void run(std::string_view sql, std::span<const sql::Value> parameters,
           const std::function<void(const sql::Row&)>& each) override {
    sql_.run(sql, parameters, each);
  }

  void run_own(std::string_view sql, std::span<const sql::Value> parameters,
               const std::function<void(const sql::Row&)>& each) override {
    sql_.run_own(sql, parameters, each);
  }

  Answer execute(const Command& command) override {
    Answer answer;
    on_connection([&] { answer = ways_.execute(command); });
    return answer;
  }

  RunKey new_run_key() override {
    RunKey key = 0;
    on_connection([&] { key = ways_.new_run_key(); });
    return key;
  }

  /// What is still to be written behind the unit: the entry of its step.
  const Held* held() const { return held_.get(); }

 private:
  template <class Action>
  void on_connection(const Action& action) {
    sql_.check();
    held_.reset();
    try {
      action();
    } catch (const Internal&) {
      sql_.break_off(std::current_exception());
      throw;
    }
  }

  UserSql& sql_;
  Ways ways_;
  std::unique_ptr<Held> held_;
};

}  // namespace semel::store::postgres
