#include "app/bench_database.hpp"

#include <semel/error.hpp>

namespace semel::app::bench {

namespace {

constexpr const char* drop_tables = "DROP SCHEMA IF EXISTS semel CASCADE";

std::string ask_text(store::postgres::Connection& connection, const std::string& sql) {
  std::string found;
  store::postgres::Pipeline query{connection};
  query.add(sql, {}, [&](const store::postgres::Rows& rows) {
    if (rows.size() != 0 && !rows.is_null(0, 0)) found = rows.text(0, 0);
  });
  query.run();
  return found;
}

bool has_schema(store::postgres::Connection& connection, const std::string& name) {
  return ask(connection, "SELECT count(*) FROM pg_namespace WHERE nspname = '" + name + "'") != 0;
}

store::postgres::Connection connect(const std::string& url) {
  try {
    return store::postgres::Connection{{.url = url}};
  } catch (const store::Failed& failed) {
    throw Error("STORE_UNAVAILABLE", failed.fault().message);
  }
}

}  // namespace

double ask(store::postgres::Connection& connection, const std::string& sql) {
  const std::string found = ask_text(connection, "SELECT (" + sql + ")::text");
  return found.empty() ? 0 : std::stod(found);
}

BenchDatabase::BenchDatabase(const std::string& url) : connection_(connect(url)) {
  // Ours says so by a schema that nobody else makes.
  const bool is_ours = has_schema(connection_, "semel_bench");
  if (!is_ours && has_schema(connection_, "semel")) {
    throw Error(
        "VALIDATION_ERROR",
        "--store: there is a semel store in this database, and a benchmark would remove it: "
        "make an empty database for it (createdb semel_bench)");
  }
  connection_.run(drop_tables);
  connection_.run("CREATE SCHEMA IF NOT EXISTS semel_bench");
}

BenchDatabase::~BenchDatabase() {
  try {
    connection_.run(drop_tables);
    connection_.run("DROP SCHEMA IF EXISTS semel_bench CASCADE");
  } catch (const store::Failed&) {
    return;  // the next one finds what is left and knows it for a benchmark's
  }
}

std::string BenchDatabase::version() {
  return "PostgreSQL " + ask_text(connection_, "SELECT current_setting('server_version')");
}

void remove_tables(const std::string& url) {
  store::postgres::Connection connection{{.url = url}};
  connection.run(drop_tables);
}

}  // namespace semel::app::bench
