#include "app/cli_store.hpp"

#include "store/failed.hpp"
#include "store/postgres/postgres_reader.hpp"
#include "store/sqlite/database.hpp"
#include "store/sqlite/schema.hpp"
#include "store/sqlite/sqlite_store.hpp"

#include <semel/error.hpp>
#include <semel/run.hpp>

#include <array>
#include <filesystem>

namespace semel::app {

namespace {

using store::Status;
using store::sqlite::Database;
using store::sqlite::Rows;
using store::sqlite::Statement;

constexpr std::string_view sqlite_scheme = "sqlite:";
constexpr auto statuses =
    std::to_array<Status>({Status::pending, Status::running, Status::waiting, Status::completed,
                           Status::failed, Status::cancelled, Status::dead, Status::diverged});

/// Checked here: SQLite's own words for a missing file do not help.
std::string path_of(const std::string& url) {
  if (!url.starts_with(sqlite_scheme) || url.size() == sqlite_scheme.size()) {
    throw Error(
        "VALIDATION_ERROR",
        "--store " + url + " names no store: write sqlite:FILE, for example sqlite:shop.db");
  }
  std::string path = url.substr(sqlite_scheme.size());
  if (!std::filesystem::exists(path)) {
    throw Error("STORE_UNAVAILABLE",
                "there is no file " + path +
                    ": give the file the engine was opened with (it is made by the "
                    "first start of an engine)");
  }
  return path;
}

std::int64_t number(Database& database, const char* sql) {
  Statement statement{database, sql};
  Rows rows = statement.select();
  return rows.next() ? rows.integer(0) : 0;
}

}  // namespace

OpenedReader open_for_reading(const std::string& url) {
  if (url.starts_with("postgres://") || url.starts_with("postgresql://")) {
    try {
      return {store::postgres::make_reader({.url = url, .read_only = true}), {}};
    } catch (const store::Failed& failed) {
      throw Error("STORE_UNAVAILABLE", failed.fault().message);
    }
  }
  std::string path = path_of(url);
  auto reader = store::open_reader(path);
  if (!reader) throw Error("STORE_UNAVAILABLE", reader.error().message);
  return {std::move(*reader), std::move(path)};
}

StoreSummary summarise(const std::string& url) {
  const std::string path = path_of(url);
  try {
    const auto database = Database::open(path, Database::Access::read, {});
    StoreSummary summary;
    summary.schema_version_known = store::sqlite::schema_version_known();
    summary.schema_version = store::sqlite::schema_version(*database);
    store::sqlite::require_schema(*database);
    const store::sqlite::Transaction snapshot{*database, store::sqlite::Transaction::Kind::read};
    for (const Status status : statuses) summary.runs[status] = 0;
    Statement by_status{*database, "SELECT status, count(*) FROM semel_run GROUP BY status"};
    for (Rows rows = by_status.select(); rows.next();) {
      summary.runs[static_cast<Status>(rows.integer(0))] = rows.integer(1);
    }
    summary.timers = number(*database, "SELECT count(*) FROM semel_timer");
    summary.inbox_items = number(*database, "SELECT count(*) FROM semel_inbox");
    summary.entries = number(*database, "SELECT count(*) FROM semel_journal");
    return summary;
  } catch (const store::sqlite::Failed& failed) {
    throw Error("STORE_UNAVAILABLE", failed.fault().message);
  }
}

std::string status_word(Status status) {
  return std::string(to_string(static_cast<RunStatus>(status)));
}

std::optional<Status> status_of(const std::string& word) {
  for (const Status status : statuses) {
    if (status_word(status) == word) return status;
  }
  return std::nullopt;
}

}  // namespace semel::app
