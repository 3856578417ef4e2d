#include "app/copy_source.hpp"

#include "store/sqlite/schema.hpp"

#include <semel/error.hpp>

#include <filesystem>

namespace semel::app {

namespace {

using store::sqlite::Database;
using store::sqlite::FileLock;
using store::sqlite::Rows;
using store::sqlite::Statement;

std::string path_of(const std::string& url) {
  constexpr std::string_view scheme = "sqlite:";
  if (!url.starts_with(scheme) || url.size() == scheme.size())
    throw Error("VALIDATION_ERROR", "--from " + url + ": a workspace is moved from sqlite:FILE");
  std::string path = url.substr(scheme.size());
  if (!std::filesystem::exists(path))
    throw Error("STORE_UNAVAILABLE",
                "there is no file " + path + ": give the file the engine was opened with");
  return path;
}

FileLock lock_of(const std::string& path) {
  auto lock = FileLock::acquire(path + ".lock");
  if (!lock) {
    throw Error("STORE_UNAVAILABLE",
                lock.error().message + ": stop it, so that nothing moves while it is copied");
  }
  return *std::move(lock);
}

}  // namespace

CopySource::CopySource(const std::string& url)
    : lock_(lock_of(path_of(url))),
      database_(Database::open(path_of(url), Database::Access::write, {})) {
  store::sqlite::migrate(*database_);
  database_->checkpoint();
}

std::optional<std::int64_t> CopySource::workspace(const std::string& name) {
  Statement find{*database_, "SELECT workspace FROM semel_workspace WHERE name = ?1"};
  Rows rows = find.select(name);
  return rows.next() ? std::optional{rows.integer(0)} : std::nullopt;
}

std::optional<MoveMark> CopySource::mark(const std::string& workspace) {
  Statement find{*database_, "SELECT copy, target, is_done FROM semel_move WHERE workspace = ?1"};
  Rows rows = find.select(workspace);
  if (!rows.next()) return std::nullopt;
  return MoveMark{.copy = rows.text(0), .target = rows.text(1), .is_done = rows.integer(2) != 0};
}

void CopySource::begin(const std::string& workspace, const MoveMark& mark) {
  Statement{*database_,
            "INSERT INTO semel_move (workspace, copy, target, is_done) VALUES (?1, ?2, ?3, 0)"}
      .run(workspace, mark.copy, mark.target);
}

void CopySource::finish(const std::string& workspace) {
  Statement{*database_, "UPDATE semel_move SET is_done = 1 WHERE workspace = ?1"}.run(workspace);
}

void CopySource::forget(const std::string& workspace) {
  Statement{*database_, "DELETE FROM semel_move WHERE workspace = ?1"}.run(workspace);
}

std::vector<std::string> CopySource::left_over() {
  Statement find{*database_,
                 "SELECT name FROM semel_workspace WHERE name NOT IN"
                 " (SELECT workspace FROM semel_move) ORDER BY name"};
  std::vector<std::string> names;
  for (Rows rows = find.select(); rows.next();) names.push_back(rows.text(0));
  return names;
}

bool CopySource::was_cut_off() {
  return number("SELECT open FROM semel_node WHERE node = 1 AND ?1 = 0") != 0;
}

std::int64_t CopySource::number(const char* sql, std::int64_t parameter) {
  Statement statement{*database_, sql};
  Rows rows = statement.select(parameter);
  return rows.next() && !rows.is_null(0) ? rows.integer(0) : 0;
}

}  // namespace semel::app
