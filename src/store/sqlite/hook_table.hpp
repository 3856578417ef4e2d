// Rows of semel_hook, semel_payload and semel_resume.
#pragma once

#include "store/sqlite/database.hpp"
#include "store/tables.hpp"

#include <optional>
#include <string>
#include <vector>

namespace semel::store::sqlite {

class HookTable final : public store::HookTable {
 public:
  HookTable(Database& database, OpenRuns& open_runs) : database_(database), open_runs_(open_runs) {}

  std::optional<HookKey> insert(std::int64_t workspace, RunKey run, const HookClaim& claim,
                                TimePoint now) override;
  std::optional<HookRow> active(std::int64_t workspace, const std::string& token) override;
  std::optional<HookRow> active_of(RunKey run, const std::string& op) override;
  std::vector<HookRow> active_of(RunKey run) override;

  void adopt(const HookRow& hook, const HookClaim& claim) override;

  void abandon(RunKey run) override { abandon_.run(run); }

  void set_fed(HookKey hook, bool fed) override { set_fed_.run(hook, fed ? 1 : 0); }

  void release(HookKey hook, bool retakable) override;
  std::optional<std::string> retake(RunKey run) override;

  void give_back(RunKey run) override { give_back_.run(run); }

  void keep(RunKey run) override { keep_.run(run); }

  void put(const HookRow& hook, const Deliver& deliver,
           const std::optional<std::string>& start) override;

  bool has_payload(HookKey hook) override { return has_payload_.any(hook); }

  std::optional<PayloadItem> oldest(const HookRow& hook) override;
  std::vector<PayloadItem> oldest_of_each(RunKey run) override;
  void consume(RunKey run, std::int64_t payload) override;
  std::optional<Starter> oldest_starter(HookKey hook) override;

  void spend(std::int64_t payload) override { spend_.run(payload); }

  void move(HookKey from, const HookRow& to, bool checked) override;

  std::optional<Receipt> receipt(std::int64_t workspace, const Deliver& deliver) override;
  void remember(std::int64_t workspace, const Deliver& deliver, const Receipt& receipt) override;

  std::int64_t forget_resume_ids(TimePoint now, std::int64_t limit) {
    return forget_resume_ids_.run(now, limit);
  }

  void remove(RunKey run) override;

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
