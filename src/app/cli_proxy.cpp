#include "app/cli_proxy.hpp"

#include "app/cli_log.hpp"
#include "app/cli_server.hpp"
#include "base/clock.hpp"
#include "http/listener.hpp"
#include "http/proxy.hpp"
#include "http/proxy_admin.hpp"
#include "serve/text.hpp"

#include <semel/engine.hpp>
#include <semel/error.hpp>
#include <semel/idempotency.hpp>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

namespace semel::app {

namespace {

std::string text_of_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error("VALIDATION_ERROR", "--config " + file + " cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

http::ProxyConfig config_of(const ProxyCommand& command) {
  if (command.config_file.empty()) return http::read_proxy_config(command.preset);
  const std::string text = text_of_file(command.config_file);
  try {
    return http::read_proxy_config(command.preset, text);
  } catch (const Error& error) {
    throw Error("VALIDATION_ERROR", command.config_file + ": " + error.what());
  }
}

/// Where keys are remembered. On a file it is an engine without workers: it runs nothing, and its store is the same.
struct Keys {
  explicit Keys(const std::string& url) {
    if (url == "memory:") {
      memory = memory_idempotency_store();
    } else if (url.starts_with("sqlite:") && url.size() > 7) {
      engine = std::make_unique<Engine>(url);
    } else {
      throw Error("VALIDATION_ERROR",
                  "--store " + url + " names no store: write sqlite:FILE, or memory:");
    }
  }

  IdempotencyStore& store() { return engine ? engine->idempotency() : *memory; }

  std::unique_ptr<Engine> engine;
  std::unique_ptr<IdempotencyStore> memory;
};

/// When, what, what came of it. A path is all of a request that is shown.
std::string access_line(const http::AccessLine& line, TimePoint now) {
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(line.took).count();
  return fmt::format("{} {} {} {} {} {}.{:03}ms\n", serve::time_text(now), line.method, line.path,
                     line.status, line.outcome, micros / 1000, micros % 1000);
}

}  // namespace

int run_proxy(const ProxyCommand& command, Output output) {
  const auto [host, port] = address_of("--listen", command.listen);
  http::ProxyOptions options{
      .upstream = command.upstream, .config = config_of(command), .host = host, .port = port};
  options.threads = std::max(1U, std::thread::hardware_concurrency());

  const StopSignals signals;
  const base::SystemClock clock;
  LineWriter log(output.out);
  if (!command.is_quiet) {
    options.log = [&log, &clock](const http::AccessLine& line) {
      log.add(access_line(line, clock.now()));
    };
  }
  Keys keys(command.store);
  const auto admin_handler = http::make_proxy_admin(keys.store());
  std::unique_ptr<http::Listener> admin;
  if (!command.admin.empty()) {
    const auto [admin_host, admin_port] = address_of("--admin", command.admin);
    admin = http::Listener::open({.host = admin_host, .port = admin_port}, *admin_handler, clock);
    fmt::print(output.err, "semel: health and metrics on {}:{}\n", admin_host, admin->port());
  }
  const auto proxy = http::Proxy::open(options, keys.store(), clock);
  fmt::print(output.err, "semel: proxy on {}:{} in front of {}\n", host, proxy->port(),
             command.upstream);
  output.err.flush();

  signals.wait();
  fmt::print(output.err, "semel: stopping\n");
  output.err.flush();
  proxy->stop();
  if (admin) admin->stop();
  return 0;
}

}  // namespace semel::app
