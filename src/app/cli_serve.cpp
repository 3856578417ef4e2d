#include "app/cli_serve.hpp"

#include "app/cli_server.hpp"
#include "app/demo.hpp"

#include <semel/engine.hpp>
#include <semel/serve.hpp>

#include <fmt/format.h>
#include <fmt/ostream.h>

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

}  // namespace

int run_serve(const ServeCommand& command, const Workflows& workflows, Output output) {
  const auto [host, port] = address_of("--listen", command.listen);
  const StopSignals signals;
  Engine engine{command.store};
  for (const auto& add : workflows) add(engine);
  if (command.is_demo) add_demo(engine);
  engine.start_workers();
  http::ServerOptions options{.host = host, .port = port};
  options.threads = std::max(1U, std::thread::hardware_concurrency());
  options.stop_grace = requests_grace;
  const auto server = http::serve(engine, options, command.workspace);
  const std::string url = url_of(host, server->port());
  fmt::print(output.out, "semel: serving {} on {}\n", command.store, url);
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
