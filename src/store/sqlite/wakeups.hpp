// Rows of semel_timer, semel_inbox, semel_waiter and semel_progress.
#pragma once

#include "store/sqlite/database.hpp"
#include "store/tables.hpp"

#include <string>
#include <utility>
#include <vector>

namespace semel::store::sqlite {

class Wakeups final : public store::Wakeups {
 public:
  Wakeups(Database& database, OpenRuns& open_runs) : database_(database), open_runs_(open_runs) {}

  void set_timer(RunKey run, TimerKind kind, const std::string& op, TimePoint due) override {
    open_runs_.involve(run);
    set_timer_.run(due, run, kind, op);
  }

  void clear_timer(RunKey run, TimerKind kind, const std::string& op) override {
    clear_timer_.run(run, kind, op);
  }

  std::optional<TimePoint> due(RunKey run, TimerKind kind, const std::string& op) override;

  TimersDue timers_due(TimePoint now, std::int64_t limit);

  void put(RunKey run, const InboxItem& item) override;

  void consume(RunKey run, std::int64_t item) override { consume_.run(run, item); }

  std::vector<InboxItem> inbox(RunKey run) override;

  void wait_for(RunKey target, RunKey run, const std::string& op) override {
    open_runs_.involve(target);
    open_runs_.involve(run);
    wait_.run(target, run, op);
  }

  void stop_waiting(RunKey run, const std::string& op) override { stop_waiting_.run(run, op); }

  std::vector<Waiter> take_waiters(RunKey target) override;

  void save_progress(RunKey run, const std::string& op, const std::string& value) override {
    open_runs_.involve(run);
    save_progress_.run(run, op, value);
  }

  std::vector<std::pair<std::string, std::string>> progress(RunKey run) override;

  /// Runs after `after` with status running or something in the inbox, payloads included.
  std::vector<RunKey> work(RunKey after, std::int64_t limit);

  void clear_generation(RunKey run) override;

  void clear(RunKey run) override;

 private:
  Database& database_;
  OpenRuns& open_runs_;

  // REPLACE: (run, kind, op) is unique, so an earlier due time of the same timer goes.
  Statement set_timer_{
      database_, "INSERT OR REPLACE INTO semel_timer (due, run, kind, op) VALUES (?1, ?2, ?3, ?4)"};
  Statement clear_timer_{database_,
                         "DELETE FROM semel_timer WHERE run = ?1 AND kind = ?2 AND op = ?3"};
  Statement due_{database_, "SELECT due FROM semel_timer WHERE run = ?1 AND kind = ?2 AND op = ?3"};
  Statement timers_due_{
      database_,
      "SELECT t.due, t.run, t.kind, t.op FROM semel_timer t CROSS JOIN semel_run r"
      " WHERE r.run = t.run AND r.status < 3 ORDER BY t.due, t.run, t.kind, t.op LIMIT ?1"};
  Statement put_{database_,
                 "INSERT INTO semel_inbox (run, kind, op, value, failure, at) VALUES (?1, ?2, ?3, "
                 "?4, ?5, ?6)"};
  Statement consume_{database_, "DELETE FROM semel_inbox WHERE run = ?1 AND item = ?2"};
  Statement inbox_{
      database_,
      "SELECT item, kind, op, value, failure, at FROM semel_inbox WHERE run = ?1 ORDER BY item"};
  Statement wait_{database_,
                  "INSERT OR REPLACE INTO semel_waiter (target, run, op) VALUES (?1, ?2, ?3)"};
  Statement stop_waiting_{database_, "DELETE FROM semel_waiter WHERE run = ?1 AND op = ?2"};
  Statement waiters_{database_,
                     "SELECT run, op FROM semel_waiter WHERE target = ?1 ORDER BY run, op"};
  Statement remove_waiters_{database_, "DELETE FROM semel_waiter WHERE target = ?1"};
  // A report of an attempt whose run is over leaves nothing behind.
  Statement save_progress_{
      database_,
      "INSERT OR REPLACE INTO semel_progress (run, op, value) SELECT ?1, ?2, ?3"
      " WHERE EXISTS (SELECT 1 FROM semel_run WHERE run = ?1 AND status NOT IN (3, 4, 5))"};
  Statement progress_{database_, "SELECT op, value FROM semel_progress WHERE run = ?1 ORDER BY op"};
  Statement work_{database_,
                  "SELECT run FROM semel_run WHERE status = 1 AND status < 3 AND run > ?1"
                  " UNION SELECT i.run FROM semel_inbox i CROSS JOIN semel_run r"
                  " WHERE i.run > ?1 AND r.run = i.run AND r.status < 3"
                  " UNION SELECT p.run FROM semel_payload p CROSS JOIN semel_run r"
                  " WHERE p.run > ?1 AND r.run = p.run AND r.status < 3"
                  " ORDER BY 1 LIMIT ?2"};
  Statement has_any_{database_,
                     "SELECT 1 WHERE EXISTS (SELECT 1 FROM semel_timer WHERE run = ?1)"
                     " OR EXISTS (SELECT 1 FROM semel_inbox WHERE run = ?1)"
                     " OR EXISTS (SELECT 1 FROM semel_waiter WHERE run = ?1)"
                     " OR EXISTS (SELECT 1 FROM semel_progress WHERE run = ?1)"};
  Statement clear_timers_{database_, "DELETE FROM semel_timer WHERE run = ?1"};
  Statement clear_generation_timers_{database_,
                                     "DELETE FROM semel_timer WHERE run = ?1 AND kind IN (0, 1)"};
  Statement clear_results_{database_, "DELETE FROM semel_inbox WHERE run = ?1 AND kind = 0"};
  Statement clear_inbox_{database_, "DELETE FROM semel_inbox WHERE run = ?1"};
  Statement clear_waits_{database_, "DELETE FROM semel_waiter WHERE run = ?1"};
  Statement clear_progress_{database_, "DELETE FROM semel_progress WHERE run = ?1"};
};

}  // namespace semel::store::sqlite
