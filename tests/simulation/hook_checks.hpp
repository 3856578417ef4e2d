// What must hold about tokens and payloads, checked after every commit against the database itself.
#pragma once

#include "tests/simulation/history.hpp"
#include "tests/simulation/mirror.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace semel::sim {

/// Payloads are numbers that no client sends twice, but for a repetition under the same resume id.
class HookChecks {
 public:
  explicit HookChecks(std::shared_ptr<store::sqlite::Database> database)
      : connection_(std::move(database)) {}

  /// What is wrong since these entries were committed. `gone`: a run was swept or made room for another.
  std::optional<Violation> after_commit(const std::vector<NewEntry>& entries, bool gone);

  /// A client was told that its payload was accepted.
  void accepted(std::int64_t payload) { accepted_.insert(payload); }

  /// Whatever was accepted waits, was read, or went with the run that left it.
  std::optional<Violation> everything();

  std::size_t payloads_read() const { return read_.size(); }

 private:
  void watch_payloads();
  std::set<std::int64_t> take_new_payloads();
  void read_removed_entries();
  std::optional<Violation> check_owners();
  std::optional<Violation> check_conflicts(const std::vector<NewEntry>& entries);
  std::optional<Violation> check_reading(const std::vector<NewEntry>& entries);

  std::shared_ptr<store::sqlite::Database> connection_;
  store::sqlite::Database& database_ = *connection_;
  store::sqlite::Statement twice_{database_,
                                  "SELECT token FROM semel_hook WHERE active = 1 GROUP BY "
                                  "workspace, token HAVING count(*) > 1"};
  store::sqlite::Statement of_ended_{
      database_,
      "SELECT h.token, r.id FROM semel_hook h JOIN semel_run r ON r.run = h.run"
      " WHERE h.active = 1 AND r.status IN (3, 4, 5)"};
  store::sqlite::Statement homeless_{
      database_,
      "SELECT p.value FROM semel_payload p WHERE NOT EXISTS"
      " (SELECT 1 FROM semel_hook h WHERE h.hook = p.hook AND h.run = p.run)"};
  store::sqlite::Statement id_{database_, "SELECT id FROM semel_run WHERE run = ?1"};
  store::sqlite::Statement waiting_{database_, "SELECT value FROM semel_payload"};
  store::sqlite::Statement new_{database_, "SELECT value FROM temp.new_payload"};
  store::sqlite::Statement removed_{database_, "SELECT run, entry FROM temp.removed_entry"};

  std::set<std::int64_t> accepted_;
  std::map<std::int64_t, RunKey> read_;  ///< by whom
  std::set<std::int64_t> waits_;         ///< in the table, after the last commit
  std::set<std::int64_t> swept_;         ///< went unread with their run
  bool watches_payloads_ = false;
};

}  // namespace semel::sim
