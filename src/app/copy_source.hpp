// The SQLite file that a workspace is moved from.
#pragma once

#include "store/sqlite/database.hpp"
#include "store/sqlite/file_lock.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace semel::app {

struct MoveMark {
  std::string copy;  ///< what the target knows it by
  std::string target;
  bool is_done = false;
};

/// Owned while it lasts: no engine has it open.
class CopySource {
 public:
  /// Throws Error.
  explicit CopySource(const std::string& url);

  store::sqlite::Database& database() { return *database_; }

  /// Of the workspace; none: there is no such workspace.
  std::optional<std::int64_t> workspace(const std::string& name);

  std::optional<MoveMark> mark(const std::string& workspace);
  void begin(const std::string& workspace, const MoveMark& mark);
  void finish(const std::string& workspace);
  void forget(const std::string& workspace);

  /// Workspaces that are not moved.
  std::vector<std::string> left_over();

  /// Its last owner did not leave in order: attempts may have been under way.
  bool was_cut_off();

  /// One number; 0 where there is none.
  std::int64_t number(const char* sql, std::int64_t parameter = 0);

 private:
  store::sqlite::FileLock lock_;
  std::shared_ptr<store::sqlite::Database> database_;
};

}  // namespace semel::app
