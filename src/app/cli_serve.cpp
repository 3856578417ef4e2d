#include "app/cli_serve.hpp"

#include "app/cli_server.hpp"
#include "app/demo.hpp"
#include "http/duration_text.hpp"

#include <semel/engine.hpp>
#include <semel/serve.hpp>

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

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

/// What commands print is on stdout; what happens meanwhile is told beside it.
void log_to_stderr() {
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("semel", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
}

}  // namespace

int run_serve(const ServeCommand& command, const Workflows& workflows, Output output) {
  const auto [host, port] = address_of("--listen", command.listen);
  const EngineOptions of_engine = engine_options(command);
  log_to_stderr();
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
