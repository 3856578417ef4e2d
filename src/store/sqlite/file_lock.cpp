#include "store/sqlite/file_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace semel::store::sqlite {

namespace {

base::Fault refused(std::string message) { return {base::Errc::refused, std::move(message)}; }

/// Whatever the holder wrote: digits only, or nothing.
std::string holder_of(int descriptor) {
  std::array<char, 24> text{};
  const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
  std::string digits;
  for (ssize_t i = 0; i < size && text[static_cast<std::size_t>(i)] >= '0' &&
                      text[static_cast<std::size_t>(i)] <= '9';
       ++i) {
    digits.push_back(text[static_cast<std::size_t>(i)]);
  }
  return digits;
}

/// For people and messages only; nothing depends on it.
void write_holder(int descriptor) {
  const std::string text = fmt::format("{}\n", ::getpid());
  if (::ftruncate(descriptor, 0) == 0)
    static_cast<void>(::pwrite(descriptor, text.data(), text.size(), 0) == 0);
}

}  // namespace

base::Result<FileLock> FileLock::acquire(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return refused(fmt::format("cannot open {}: {}", path, std::system_category().message(errno)));
  }
  FileLock lock{descriptor};
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return refused(
          fmt::format("cannot lock {}: {}", path, std::system_category().message(errno)));
    }
    const std::string holder = holder_of(descriptor);
    return refused(fmt::format("{} is locked by {}: one process at a time owns a store", path,
                               holder.empty() ? "another process" : "process " + holder));
  }
  write_holder(descriptor);
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace semel::store::sqlite
