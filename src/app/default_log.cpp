#include "app/default_log.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>
#include <variant>

namespace semel::app {

namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      break;
  }
  return spdlog::level::off;
}

void log_as_text(const LogEvent& event) {
  std::string fields;
  for (const LogField& field : event.fields)
    std::visit([&](const auto& value) { fields += fmt::format(" {}={}", field.name, value); },
               field.value);
  spdlog::log(level_of(event.level), "semel: {}: {}{}", event.name, event.message, fields);
}

}  // namespace

Log log_of(const EngineOptions& options) {
  return [log = options.log ? options.log : log_as_text,
          level = options.log_level](const LogEvent& event) {
    if (event.level >= level) log(event);
  };
}

}  // namespace semel::app
