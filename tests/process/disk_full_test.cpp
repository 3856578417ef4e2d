// A full disk, for real: the store lies in a small file system of its own, which goes with this process.
#include "tests/process/process.hpp"

#include <semel/semel.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sched.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
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

std::string text_for(int number) { return std::string(8'000, static_cast<char>('a' + number % 26)); }

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
      told.acknowledged(number, engine.start({.key = std::to_string(number)}, keeps, number).run.id());
    } catch (const Error& error) {
      told.refused(error);
      pause(10ms);
    }
  }
}

TEST_CASE("with the disk full nothing more is acknowledged; with space again all that was acknowledged finishes") {
  TemporaryDirectory directory;
  if (const auto why = mount_small(directory.path(), "size=12m"); !why.empty()) {
    MESSAGE("skipped: it takes the right to mount a small file system (" << why << ")");
    return;
  }
  std::ostringstream log;
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  const auto ballast = directory.path() / "ballast";
  put_ballast(ballast, 6U << 20U);
  const std::string url = "sqlite:" + (directory.path() / "runs.db").string();
  Told told;
  {
    Engine engine{url};
    engine.add("keeps", keeps);
    engine.start_workers();

    std::vector<std::jthread> threads;
    for (int client = 0; client < clients; ++client) {
      threads.emplace_back([&, client] { start_runs(engine, told, client, 200); });
    }
    threads.clear();
    REQUIRE(told.refusals.size() == 1);
    CHECK(told.refusals.begin()->first == "STORE_UNAVAILABLE");
    CHECK(!told.runs.empty());

    std::filesystem::remove(ballast);
    const bool recovered = comes_true(
        [&] {
          try {
            return engine.start({.key = "after"}, keeps, 1).run.result<std::string>(10s) == text_for(1);
          } catch (const Error&) {
            return false;
          }
        },
        60s);
    REQUIRE(recovered);
    for (const auto& [number, id] : told.runs) {
      CAPTURE(number);
      REQUIRE(engine.run(id).result<std::string>(60s) == text_for(number));
    }
  }
  const std::string said = log.str();
  CAPTURE(said);
  CHECK(said.find("the store was lost") != std::string::npos);
  CHECK(said.find("the store is open again") != std::string::npos);

  Engine again{url};
  for (const auto& [number, id] : told.runs) REQUIRE(again.run(id).status() == RunStatus::completed);
  MESSAGE(fmt::format("{} starts acknowledged before and while the disk was full, {} refused", told.runs.size(),
                      told.refused_so_far()));
}

}  // namespace
}  // namespace semel::process
