// What the tests of the public surface share.
#pragma once

#include <semel/semel.hpp>
#include <semel/testing.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <coroutine>
#include <cstdlib>
#include <deque>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace semel::test {

using namespace std::chrono_literals;

using Strings = std::vector<std::string>;

/// The code of the error that `call` throws; "nothing" if it throws none.
template <class F>
std::string code_of(F&& call) {
  try {
    std::forward<F>(call)();
  } catch (const Error& error) {
    return error.code();
  }
  return "nothing";
}

/// The `E` that `call` throws.
template <class E, class F>
E thrown(F&& call) {
  try {
    std::forward<F>(call)();
  } catch (const E& error) {
    return error;
  }
  FAIL("nothing was thrown");
  std::abort();
}

/// What the entries of a run's journal are.
inline Strings kinds(const Run& run) {
  Strings found;
  for (const Entry& entry : run.journal()) found.push_back(entry.kind);
  return found;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Where the body of a Task step waits until the test lets it go: in flight, while the clock is
/// moved and the engine asked for other things. All must have left before their engine goes.
class Gate {
 public:
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  ~Gate() { CHECK(waiting_.empty()); }

  std::size_t waiting() const { return waiting_.size(); }

  /// The one that has waited longest goes on.
  void open_one() {
    REQUIRE(!waiting_.empty());
    const auto next = waiting_.front();
    waiting_.pop_front();
    next.resume();
  }

  void open() {
    while (!waiting_.empty()) open_one();
  }

  bool await_ready() const { return false; }

  void await_suspend(std::coroutine_handle<> waiting) { waiting_.push_back(waiting); }

  void await_resume() const {}

 private:
  std::deque<std::coroutine_handle<>> waiting_;
};

/// A directory that goes with its owner.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "semel-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }

  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  /// The URL of a store in it.
  std::string url(const std::string& name = "semel.db") const {
    return "sqlite:" + (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace semel::test
