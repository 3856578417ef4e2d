// What an engine tells about itself: events with a name and fields, for people and for machines.
//
// None has payloads, keys, tokens or secrets in it, nor what an exception says, which may have any of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace semel {

enum class LogLevel { debug, info, warning, error, off };

struct LogField {
  std::string_view name;
  std::variant<std::string, std::int64_t> value;
};

struct LogEvent {
  LogLevel level = LogLevel::info;
  std::string_view name;  ///< as "run.failed": always the same for the same thing
  std::string message;    ///< for people
  std::vector<LogField> fields;
};

/// Called on any thread, on several at a time; must neither block nor throw.
using Log = std::function<void(const LogEvent&)>;

}  // namespace semel
