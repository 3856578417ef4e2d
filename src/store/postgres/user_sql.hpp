// Users' SQL inside a batch's transaction.
//
// Each unit has a savepoint, and so has each statement, so that one that fails takes nothing with it but itself. Statements
// that end transactions or change the session are refused by their first word. Whoever changes rows of semel's tables, in
// whatever way, is found out by PostgreSQL's own count of changed rows, looked at before and behind each statement.
// Statements about tables are refused where they name semel's schema, or turn out to hold locks on its tables that only
// such statements take.
#pragma once

#include "store/postgres/connection.hpp"
#include "store/postgres/sql_text.hpp"
#include "store/unit_of_work.hpp"

#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace semel::store::postgres {

class UserSql {
 public:
  explicit UserSql(Connection& connection) : connection_(connection) {}

  UserSql(const UserSql&) = delete;
  UserSql& operator=(const UserSql&) = delete;

  /// A place to go back to. Around everything else here.
  void begin();
  /// Keeps what was done since. Throws SqlError where constraints are violated that were put off, and what is `Internal`
  /// where the transaction cannot go on.
  void keep();
  /// Undoes what was done since. Throws as `keep` does.
  void undo();

  using Each = std::function<void(const sql::Row&)>;

  /// See `sql::Session::run`. Once it has failed for reasons that are not the statement's it goes on failing.
  void run(std::string_view sql, std::span<const sql::Value> parameters, const Each& each);

  /// One statement of semel's own, not fenced off. Its tables are named as SQLite has them: semel_audit.
  void run_own(std::string_view sql, std::span<const sql::Value> parameters, const Each& each);

  /// Leaves no savepoint behind. Not needed inside a unit.
  void unmark();

  /// Why nothing goes any more, whoever may have caught it.
  void break_off(std::exception_ptr why) { broken_ = std::move(why); }

  void check() const {
    if (broken_) std::rethrow_exception(broken_);
  }

 private:
  /// One with types of its own for each kind of values.
  struct Prepared {
    std::string name;
    std::vector<std::uint32_t> types;  ///< as PostgreSQL told them
  };

  struct Found {
    std::vector<std::string> names;
    std::vector<std::vector<sql::Value>> rows;
  };

  /// What is seen around a statement.
  struct Watch {
    std::int64_t before = 0;
    std::int64_t after = 0;
    std::int64_t locks = 0;

    bool has_fired() const { return before != after || locks > 0; }
  };

  Found execute(const SqlStatement& statement, std::span<const sql::Value> parameters, bool is_own);
  const Prepared& prepare(const SqlStatement& statement, std::span<const sql::Value> parameters,
                          const std::string& key);
  [[noreturn]] void refuse_or_blame(const SqlStatement& statement);
  void forget_statement(const std::string& key);
  void add_mark(Pipeline& pipeline);
  void add_count(Pipeline& pipeline, std::int64_t& count);
  void find_tables();
  [[noreturn]] void fail(const Failed& failed);
  /// Runs what may fail for reasons of its own.
  template <class Action>
  void attempt(const Action& action);

  Connection& connection_;
  std::map<std::string, Prepared> statements_;
  Prepared unnamed_;
  int names_ = 0;                     ///< ever given
  std::vector<std::int64_t> tables_;  ///< semel's, by PostgreSQL's numbers
  bool is_marked_ = false;            ///< there is a savepoint of a statement
  bool has_run_ = false;              ///< something of the user's since `begin`
  std::exception_ptr broken_;
};

}  // namespace semel::store::postgres
