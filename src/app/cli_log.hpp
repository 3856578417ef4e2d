// The log of a server: one line per event, as JSON for machines or as text for people.
#pragma once

#include <semel/log.hpp>
#include <semel/options.hpp>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>

namespace semel::app {

/// Lines that a thread of its own writes, whatever has come together since it last did: who adds one does not wait for
/// whoever reads them.
class LineWriter {
 public:
  explicit LineWriter(std::ostream& out);

  /// Waits where too much has come together.
  void add(std::string_view line);

  /// Leaves the line out where too much has come together, and says so once there is room.
  void add_or_drop(std::string_view line);

 private:
  static constexpr std::size_t bytes_max = std::size_t{1} << 20U;

  void write(const std::stop_token& stop);

  std::ostream& out_;
  std::mutex mutex_;
  std::condition_variable_any added_;
  std::condition_variable written_;
  std::string lines_;
  std::size_t dropped_ = 0;
  std::jthread writer_;  // the last: it ends before what it uses
};

/// {"time":…,"level":…,"event":…,"message":…} and its fields; with its line feed. `node` where it is not empty.
std::string json_line(const LogEvent& event, TimePoint time, const std::string& node);

/// 2026-01-31T12:00:00.000Z info run.failed: a run failed (run=…, workspace=…)
std::string text_line(const LogEvent& event, TimePoint time);

std::string_view level_text(LogLevel level);

}  // namespace semel::app
