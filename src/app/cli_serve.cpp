#include "app/cli_serve.hpp"

#include "app/cli_log.hpp"
#include "app/cli_server.hpp"
#include "app/demo.hpp"
#include "base/clock.hpp"
#include "http/duration_text.hpp"

#include <semel/engine.hpp>
#include <semel/serve.hpp>

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace semel::app {

namespace {

using namespace std::chrono_literals;

constexpr auto requests_grace = 5s;
constexpr auto all_grace = 9500ms;

/// Ends the process where stopping in order takes too long: what was acknowledged is on disk, and a step that still runs
/// is begun anew by the next process, as after any crash.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds time)
      : thread_([this, time](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          changed_.wait_for(lock, stop, time, [] { return false; });
          if (!stop.stop_requested()) std::_Exit(0);
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread thread_;
};

std::string url_of(const std::string& host, std::uint16_t port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("http://[{}]:{}", host, port)
               : fmt::format("http://{}:{}", host, port);
}

/// For people to see. What is behind the user's name is nobody's business, nor are the parameters.
std::string shown(const std::string& store) {
  const std::size_t scheme = store.find("://");
  if (scheme == std::string::npos) return store;
  const std::size_t begin = scheme + 3;
  const std::size_t end = std::min(store.find_first_of("/?", begin), store.size());
  const std::size_t at = store.rfind('@', end);
  const std::size_t colon = store.find(':', begin);
  const bool has_password = at != std::string::npos && at > begin && colon < at;
  const std::string rest = store.substr(0, store.find('?'));
  return has_password ? rest.substr(0, colon) + rest.substr(at) : rest;
}

EngineOptions engine_options(const ServeCommand& command) {
  const auto lease = http::read_duration(command.lease);
  if (!lease || *lease < 1s)
    throw Error("VALIDATION_ERROR", "--lease " + command.lease + ": expected 1s or more, as 15s");
  EngineOptions options;
  options.node = command.node;
  options.lease = std::chrono::duration_cast<Millis>(*lease);
  return options;
}

LogLevel level_of(const std::string& text) {
  for (const LogLevel level :
       {LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error, LogLevel::off}) {
    if (text == level_text(level)) return level;
  }
  throw Error("VALIDATION_ERROR",
              "--log-level " + text + ": expected debug, info, warning, error or off");
}

/// Without a wish: text where somebody looks on, JSON where it goes elsewhere.
bool wants_json(const std::string& format) {
  if (format == "json" || format == "text") return format == "json";
  if (!format.empty())
    throw Error("VALIDATION_ERROR", "--log " + format + ": expected json or text");
  return ::isatty(STDERR_FILENO) == 0;
}

/// What commands print is on stdout; what happens meanwhile is told beside it.
Log log_to(LineWriter& lines, const ServeCommand& command) {
  return [&lines, is_json = wants_json(command.log), node = command.node,
          clock = base::SystemClock{}](const LogEvent& event) {
    const TimePoint now = clock.now();
    lines.add_or_drop(is_json ? json_line(event, now, node) : text_line(event, now));
  };
}

}  // namespace

int run_serve(const ServeCommand& command, const Workflows& workflows, Output output) {
  const auto [host, port] = address_of("--listen", command.listen);
  EngineOptions of_engine = engine_options(command);
  of_engine.log_level = level_of(command.log_level);
  LineWriter lines(output.err);
  of_engine.log = log_to(lines, command);
  const StopSignals signals;
  Engine engine{command.store, of_engine};
  for (const auto& add : workflows) add(engine);
  if (command.is_demo) add_demo(engine);
  engine.start_workers();
  http::ServerOptions options{.host = host, .port = port};
  options.threads = std::max(1U, std::thread::hardware_concurrency());
  options.stop_grace = requests_grace;
  const auto server = http::serve(engine, options, command.workspace);
  const std::string url = url_of(host, server->port());
  fmt::print(output.out, "semel: serving {} on {}\n", shown(command.store), url);
  if (command.is_demo) fmt::print(output.out, "{}", demo_text(url));
  output.out.flush();

  signals.wait();
  fmt::print(output.out, "semel: stopping\n");
  output.out.flush();
  const Deadline deadline(all_grace);
  server->stop();
  engine.stop();
  return 0;
}

}  // namespace semel::app
