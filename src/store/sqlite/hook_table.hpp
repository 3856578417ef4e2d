// Rows of semel_hook and semel_payload, and the resume ids that were used. Who has a token is decided by a unique index.
#pragma once

#include "store/sqlite/database.hpp"
#include "store/sqlite/open_runs.hpp"
#include "store/store.hpp"

#include <optional>
#include <string>
#include <vector>

namespace semel::store::sqlite {

using HookKey = std::int64_t;

struct HookRow {
  HookKey key = 0;
  std::int64_t workspace = 0;
  RunKey run = 0;
  std::string token;
  std::string op;
  std::string shape;
  bool webhook = false;
  bool fed = false;  ///< its run was started with payloads waiting and has read none
};

class HookTable {
 public:
  HookTable(Database& database, OpenRuns& open_runs) : database_(database), open_runs_(open_runs) {}

  /// The hook's number, or none: somebody has the token.
  std::optional<HookKey> insert(std::int64_t workspace, RunKey run, const HookClaim& claim,
                                TimePoint now);
  std::optional<HookRow> active(std::int64_t workspace, const std::string& token);
  std::optional<HookRow> active_of(RunKey run, const std::string& op);
  /// In the order they were taken.
  std::vector<HookRow> active_of(RunKey run);

  void adopt(const HookRow& hook, const HookClaim& claim);

  /// All of a run: the next generation adopts them.
  void abandon(RunKey run) { abandon_.run(run); }

  void set_fed(HookKey hook, bool fed) { set_fed_.run(hook, fed ? 1 : 0); }

  /// Free from here on. The row goes unless payloads are left, or `retakable` by a retry of its run.
  void release(HookKey hook, bool retakable);

  /// Takes again what the run had at its end. Another run's id, if that has one of the tokens: then nothing changed.
  std::optional<std::string> retake(RunKey run);

  /// Takes that back.
  void give_back(RunKey run) { give_back_.run(run); }

  /// Confirms it.
  void keep(RunKey run) { keep_.run(run); }

  // ---------------------------------------------------------------------------------------------- payloads

  void put(const HookRow& hook, const Deliver& deliver, const std::optional<std::string>& start);

  bool has_payload(HookKey hook) { return has_payload_.any(hook); }

  /// The oldest that waits.
  std::optional<PayloadItem> oldest(const HookRow& hook);
  std::vector<PayloadItem> oldest_of_each(RunKey run);
  void consume(RunKey run, std::int64_t payload);

  /// The oldest that can start a run, and which.
  struct Starter {
    std::int64_t payload = 0;
    std::string start;
  };

  std::optional<Starter> oldest_starter(HookKey hook);

  /// It has started its run: not a second time.
  void spend(std::int64_t payload) { spend_.run(payload); }

  /// Those of `resume_or_start` go to another hook, in order.
  void move(HookKey from, const HookRow& to, bool checked);

  // ---------------------------------------------------------------------------------------------- resume ids

  struct Receipt {
    std::string fingerprint;
    std::string run_id;
    HookKey hook = 0;
    bool started = false;
  };

  std::optional<Receipt> receipt(std::int64_t workspace, const Deliver& deliver);
  void remember(std::int64_t workspace, const Deliver& deliver, const Receipt& receipt);

  std::int64_t forget_resume_ids(TimePoint now, std::int64_t limit) {
    return forget_resume_ids_.run(now, limit);
  }

  /// With the run itself.
  void remove(RunKey run);

 private:
  static HookRow read(const Rows& rows);

  Database& database_;
  OpenRuns& open_runs_;

  Statement insert_{
      database_,
      "INSERT INTO semel_hook (workspace, run, token, op, shape, webhook, active, since)"
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7) ON CONFLICT DO NOTHING RETURNING hook"};
  Statement active_{database_,
                    "SELECT hook, workspace, run, token, op, shape, webhook, fed FROM semel_hook"
                    " WHERE workspace = ?1 AND token = ?2 AND active = 1"};
  Statement active_op_{database_,
                       "SELECT hook, workspace, run, token, op, shape, webhook, fed FROM semel_hook"
                       " WHERE run = ?1 AND op = ?2 AND active = 1 ORDER BY hook LIMIT 1"};
  Statement active_run_{
      database_,
      "SELECT hook, workspace, run, token, op, shape, webhook, fed FROM semel_hook"
      " WHERE run = ?1 AND active = 1 ORDER BY hook"};
  Statement adopt_{database_,
                   "UPDATE semel_hook SET op = ?2, shape = ?3, webhook = ?4 WHERE hook = ?1"};
  Statement uncheck_{database_, "UPDATE semel_payload SET checked = 0 WHERE hook = ?1"};
  Statement abandon_{database_, "UPDATE semel_hook SET op = '' WHERE run = ?1 AND active = 1"};
  Statement set_fed_{database_, "UPDATE semel_hook SET fed = ?2 WHERE hook = ?1 AND fed <> ?2"};
  Statement deactivate_{database_,
                        "UPDATE semel_hook SET active = NULL, at_end = ?2 WHERE hook = ?1"};
  Statement delete_{database_, "DELETE FROM semel_hook WHERE hook = ?1"};
  Statement at_end_{database_,
                    "SELECT hook, workspace, run, token, op, shape, webhook, fed FROM semel_hook"
                    " WHERE run = ?1 AND at_end = 1 ORDER BY hook"};
  Statement activate_{database_, "UPDATE OR IGNORE semel_hook SET active = 1 WHERE hook = ?1"};
  Statement give_back_{database_,
                       "UPDATE semel_hook SET active = NULL WHERE run = ?1 AND at_end = 1"};
  Statement keep_{database_, "UPDATE semel_hook SET at_end = 0 WHERE run = ?1 AND at_end = 1"};
  Statement owner_{database_, "SELECT id FROM semel_run WHERE run = ?1"};

  Statement put_{database_,
                 "INSERT INTO semel_payload (hook, run, value, checked, at, start)"
                 " VALUES (?1, ?2, ?3, ?4, ?5, ?6)"};
  Statement has_payload_{database_, "SELECT 1 FROM semel_payload WHERE hook = ?1 LIMIT 1"};
  Statement oldest_{database_,
                    "SELECT payload, value, checked FROM semel_payload WHERE hook = ?1"
                    " ORDER BY payload LIMIT 1"};
  Statement unfeed_{database_,
                    "UPDATE semel_hook SET fed = 0 WHERE fed = 1 AND hook ="
                    " (SELECT hook FROM semel_payload WHERE payload = ?2 AND run = ?1)"};
  Statement consume_{database_, "DELETE FROM semel_payload WHERE payload = ?2 AND run = ?1"};
  Statement oldest_starter_{
      database_,
      "SELECT payload, start FROM semel_payload WHERE hook = ?1 AND start <> ''"
      " ORDER BY payload LIMIT 1"};
  Statement spend_{database_, "UPDATE semel_payload SET start = '' WHERE payload = ?1"};
  Statement move_{database_,
                  "UPDATE semel_payload SET hook = ?2, run = ?3, checked = checked AND ?4"
                  " WHERE hook = ?1 AND start IS NOT NULL"};

  Statement receipt_{database_,
                     "SELECT fingerprint, run_id, hook, started FROM semel_resume"
                     " WHERE workspace = ?1 AND token = ?2 AND resume_id = ?3 AND until > ?4"};
  Statement remember_{
      database_,
      "INSERT OR REPLACE INTO semel_resume (workspace, token, resume_id, fingerprint, run_id,"
      " hook, started, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"};
  Statement forget_resume_ids_{
      database_,
      "DELETE FROM semel_resume WHERE (workspace, token, resume_id) IN"
      " (SELECT workspace, token, resume_id FROM semel_resume WHERE until <= ?1"
      " ORDER BY until LIMIT ?2)"};

  Statement remove_hooks_{database_, "DELETE FROM semel_hook WHERE run = ?1"};
  Statement remove_payloads_{database_, "DELETE FROM semel_payload WHERE run = ?1"};
};

}  // namespace semel::store::sqlite
