#include "store/postgres/user_sql.hpp"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <utility>

namespace semel::store::postgres {

namespace {

/// Beyond them statements are prepared anew each time.
constexpr std::size_t statements_max = 128;

// PostgreSQL's numbers of types: they never change.
constexpr std::uint32_t type_bool = 16;
constexpr std::uint32_t type_bytea = 17;
constexpr std::uint32_t type_int8 = 20;
constexpr std::uint32_t type_int2 = 21;
constexpr std::uint32_t type_int4 = 23;
constexpr std::uint32_t type_text = 25;
constexpr std::uint32_t type_oid = 26;
constexpr std::uint32_t type_float4 = 700;
constexpr std::uint32_t type_float8 = 701;
constexpr std::uint32_t type_numeric = 1700;

constexpr std::array<std::string_view, 9> plain_verbs{
    "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES", "TABLE", "("};
/// Everything else ends transactions, or changes the session that others find.
constexpr std::array<std::string_view, 16> other_verbs{
    "CREATE", "ALTER",   "DROP", "TRUNCATE", "COMMENT", "GRANT",   "REVOKE", "REFRESH",
    "LOCK",   "ANALYZE", "DO",   "CALL",     "EXPLAIN", "REINDEX", "IMPORT", "SECURITY"};

constexpr const char* mark = "SAVEPOINT semel_statement";
constexpr const char* release_mark = "RELEASE SAVEPOINT semel_statement";

constexpr const char* find_own_tables =
    "SELECT c.oid::bigint FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n"
    " ON n.oid = c.relnamespace WHERE n.nspname = 'semel' AND c.relkind = 'r'";
/// By this transaction, also where it was undone.
constexpr const char* count_changes =
    "SELECT coalesce(sum(pg_catalog.pg_stat_get_xact_tuples_inserted(x.t::oid)"
    " + pg_catalog.pg_stat_get_xact_tuples_updated(x.t::oid)"
    " + pg_catalog.pg_stat_get_xact_tuples_deleted(x.t::oid)), 0)::bigint"
    " FROM unnest($1::bigint[]) AS x(t)";
/// Beyond those that reading and writing rows take.
constexpr const char* count_locks =
    "SELECT count(*) FROM pg_catalog.pg_locks WHERE pid = pg_catalog.pg_backend_pid()"
    " AND relation::bigint = ANY($1::bigint[])"
    " AND mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')";

bool is_plain(const SqlStatement& statement) {
  return std::ranges::find(plain_verbs, statement.verb) != plain_verbs.end();
}

[[noreturn]] void refuse() {
  throw sql::SqlError("SQL_ERROR",
                      "not allowed inside a transaction of the engine's: transaction control, "
                      "changes of the session and changes of semel's own tables");
}

bool is_allowed(const SqlStatement& statement) {
  if (is_plain(statement)) return true;
  const bool is_known = std::ranges::find(other_verbs, statement.verb) != other_verbs.end();
  return is_known && !statement.names_semel;
}

/// What the values are, a letter each: a statement's types depend on them.
std::string kinds_of(std::span<const sql::Value> values) {
  std::string kinds;
  for (const sql::Value& value : values) kinds += "nidsb"[value.index()];
  return kinds;
}

/// Where a place would take anything PostgreSQL calls it text; we know better.
std::uint32_t type_of(const sql::Value& value) {
  if (std::holds_alternative<std::int64_t>(value)) return type_int8;
  if (std::holds_alternative<double>(value)) return type_float8;
  if (std::holds_alternative<Bytes>(value)) return type_bytea;
  return type_text;
}

std::string text_of(double value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

struct Give {
  std::uint32_t type;

  Pipeline::Given operator()(std::monostate) const { return {}; }

  Pipeline::Given operator()(std::int64_t value) const { return {std::to_string(value)}; }

  Pipeline::Given operator()(double value) const { return {text_of(value)}; }

  Pipeline::Given operator()(const std::string& value) const {
    if (type == type_bytea) return {value, true};
    if (value.find('\0') != std::string::npos)
      throw sql::SqlError("SQL_ERROR", "PostgreSQL's text cannot hold a NUL");
    return {value};
  }

  Pipeline::Given operator()(const Bytes& value) const {
    return {std::string{reinterpret_cast<const char*>(value.data()), value.size()}, true};
  }
};

template <class Number>
std::optional<Number> number_in(const std::string& text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && rest == end ? std::optional{number} : std::nullopt;
}

Bytes bytes_in(const std::string& text) {
  struct Free {
    void operator()(unsigned char* memory) const { PQfreemem(memory); }
  };

  std::size_t size = 0;
  const auto* escaped = reinterpret_cast<const unsigned char*>(text.c_str());
  const std::unique_ptr<unsigned char, Free> raw{PQunescapeBytea(escaped, &size)};
  const auto* bytes = reinterpret_cast<const std::byte*>(raw.get());
  return bytes == nullptr ? Bytes{} : Bytes(bytes, bytes + size);
}

/// What is neither a number nor bytes is the text that PostgreSQL writes for it. So is a decimal with a fraction: no double
/// is as exact.
sql::Value value_at(const Rows& rows, int row, int column) {
  if (rows.is_null(row, column)) return {};
  std::string text = rows.text(row, column);
  switch (rows.type(column)) {
    case type_bool:
      return std::int64_t{text == "t" ? 1 : 0};
    case type_bytea:
      return bytes_in(text);
    case type_int2:
    case type_int4:
    case type_int8:
    case type_oid:
    case type_numeric:
      if (const auto number = number_in<std::int64_t>(text)) return *number;
      return text;
    case type_float4:
    case type_float8:
      if (const auto number = number_in<double>(text)) return *number;
      return text;
    default:
      return text;
  }
}

/// Never the values: they may be secrets. PostgreSQL's message has names of tables and columns; where the data are
/// malformed it ends with them.
std::string reason_of(const Failed& failed) {
  std::string reason = failed.reason();
  if (failed.state().starts_with("22")) reason = reason.substr(0, reason.find(": \""));
  return reason;
}

}  // namespace

template <class Action>
void UserSql::attempt(const Action& action) {
  check();
  try {
    action();
  } catch (const Internal&) {
    broken_ = std::current_exception();
    throw;
  }
}

void UserSql::begin() {
  broken_ = nullptr;
  is_marked_ = false;
  has_run_ = false;
  // The program's statements are planned as it is used to. A connection of its own is left as it is.
  connection_.run(connection_.keeps_statements()
                      ? "SAVEPOINT semel_unit; SET LOCAL plan_cache_mode = auto;"
                        " SET LOCAL jit TO DEFAULT"
                      : "SAVEPOINT semel_unit");
}

/// Constraints that were put off are looked at and then put off again, because others share the transaction: going back to
/// a savepoint takes back that they were looked at.
void UserSql::keep() {
  attempt([&] {
    if (has_run_) {
      Watch watch;
      Pipeline pipeline{connection_};
      add_mark(pipeline);
      add_count(pipeline, watch.before);
      pipeline.add("SET CONSTRAINTS ALL IMMEDIATE");
      add_count(pipeline, watch.after);
      pipeline.add("ROLLBACK TO SAVEPOINT semel_statement");
      try {
        pipeline.run();
      } catch (const Failed& failed) {
        fail(failed);
      }
      if (watch.has_fired()) refuse();
    }
    connection_.run("RELEASE SAVEPOINT semel_unit");
  });
}

void UserSql::undo() {
  attempt([&] {
    is_marked_ = false;
    connection_.run("ROLLBACK TO SAVEPOINT semel_unit; RELEASE SAVEPOINT semel_unit");
  });
}

void UserSql::run(std::string_view sql, std::span<const sql::Value> parameters, const Each& each) {
  const std::vector<SqlStatement> statements = split_sql(sql);
  if (statements.size() != 1 && !parameters.empty())
    throw sql::SqlError("SQL_ERROR", "parameters go with one statement, not with several");
  for (const SqlStatement& statement : statements) {
    if (!is_allowed(statement)) attempt([&] { refuse_or_blame(statement); });
    Found found;
    attempt([&] { found = execute(statement, parameters, false); });
    for (const auto& row : found.rows) each({found.names, row});
  }
}

void UserSql::run_own(std::string_view sql, std::span<const sql::Value> parameters,
                      const Each& each) {
  std::string text{sql};
  constexpr std::string_view prefix = "semel_";
  for (std::size_t at = 0; (at = text.find(prefix, at)) != std::string::npos; ++at)
    text[at + prefix.size() - 1] = '.';
  Found found;
  attempt([&] { found = execute(split_sql(text).front(), parameters, true); });
  for (const auto& row : found.rows) each({found.names, row});
}

/// What is no statement at all is told so by PostgreSQL: preparing has no effect.
void UserSql::refuse_or_blame(const SqlStatement& statement) {
  Pipeline pipeline{connection_};
  add_mark(pipeline);
  pipeline.prepare("", statement.text, {});
  try {
    pipeline.run();
  } catch (const Failed& failed) {
    fail(failed);
  }
  refuse();
}

void UserSql::unmark() {
  if (!std::exchange(is_marked_, false)) return;
  attempt([&] { connection_.run(release_mark); });
}

void UserSql::add_mark(Pipeline& pipeline) {
  if (is_marked_) pipeline.add(release_mark);
  pipeline.add(mark);
  is_marked_ = true;
}

void UserSql::add_count(Pipeline& pipeline, std::int64_t& count) {
  Columns tables{"i"};
  for (const std::int64_t table : tables_) tables.add(table);
  pipeline.add(count_changes, tables.parameters(),
               [&count](const Rows& rows) { count = rows.integer(0, 0); });
}

void UserSql::find_tables() {
  Pipeline pipeline{connection_};
  pipeline.add(find_own_tables, {}, [this](const Rows& rows) {
    for (int i = 0; i < rows.size(); ++i) tables_.push_back(rows.integer(i, 0));
  });
  pipeline.run();
}

UserSql::Found UserSql::execute(const SqlStatement& statement,
                                std::span<const sql::Value> parameters, bool is_own) {
  if (statement.parameters != parameters.size()) {
    throw sql::SqlError("SQL_ERROR", fmt::format("the statement has {} parameters, {} {} given",
                                                 statement.parameters, parameters.size(),
                                                 parameters.size() == 1 ? "was" : "were"));
  }
  if (tables_.empty()) find_tables();
  has_run_ = has_run_ || !is_own;
  const std::string key = kinds_of(parameters) + " " + statement.text;
  Found found;
  Watch watch;
  try {
    const Prepared& prepared = prepare(statement, parameters, key);
    std::vector<Pipeline::Given> given;
    given.reserve(parameters.size());
    for (std::size_t i = 0; i < parameters.size(); ++i)
      given.push_back(std::visit(Give{prepared.types.at(i)}, parameters[i]));
    Pipeline pipeline{connection_};
    add_mark(pipeline);
    if (!is_own) add_count(pipeline, watch.before);
    // Other statements may be without a name as well.
    if (prepared.name.empty()) pipeline.prepare("", statement.text, prepared.types);
    pipeline.execute(prepared.name, given, [&found](const Rows& rows) {
      for (int i = 0; i < rows.columns(); ++i) found.names.push_back(rows.name(i));
      for (int row = 0; row < rows.size(); ++row) {
        auto& values = found.rows.emplace_back();
        for (int i = 0; i < rows.columns(); ++i) values.push_back(value_at(rows, row, i));
      }
    });
    if (!is_own) add_count(pipeline, watch.after);
    if (!is_own && !is_plain(statement)) {
      Columns tables{"i"};
      for (const std::int64_t table : tables_) tables.add(table);
      pipeline.add(count_locks, tables.parameters(),
                   [&watch](const Rows& rows) { watch.locks = rows.integer(0, 0); });
    }
    pipeline.run();
  } catch (const Failed& failed) {
    if (!connection_.is_lost() && !failed.was_in_the_way()) forget_statement(key);
    fail(failed);
  }
  if (watch.has_fired()) {
    connection_.run("ROLLBACK TO SAVEPOINT semel_statement");
    refuse();
  }
  return found;
}

/// Types come from the places the values are for; only where a place takes anything, from the values.
const UserSql::Prepared& UserSql::prepare(const SqlStatement& statement,
                                          std::span<const sql::Value> parameters,
                                          const std::string& key) {
  if (const auto known = statements_.find(key); known != statements_.end()) return known->second;
  const bool is_kept = connection_.keeps_statements() && statements_.size() < statements_max;
  Prepared fresh{.name = is_kept ? "u" + std::to_string(++names_) : "", .types = {}};
  Pipeline pipeline{connection_};
  add_mark(pipeline);
  pipeline.prepare("", statement.text, {});
  pipeline.describe("", [&fresh](const Rows& rows) { fresh.types = rows.parameter_types(); });
  pipeline.run();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (fresh.types.at(i) == type_text) fresh.types[i] = type_of(parameters[i]);
  }
  if (!is_kept) return unnamed_ = std::move(fresh);
  Pipeline again{connection_};
  again.prepare(fresh.name, statement.text, fresh.types);
  again.run();
  return statements_.emplace(key, std::move(fresh)).first->second;
}

/// It may have failed because the tables it was made for have changed.
void UserSql::forget_statement(const std::string& key) {
  const auto known = statements_.find(key);
  if (known == statements_.end()) return;
  const std::string name = known->second.name;
  statements_.erase(known);
  connection_.run("ROLLBACK TO SAVEPOINT semel_statement; DEALLOCATE " + name);
}

/// What is somebody else's transaction's doing is not the statement's fault; but a lock that did not come in time is told
/// to the code that asked for it.
void UserSql::fail(const Failed& failed) {
  const bool is_deadlock = failed.state() == "40P01" || failed.state() == "40001";
  if (connection_.is_lost() || failed.state().empty() || is_deadlock) throw Failed{failed};
  connection_.run("ROLLBACK TO SAVEPOINT semel_statement");
  throw sql::SqlError(failed.state().starts_with("23") ? "SQL_CONSTRAINT" : "SQL_ERROR",
                      reason_of(failed));
}

}  // namespace semel::store::postgres
