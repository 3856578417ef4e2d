// A disk that can be full, fail to sync, or lose power, between SQLite and the files it writes.
//
// Every write goes through to the real file. Beside it the disk remembers what each file would look like after a loss of
// power: what was synced is there; of what was written since, any part may be.
#pragma once

#include "base/random.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace semel::store {

class FaultyDisk {
 public:
  FaultyDisk();
  ~FaultyDisk();
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;

  /// The name SQLite knows it by.
  const char* vfs() const { return name_.c_str(); }

  enum class Operation { write, sync };

  /// The `countdown`-th such operation from now on (1: the next), and all after it, fail with this SQLite code. Limited to
  /// files whose name ends so.
  void fail(Operation operation, std::uint64_t countdown, int code, std::string suffix = "");
  void heal();

  bool has_failed() const { return has_failed_; }

  /// Calls `look` before the `countdown`-th write or sync from now on.
  void watch(std::uint64_t countdown, std::function<void()> look);
  void unwatch();

  std::uint64_t wal_syncs() const { return wal_syncs_; }

  /// The files as a loss of power right now would leave them, by name without directory. Each piece that is not synced
  /// yet is there or not, as `random` decides.
  std::map<std::string, std::string> after_power_loss(base::SeededRandom& random) const;

 private:
  struct Vfs;
  friend struct Vfs;

  /// What is not synced: bytes put at a position, or (without bytes) a new size.
  struct Unsynced {
    std::uint64_t position = 0;
    std::string bytes;
    bool truncates = false;
  };

  struct File {
    std::string synced;
    std::vector<Unsynced> unsynced;
  };

  /// SQLITE_OK, or the failure that was asked for.
  int before(Operation operation, const std::string& path);

  std::string name_;
  std::unique_ptr<Vfs> vfs_;
  std::map<std::string, File> files_;
  std::function<void()> look_;
  std::uint64_t look_countdown_ = 0;
  Operation failing_ = Operation::write;
  std::uint64_t fail_countdown_ = 0;
  int fail_code_ = 0;
  std::string fail_suffix_;
  bool has_failed_ = false;
  std::uint64_t wal_syncs_ = 0;
};

}  // namespace semel::store
