#include "app/cli_log.hpp"

#include "serve/text.hpp"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <utility>

namespace semel::app {

LineWriter::LineWriter(std::ostream& out)
    : out_(out), writer_([this](const std::stop_token& stop) { write(stop); }) {}

void LineWriter::add(std::string_view line) {
  std::unique_lock lock(mutex_);
  written_.wait(lock, [this] { return lines_.size() < bytes_max; });
  lines_ += line;
  added_.notify_one();
}

void LineWriter::add_or_drop(std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (lines_.size() >= bytes_max) {
    ++dropped_;
    return;
  }
  lines_ += line;
  added_.notify_one();
}

/// Until it is asked to stop and nothing is left.
void LineWriter::write(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (added_.wait(lock, stop, [this] { return !lines_.empty(); })) {
    std::string lines = std::exchange(lines_, {});
    const std::size_t dropped = std::exchange(dropped_, 0);
    written_.notify_all();
    lock.unlock();
    if (dropped > 0) {
      lines += fmt::format(
          R"({{"level":"warning","event":"log.dropped","message":"lines were left out: whoever reads the log is too slow","count":{}}})"
          "\n",
          dropped);
    }
    out_ << lines << std::flush;
    lock.lock();
  }
}

std::string json_line(const LogEvent& event, TimePoint time, const std::string& node) {
  boost::json::object line{{"time", serve::time_text(time)},
                           {"level", level_text(event.level)},
                           {"event", event.name},
                           {"message", event.message}};
  if (!node.empty()) line["node"] = node;
  for (const LogField& field : event.fields)
    std::visit([&](const auto& value) { line[field.name] = value; }, field.value);
  return boost::json::serialize(line) + "\n";
}

std::string text_line(const LogEvent& event, TimePoint time) {
  std::string line = fmt::format("{} {} {}: {}", serve::time_text(time), level_text(event.level),
                                 event.name, event.message);
  std::string_view separator = " (";
  for (const LogField& field : event.fields) {
    std::visit(
        [&](const auto& value) { line += fmt::format("{}{}={}", separator, field.name, value); },
        field.value);
    separator = ", ";
  }
  if (!event.fields.empty()) line += ")";
  // A name may have anything in it; a line is one line.
  for (char& each : line) {
    if (static_cast<unsigned char>(each) < 0x20U) each = ' ';
  }
  return line + "\n";
}

std::string_view level_text(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
    case LogLevel::off:
      break;
  }
  return "off";
}

}  // namespace semel::app
