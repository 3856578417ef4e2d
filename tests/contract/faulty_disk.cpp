#include "tests/contract/faulty_disk.hpp"

#include <sqlite3.h>

#include <atomic>
#include <cstring>
#include <filesystem>

namespace semel::store {

namespace {

void put(std::string& file, std::uint64_t position, const std::string& bytes) {
  if (file.size() < position + bytes.size()) file.resize(position + bytes.size());
  file.replace(position, bytes.size(), bytes);
}

bool ends_with(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

}  // namespace

/// The default VFS with our steps in front of writes, truncations and syncs.
struct FaultyDisk::Vfs {
  sqlite3_vfs base{};
  sqlite3_vfs* real = nullptr;
  FaultyDisk* disk = nullptr;

  /// SQLite allocates this with room for the real file behind it.
  struct Handle {
    sqlite3_file base;
    FaultyDisk* disk;
    const char*
        path;  ///< SQLite keeps it until the file is closed; null: a temporary file, which is left alone

    sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }

    bool is_tracked() const { return path != nullptr; }
  };

  static Handle& handle(sqlite3_file* file) { return *reinterpret_cast<Handle*>(file); }

  static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags,
                  int* out_flags) {
    Vfs& self = *reinterpret_cast<Vfs*>(vfs);
    Handle& opened = handle(file);
    opened.base.pMethods = nullptr;
    opened.disk = self.disk;
    opened.path = (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)) != 0 ? path : nullptr;
    const int result = self.real->xOpen(self.real, path, opened.real(), flags, out_flags);
    if (result != SQLITE_OK) return result;
    opened.base.pMethods = &methods;
    if (opened.is_tracked()) self.disk->files_.try_emplace(path);
    return SQLITE_OK;
  }

  static int remove(sqlite3_vfs* vfs, const char* path, int sync_directory) {
    Vfs& self = *reinterpret_cast<Vfs*>(vfs);
    self.disk->files_.erase(path);
    return self.real->xDelete(self.real, path, sync_directory);
  }

  static int write(sqlite3_file* file, const void* data, int size, sqlite3_int64 position) {
    Handle& opened = handle(file);
    if (opened.is_tracked()) {
      if (const int result = opened.disk->before(Operation::write, opened.path);
          result != SQLITE_OK)
        return result;
      opened.disk->files_[opened.path].unsynced.push_back(
          {.position = static_cast<std::uint64_t>(position),
           .bytes = std::string{static_cast<const char*>(data), static_cast<std::size_t>(size)}});
    }
    return opened.real()->pMethods->xWrite(opened.real(), data, size, position);
  }

  static int truncate(sqlite3_file* file, sqlite3_int64 size) {
    Handle& opened = handle(file);
    if (opened.is_tracked()) {
      opened.disk->files_[opened.path].unsynced.push_back(
          {.position = static_cast<std::uint64_t>(size), .bytes = "", .truncates = true});
    }
    return opened.real()->pMethods->xTruncate(opened.real(), size);
  }

  static int sync(sqlite3_file* file, int flags) {
    Handle& opened = handle(file);
    if (opened.is_tracked()) {
      if (const int result = opened.disk->before(Operation::sync, opened.path); result != SQLITE_OK)
        return result;
      File& content = opened.disk->files_[opened.path];
      for (const Unsynced& piece : content.unsynced) apply(content.synced, piece);
      content.unsynced.clear();
      if (ends_with(opened.path, "-wal")) ++opened.disk->wal_syncs_;
    }
    return opened.real()->pMethods->xSync(opened.real(), flags);
  }

  static void apply(std::string& content, const Unsynced& piece) {
    if (piece.truncates) {
      content.resize(piece.position);
    } else {
      put(content, piece.position, piece.bytes);
    }
  }

  // Everything else is the real file's.
  static int close(sqlite3_file* file) {
    return handle(file).real()->pMethods->xClose(handle(file).real());
  }

  static int read(sqlite3_file* file, void* data, int size, sqlite3_int64 position) {
    return handle(file).real()->pMethods->xRead(handle(file).real(), data, size, position);
  }

  static int file_size(sqlite3_file* file, sqlite3_int64* size) {
    return handle(file).real()->pMethods->xFileSize(handle(file).real(), size);
  }

  static int lock(sqlite3_file* file, int level) {
    return handle(file).real()->pMethods->xLock(handle(file).real(), level);
  }

  static int unlock(sqlite3_file* file, int level) {
    return handle(file).real()->pMethods->xUnlock(handle(file).real(), level);
  }

  static int check_reserved(sqlite3_file* file, int* out) {
    return handle(file).real()->pMethods->xCheckReservedLock(handle(file).real(), out);
  }

  static int control(sqlite3_file* file, int operation, void* argument) {
    return handle(file).real()->pMethods->xFileControl(handle(file).real(), operation, argument);
  }

  static int sector_size(sqlite3_file* file) {
    return handle(file).real()->pMethods->xSectorSize(handle(file).real());
  }

  /// Nothing is promised: not even that a write behind another one lands behind it.
  static int characteristics(sqlite3_file*) { return 0; }

  static int shm_map(sqlite3_file* file, int page, int size, int extend, void volatile** out) {
    return handle(file).real()->pMethods->xShmMap(handle(file).real(), page, size, extend, out);
  }

  static int shm_lock(sqlite3_file* file, int offset, int count, int flags) {
    return handle(file).real()->pMethods->xShmLock(handle(file).real(), offset, count, flags);
  }

  static void shm_barrier(sqlite3_file* file) {
    handle(file).real()->pMethods->xShmBarrier(handle(file).real());
  }

  static int shm_unmap(sqlite3_file* file, int remove_it) {
    return handle(file).real()->pMethods->xShmUnmap(handle(file).real(), remove_it);
  }

  static const sqlite3_io_methods methods;
};

// Version 2: with shared memory for the write-ahead log, without memory-mapped pages.
const sqlite3_io_methods FaultyDisk::Vfs::methods{
    .iVersion = 2,
    .xClose = close,
    .xRead = read,
    .xWrite = write,
    .xTruncate = truncate,
    .xSync = sync,
    .xFileSize = file_size,
    .xLock = lock,
    .xUnlock = unlock,
    .xCheckReservedLock = check_reserved,
    .xFileControl = control,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = characteristics,
    .xShmMap = shm_map,
    .xShmLock = shm_lock,
    .xShmBarrier = shm_barrier,
    .xShmUnmap = shm_unmap,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

FaultyDisk::FaultyDisk() : vfs_(std::make_unique<Vfs>()) {
  static std::atomic<int> count{0};
  name_ = "semel-faulty-" + std::to_string(++count);
  vfs_->real = sqlite3_vfs_find(nullptr);
  vfs_->disk = this;
  vfs_->base = *vfs_->real;
  vfs_->base.pNext = nullptr;
  vfs_->base.zName = name_.c_str();
  vfs_->base.szOsFile = static_cast<int>(sizeof(Vfs::Handle)) + vfs_->real->szOsFile;
  vfs_->base.xOpen = Vfs::open;
  vfs_->base.xDelete = Vfs::remove;
  sqlite3_vfs_register(&vfs_->base, 0);
}

FaultyDisk::~FaultyDisk() { sqlite3_vfs_unregister(&vfs_->base); }

void FaultyDisk::fail(Operation operation, std::uint64_t countdown, int code, std::string suffix) {
  failing_ = operation;
  fail_countdown_ = countdown;
  fail_code_ = code;
  fail_suffix_ = std::move(suffix);
  has_failed_ = false;
}

void FaultyDisk::heal() { fail_countdown_ = 0; }

void FaultyDisk::watch(std::uint64_t countdown, std::function<void()> look) {
  look_countdown_ = countdown;
  look_ = std::move(look);
}

void FaultyDisk::unwatch() { look_countdown_ = 0; }

int FaultyDisk::before(Operation operation, const std::string& path) {
  if (look_countdown_ > 0 && --look_countdown_ == 0) look_();
  if (fail_countdown_ == 0 || operation != failing_ || !ends_with(path, fail_suffix_))
    return SQLITE_OK;
  if (fail_countdown_ > 1) {
    --fail_countdown_;
    return SQLITE_OK;
  }
  has_failed_ = true;
  return fail_code_;
}

std::map<std::string, std::string> FaultyDisk::after_power_loss(base::SeededRandom& random) const {
  std::map<std::string, std::string> left;
  for (const auto& [path, file] : files_) {
    std::string content = file.synced;
    for (const Unsynced& piece : file.unsynced) {
      if (random.one_in(2)) Vfs::apply(content, piece);
    }
    left[std::filesystem::path{path}.filename().string()] = std::move(content);
  }
  return left;
}

}  // namespace semel::store
