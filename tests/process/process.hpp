// What the process tests have in common: programs that are started and killed, a ledger that survives them, a place to
// put both. Nothing started here outlives the test, whatever becomes of it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace semel::process {

/// A fresh directory under the system's temporary one; removed with everything in it, unless SEMEL_KEEP=1.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A program under way. Killed by the destructor, and by the kernel when this process dies.
class Child {
 public:
  /// Starts `command`; what it writes is appended to `log`.
  Child(const std::vector<std::string>& command, const std::filesystem::path& log);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  /// True once the program has said "ready" (see `say_ready`), false if it ended or the time passed before.
  bool is_ready_within(std::chrono::milliseconds patience);

  /// Waits for its end: the exit code, or minus the signal that killed it; nothing if it still runs after `patience`.
  std::optional<int> ends_within(std::chrono::microseconds patience);

  /// SIGKILL, and waits until it is gone.
  void kill();

  pid_t id() const { return id_; }

 private:
  pid_t id_ = -1;
  int handle_ = -1;  ///< pidfd: readable when the process has ended
  int ready_ = -1;   ///< readable when it has said "ready", or ended
};

/// For programs started by `Child`.
void say_ready();

/// What happened, one line each, in one order for all processes. A line that `append` returned from stays, whatever
/// happens to the process: the kernel has it. (Only a power cut could take it back, and we only kill.)
class Ledger {
 public:
  explicit Ledger(std::filesystem::path file);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;
  ~Ledger();

  /// Any thread. At most 127 bytes.
  void append(const std::string& line);

  std::vector<std::string> lines() const;

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
};

/// Does nothing for a while: between two looks at another process, which has no way to call back.
void pause(std::chrono::microseconds time);

/// Looks every few milliseconds until `holds` does; false if that takes longer than `patience`.
template <class F>
bool comes_true(F holds, std::chrono::seconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    pause(std::chrono::milliseconds{5});
  }
  return true;
}

/// Tells threads that go on until they are told, also where a failed REQUIRE leaves early and would wait for them for ever.
class StopsAtEnd {
 public:
  explicit StopsAtEnd(std::atomic<bool>& stopping) : stopping_(stopping) {}

  StopsAtEnd(const StopsAtEnd&) = delete;
  StopsAtEnd& operator=(const StopsAtEnd&) = delete;

  ~StopsAtEnd() { stopping_ = true; }

 private:
  std::atomic<bool>& stopping_;
};

/// One on loopback that is free now and that a server can have back after it was killed. No client is given such a port as its
/// own: one that connects to a port where nobody listens may otherwise get that very port, speak to itself, and keep it.
std::uint16_t port_to_return_to();

/// The words of a line.
std::vector<std::string> words(const std::string& line);

/// A number from the environment.
int setting(const char* name, int otherwise);

/// The text of a file, for messages; empty if there is none.
std::string text_of(const std::filesystem::path& file);

}  // namespace semel::process
