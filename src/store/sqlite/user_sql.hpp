// Users' SQL inside a batch's transaction: fenced off from the engine's tables and from the transaction itself.
#pragma once

#include "store/sqlite/database.hpp"
#include "store/unit_of_work.hpp"

#include <exception>
#include <string>
#include <unordered_map>

namespace semel::store::sqlite {

/// A statement has ended the transaction of the whole batch (INSERT OR ROLLBACK does): the batch is done over without
/// the command it belongs to.
struct Poisoned : Internal {
  std::exception_ptr error;  ///< what the command is told
};

class UserSql {
 public:
  explicit UserSql(Database& database) : database_(database) {}

  UserSql(const UserSql&) = delete;
  UserSql& operator=(const UserSql&) = delete;

  ~UserSql() { clear(); }

  /// A place to go back to. Around everything else here.
  void begin();
  /// Keeps what was done since. Throws SqlError where constraints are violated that were put off, `Failed` where the
  /// database failed meanwhile, `Poisoned` where the transaction is gone.
  void keep();
  /// Undoes what was done since. Throws as `keep` does.
  void undo();

  /// See `sql::Session::run`. Once it has failed for reasons that are not the statement's it goes on failing.
  void run(std::string_view sql, std::span<const sql::Value> parameters,
           const std::function<void(const sql::Row&)>& each);

  /// One statement of semel's own, not fenced off. Throws `Failed`.
  void run_own(std::string_view sql, std::span<const sql::Value> parameters,
               const std::function<void(const sql::Row&)>& each);

 private:
  sqlite3_stmt* prepare(std::string_view sql, std::string_view& rest);
  void execute(sqlite3_stmt* statement, std::span<const sql::Value> parameters,
               const std::function<void(const sql::Row&)>& each);
  [[noreturn]] void fail(int result);
  void check_alive();
  void clear();

  Database& database_;
  /// Prepared ones, by their text; those that were several in one text are not kept.
  std::unordered_map<std::string, sqlite3_stmt*> statements_;
  std::exception_ptr broken_;  ///< why nothing goes any more, whoever may have caught it

  Statement begin_{database_, "SAVEPOINT semel_unit"};
  Statement undo_{database_, "ROLLBACK TO semel_unit"};
  Statement keep_{database_, "RELEASE semel_unit"};
};

}  // namespace semel::store::sqlite
