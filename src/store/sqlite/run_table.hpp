// Rows of semel_run with what belongs to them alone: their attributes and their workspace's name.
#pragma once

#include "store/sqlite/key_eras.hpp"
#include "store/tables.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace semel::store::sqlite {

/// How to read a RunRecord: `SELECT <record_columns> FROM <record_source> WHERE …`, then `read_record`. Attributes are
/// rows of their own and read separately. The aliases are r (run) and w (workspace).
extern const char* const record_columns;
extern const char* const record_source;
RunRecord read_record(const Rows& rows);

/// Of a run or an inbox item; NULL is none.
base::Rare<journal::Failure> read_failure(const Rows& rows, int column);

class RunTable final : public store::RunTable {
 public:
  explicit RunTable(Database& database) : database_(database) {}

  std::optional<std::int64_t> workspace(const std::string& name) override;
  std::int64_t workspace_or_create(const std::string& name) override;

  KeyEras& key_eras() { return key_eras_; }

  /// What was given out in a transaction that was rolled back does not exist.
  void forget() {
    workspaces_.clear();
    key_eras_.forget();
  }

  bool insert(const NewRun& run, std::int64_t workspace, Status status) override;
  std::optional<Holder> holder_of_key(std::int64_t workspace, const std::string& key) override;
  std::optional<Holder> holder_of_id(std::int64_t workspace, const std::string& id) override;

  std::optional<RunKey> find(std::int64_t workspace, const std::string& id) override;
  std::optional<Status> status(RunKey run) override;
  std::optional<RunRecord> record(RunKey run) override;
  std::map<std::string, std::string> attributes(RunKey run);
  std::optional<Place> place(RunKey run) override;
  Outcome outcome(RunKey run) override;
  std::vector<RunKey> unfinished_children(RunKey parent) override;

  void set_status(RunKey run, Status status) override;

  void raise_code_version(RunKey run, std::int32_t version) override {
    raise_code_version_.run(run, version);
  }

  void mark(RunKey run, Status status, const journal::Failure& reason) override;
  void end(RunKey run, const End& end, TimePoint now) override;

  void continue_as_new(RunKey run, const std::string& input, Seq first_seq) override {
    continue_.run(run, input, first_seq);
  }

  bool reopen(RunKey run, Status status) override;
  void set_attribute(RunKey run, const std::string& name, const std::string& value) override;
  void release_key(RunKey run) override;
  void remove(RunKey run) override;

  std::vector<RunKey> keys_expired(TimePoint now, std::int64_t limit);
  std::vector<RunKey> runs_expired(TimePoint now, std::int64_t limit);

 private:
  Database& database_;
  std::map<std::string, std::int64_t, std::less<>> workspaces_;
  KeyEras key_eras_{database_};

  Statement find_workspace_{database_, "SELECT workspace FROM semel_workspace WHERE name = ?1"};
  Statement insert_workspace_{database_, "INSERT INTO semel_workspace (name) VALUES (?1)"};
  Statement insert_{
      database_,
      "INSERT INTO semel_run (run, workspace, partition, status, holds_key, created_at, deadline, "
      "parent,"
      " code_version, key_ttl, retention, id, instance, workflow, idempotency_key, fingerprint, "
      "input, output, key_era)"
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, '',"
      " ?18)"
      " ON CONFLICT DO NOTHING"};
  // Those that come again come soon.
  Statement holder_of_key_{
      database_,
      "SELECT r.run, r.id, r.status, r.workflow, r.fingerprint, r.key_until"
      " FROM semel_key_era e CROSS JOIN semel_run r WHERE r.key_era = e.era AND r.workspace = ?1"
      " AND r.idempotency_key = ?2 AND r.holds_key = 1 ORDER BY e.era DESC LIMIT 1"};
  Statement holder_of_id_{database_,
                          "SELECT run, id, status, workflow, fingerprint, keep_until FROM semel_run"
                          " WHERE workspace = ?1 AND id = ?2"};
  Statement find_{database_, "SELECT run FROM semel_run WHERE workspace = ?1 AND id = ?2"};
  Statement status_{database_, "SELECT status FROM semel_run WHERE run = ?1"};
  Statement attributes_{database_, "SELECT name, value FROM semel_attribute WHERE run = ?1"};
  Statement place_{database_,
                   "SELECT r.workspace, w.name, r.id, r.parent FROM semel_run r"
                   " JOIN semel_workspace w ON w.workspace = r.workspace WHERE r.run = ?1"};
  Statement outcome_{database_, "SELECT status, output, failure FROM semel_run WHERE run = ?1"};
  Statement children_{
      database_,
      "SELECT run FROM semel_run WHERE parent = ?1 AND status NOT IN (3, 4, 5) ORDER BY run"};
  Statement set_status_{database_,
                        "UPDATE semel_run SET status = ?2 WHERE run = ?1 AND status <> ?2"};
  Statement raise_code_version_{
      database_, "UPDATE semel_run SET code_version = ?2 WHERE run = ?1 AND code_version < ?2"};
  Statement mark_{database_, "UPDATE semel_run SET status = ?2, failure = ?3 WHERE run = ?1"};
  Statement end_{
      database_,
      "UPDATE semel_run SET status = ?2, output = ?3, failure = ?4, ended_at = ?5,"
      " key_until = CASE WHEN holds_key = 1 THEN ?5 + key_ttl END,"
      " keep_until = ?5 + CASE WHEN holds_key = 1 THEN max(key_ttl, retention) ELSE retention END"
      " WHERE run = ?1"};
  Statement key_of_{database_, "SELECT workspace, idempotency_key FROM semel_run WHERE run = ?1"};
  Statement reopen_{
      database_,
      "UPDATE OR IGNORE semel_run SET status = ?2, output = '', failure = NULL, ended_at = NULL,"
      " key_until = NULL, keep_until = NULL,"
      " holds_key = CASE WHEN idempotency_key IS NOT NULL THEN 1 END WHERE run = ?1"};
  Statement continue_{database_,
                      "UPDATE semel_run SET status = 1, generation = generation + 1, input = ?2,"
                      " first_seq = ?3 WHERE run = ?1"};
  Statement set_attribute_{database_,
                           "INSERT INTO semel_attribute (run, name, value, workspace)"
                           " SELECT run, ?2, ?3, workspace FROM semel_run WHERE run = ?1"
                           " ON CONFLICT (run, name) DO UPDATE SET value = excluded.value"};
  Statement release_key_{database_,
                         "UPDATE semel_run SET holds_key = NULL, key_until = NULL WHERE run = ?1"};
  Statement remove_{database_, "DELETE FROM semel_run WHERE run = ?1"};
  Statement remove_attributes_{database_, "DELETE FROM semel_attribute WHERE run = ?1"};
  Statement keys_expired_{
      database_,
      "SELECT run FROM semel_run WHERE key_until <= ?1 ORDER BY key_until, run LIMIT ?2"};
  Statement runs_expired_{
      database_,
      "SELECT run FROM semel_run WHERE keep_until <= ?1 ORDER BY keep_until, run LIMIT ?2"};
  // Built from the shared pieces at start-up, so it needs an owner.
  std::string record_sql_ =
      std::string{"SELECT "} + record_columns + " FROM " + record_source + " WHERE r.run = ?1";
  Statement record_{database_, record_sql_.c_str()};
};

}  // namespace semel::store::sqlite
