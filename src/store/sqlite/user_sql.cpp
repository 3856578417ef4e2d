#include "store/sqlite/user_sql.hpp"

#include <fmt/format.h>

#include <utility>

namespace semel::store::sqlite {

namespace {

constexpr std::size_t statements_max = 128;

/// Only while a user's statement is prepared and executed: our own may do everything.
class Restricted {
 public:
  explicit Restricted(Database& database) : database_(database) { database_.restrict(true); }

  Restricted(const Restricted&) = delete;
  Restricted& operator=(const Restricted&) = delete;

  ~Restricted() { database_.restrict(false); }

 private:
  Database& database_;
};

/// Resets the statement when its execution is over, however that ends.
class Execution {
 public:
  explicit Execution(sqlite3_stmt* statement) : statement_(statement) {}

  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  ~Execution() {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }

 private:
  sqlite3_stmt* statement_;
};

struct Bind {
  sqlite3_stmt* statement;
  int index;

  int operator()(std::monostate) const { return sqlite3_bind_null(statement, index); }

  int operator()(std::int64_t value) const { return sqlite3_bind_int64(statement, index, value); }

  int operator()(double value) const { return sqlite3_bind_double(statement, index, value); }

  int operator()(const std::string& value) const {
    return sqlite3_bind_text64(statement, index, value.data(), value.size(), SQLITE_TRANSIENT,
                               SQLITE_UTF8);
  }

  int operator()(const Bytes& value) const {
    // A null pointer would bind NULL, not no bytes.
    const void* data = value.empty() ? static_cast<const void*>("") : value.data();
    return sqlite3_bind_blob64(statement, index, data, value.size(), SQLITE_TRANSIENT);
  }
};

sql::Value value_at(sqlite3_stmt* statement, int column) {
  const auto size = [&] {
    return static_cast<std::size_t>(sqlite3_column_bytes(statement, column));
  };
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
      return static_cast<std::int64_t>(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, column);
    case SQLITE_TEXT: {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
      return std::string(text, size());
    }
    case SQLITE_BLOB: {
      const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement, column));
      return bytes == nullptr ? Bytes{} : Bytes(bytes, bytes + size());
    }
    default:
      return {};
  }
}

/// The database's fault and not the statement's: what is on disk is in doubt.
bool is_the_databases(int result) {
  switch (result & 0xFF) {
    case SQLITE_IOERR:
    case SQLITE_FULL:
    case SQLITE_CORRUPT:
    case SQLITE_NOMEM:
    case SQLITE_CANTOPEN:
    case SQLITE_NOTADB:
    case SQLITE_READONLY:
    case SQLITE_BUSY:
    case SQLITE_PROTOCOL:
      return true;
    default:
      return false;
  }
}

}  // namespace

void UserSql::begin() {
  broken_ = nullptr;
  begin_.run();
}

void UserSql::keep() {
  check_alive();
  int open = 0;
  int highest = 0;
  sqlite3_db_status(database_.handle(), SQLITE_DBSTATUS_DEFERRED_FKS, &open, &highest, 0);
  if (open > 0)
    throw sql::SqlError("SQL_CONSTRAINT", "a foreign key refers to a row that is not there");
  keep_.run();
}

void UserSql::undo() {
  check_alive();
  undo_.run();
  keep_.run();
}

void UserSql::check_alive() {
  if (!broken_) return;
  if (database_.in_transaction()) std::rethrow_exception(broken_);
  try {
    std::rethrow_exception(broken_);
  } catch (const sql::SqlError&) {
    throw Poisoned{{}, broken_};
  }
}

void UserSql::run(std::string_view sql, std::span<const sql::Value> parameters,
                  const std::function<void(const sql::Row&)>& each) {
  if (broken_) std::rethrow_exception(broken_);
  const Restricted restricted(database_);
  if (const auto known = statements_.find(std::string(sql)); known != statements_.end()) {
    execute(known->second, parameters, each);
    return;
  }
  bool is_first = true;
  for (std::string_view rest = sql; !rest.empty(); is_first = false) {
    sqlite3_stmt* statement = prepare(rest, rest);
    if (statement == nullptr) continue;  // a comment, or white space
    const bool is_only = is_first && rest.find_first_not_of(" \t\r\n;") == std::string_view::npos;
    if (is_only && statements_.size() < statements_max) {
      statements_.emplace(sql, statement);
      execute(statement, parameters, each);
      return;
    }
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owner(statement, sqlite3_finalize);
    if (!is_only && !parameters.empty())
      throw sql::SqlError("SQL_ERROR", "parameters go with one statement, not with several");
    execute(statement, parameters, each);
  }
}

void UserSql::run_own(std::string_view sql, std::span<const sql::Value> parameters,
                      const std::function<void(const sql::Row&)>& each) {
  if (broken_) std::rethrow_exception(broken_);
  std::string_view rest;
  // Not kept: a user's statement of the same text must not find one that may do everything.
  const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(prepare(sql, rest),
                                                                        sqlite3_finalize);
  execute(statement.get(), parameters, each);
}

sqlite3_stmt* UserSql::prepare(std::string_view sql, std::string_view& rest) {
  sqlite3_stmt* statement = nullptr;
  const char* tail = nullptr;
  const int result =
      sqlite3_prepare_v3(database_.handle(), sql.data(), static_cast<int>(sql.size()),
                         SQLITE_PREPARE_PERSISTENT, &statement, &tail);
  if (result != SQLITE_OK) fail(result);
  rest = sql.substr(static_cast<std::size_t>(tail - sql.data()));
  return statement;
}

void UserSql::execute(sqlite3_stmt* statement, std::span<const sql::Value> parameters,
                      const std::function<void(const sql::Row&)>& each) {
  const auto wanted = static_cast<std::size_t>(sqlite3_bind_parameter_count(statement));
  if (wanted != parameters.size()) {
    throw sql::SqlError("SQL_ERROR",
                        fmt::format("the statement has {} parameters, {} {} given", wanted,
                                    parameters.size(), parameters.size() == 1 ? "was" : "were"));
  }
  if (sqlite3_stmt_busy(statement) != 0)
    throw sql::SqlError("SQL_ERROR",
                        "the statement is being read; it cannot be executed again yet");
  const Execution execution(statement);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const int result = std::visit(Bind{statement, static_cast<int>(i) + 1}, parameters[i]);
    if (result != SQLITE_OK) fail(result);
  }
  const int columns = sqlite3_column_count(statement);
  std::vector<std::string> names;
  std::vector<sql::Value> values;
  for (;;) {
    const int result = sqlite3_step(statement);
    if (result == SQLITE_DONE) break;
    if (result != SQLITE_ROW) fail(result);
    if (names.empty()) {
      for (int i = 0; i < columns; ++i) names.emplace_back(sqlite3_column_name(statement, i));
    }
    values.clear();
    for (int i = 0; i < columns; ++i) values.push_back(value_at(statement, i));
    each({names, values});
  }
  if (!database_.in_transaction()) fail(SQLITE_ABORT);
}

/// Never the values: they may be secrets. SQLite's message has names of tables and columns.
void UserSql::fail(int result) {
  if (is_the_databases(result)) {
    try {
      database_.fail(result, "a transaction of the program's");
    } catch (const Failed&) {
      broken_ = std::current_exception();
      throw;
    }
  }
  const bool is_constraint = (result & 0xFF) == SQLITE_CONSTRAINT;
  const char* reason =
      result == SQLITE_AUTH
          ? "not allowed inside a transaction of the engine's: transaction control, "
            "PRAGMA, ATTACH and changes of semel's own tables"
          : sqlite3_errmsg(database_.handle());
  sql::SqlError error(is_constraint ? "SQL_CONSTRAINT" : "SQL_ERROR", reason);
  if (!database_.in_transaction()) broken_ = std::make_exception_ptr(error);
  throw error;
}

void UserSql::clear() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  statements_.clear();
}

}  // namespace semel::store::sqlite
