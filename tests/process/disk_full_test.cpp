// A full disk, for real: the store lies in a small file system of its own, which goes with this process.
#include "tests/process/process.hpp"

#include <semel/semel.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>

namespace semel::process {
namespace {

using namespace std::chrono_literals;

constexpr int clients = 4;

/// Takes up space until it is removed.
void put_ballast(const std::filesystem::path& file, std::size_t bytes) {
  std::ofstream out(file, std::ios::binary);
  const std::string block(1U << 16U, 'x');
  for (std::size_t written = 0; written < bytes; written += block.size()) out << block;
}

/// Empty, or why it cannot be had.
std::string mount_small(const std::filesystem::path& directory, const char* options) {
  // Only in a mount namespace of our own: nobody else sees it, and the kernel removes it with us.
  if (::unshare(CLONE_NEWNS) != 0) return fmt::format("unshare: {}", std::strerror(errno));
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return fmt::format("making mounts private: {}", std::strerror(errno));
  }
  if (::mount("tmpfs", directory.c_str(), "tmpfs", 0, options) != 0) {
    return fmt::format("mounting a tmpfs: {}", std::strerror(errno));
  }
  return {};
}

std::string text_for(int number) {
  return std::string(8'000, static_cast<char>('a' + number % 26));
}

Workflow<std::string> keeps(int number) {
  const auto text = co_await step("make", [number] { return text_for(number); });
  co_await sleep(1ms);
  co_return co_await step("keep", [text] { return text; });
}

/// What callers were told, from several threads.
struct Told {
  void acknowledged(int number, const std::string& id) {
    const std::lock_guard lock(mutex);
    runs[number] = id;
  }

  void refused(const Error& error) {
    const std::lock_guard lock(mutex);
    ++refusals[error.code()];
  }

  std::size_t refused_so_far() {
    const std::lock_guard lock(mutex);
    std::size_t count = 0;
    for (const auto& [code, times] : refusals) count += times;
    return count;
  }

  std::mutex mutex;
  std::map<int, std::string> runs;
  std::map<std::string, std::size_t> refusals;
};

void start_runs(Engine& engine, Told& told, int client, std::size_t refusals_max) {
  for (int number = client; told.refused_so_far() < refusals_max; number += clients) {
    try {
      told.acknowledged(number,
                        engine.start({.key = std::to_string(number)}, keeps, number).run.id());
    } catch (const Error& error) {
      told.refused(error);
      pause(10ms);
    }
  }
}

/// What this process writes, while it lives, into a file.
class Captured {
 public:
  explicit Captured(const std::filesystem::path& file) {
    std::cout.flush();
    const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    for (std::size_t i = 0; i < saved_.size(); ++i) ::dup2(descriptor, static_cast<int>(i) + 1);
    ::close(descriptor);
  }

  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  ~Captured() {
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      ::dup2(saved_[i], static_cast<int>(i) + 1);
      ::close(saved_[i]);
    }
  }

 private:
  std::array<int, 2> saved_{::dup(STDOUT_FILENO), ::dup(STDERR_FILENO)};
};

/// A run's result; empty where there is none.
std::string result_of(const Run& run) {
  try {
    return run.result<std::string>(60s);
  } catch (const Error&) {
    return {};
  }
}

/// Starts runs until the disk has been full for a while, then makes space. True if all goes on as if nothing had been.
bool fill_and_free(const std::string& url, const std::filesystem::path& ballast, Told& told) {
  Engine engine{url};
  engine.add("keeps", keeps);
  engine.start_workers();
  std::vector<std::jthread> threads;
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&, client] { start_runs(engine, told, client, 200); });
  }
  threads.clear();

  std::filesystem::remove(ballast);
  const bool recovered = comes_true(
      [&] {
        try {
          return engine.start({.key = "after"}, keeps, 1).run.result<std::string>(10s) ==
                 text_for(1);
        } catch (const Error&) {
          return false;
        }
      },
      60s);
  return recovered && std::ranges::all_of(told.runs, [&](const auto& run) {
           return result_of(engine.run(run.second)) == text_for(run.first);
         });
}

TEST_CASE(
    "with the disk full nothing more is acknowledged; with space again all that was acknowledged "
    "finishes") {
  const TemporaryDirectory logs;
  const TemporaryDirectory directory;
  if (const auto why = mount_small(directory.path(), "size=12m"); !why.empty()) {
    MESSAGE("skipped: it takes the right to mount a small file system (" << why << ")");
    return;
  }
  const auto ballast = directory.path() / "ballast";
  put_ballast(ballast, 6U << 20U);
  const std::string url = "sqlite:" + (directory.path() / "runs.db").string();
  Told told;

  bool goes_on = false;
  {
    const Captured captured(logs.path() / "log");
    goes_on = fill_and_free(url, ballast, told);
  }

  const std::string said = text_of(logs.path() / "log");
  CAPTURE(said);
  CHECK(goes_on);
  CHECK(!told.runs.empty());
  REQUIRE(told.refusals.size() == 1);
  CHECK(told.refusals.begin()->first == "STORE_UNAVAILABLE");
  CHECK(said.find("the store was lost") != std::string::npos);
  CHECK(said.find("disk is full") != std::string::npos);
  CHECK(said.find("the store is open again") != std::string::npos);
  Engine again{url};
  for (const auto& [number, id] : told.runs)
    REQUIRE(again.run(id).status() == RunStatus::completed);
  MESSAGE(fmt::format("{} starts acknowledged before and while the disk was full, {} refused",
                      told.runs.size(), told.refused_so_far()));
}

}  // namespace
}  // namespace semel::process
