// One process owns a store's file. The lock is on a file of its own: closing any descriptor of the database would drop
// the locks SQLite holds on it.
#pragma once

#include "base/result.hpp"

#include <string>

namespace semel::store::sqlite {

/// Held until it is destroyed or the process ends, however it ends.
class FileLock {
 public:
  /// Locks `path`, which is made if it is not there and never removed: a remover could take away the file that another
  /// process has just locked. `Errc::refused` where somebody holds it, with the process's id if it is known.
  static base::Result<FileLock> acquire(const std::string& path);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace semel::store::sqlite
