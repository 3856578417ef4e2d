#include "app/cli_proxy.hpp"

#include "app/cli_server.hpp"
#include "base/clock.hpp"
#include "http/listener.hpp"
#include "http/proxy.hpp"
#include "http/proxy_admin.hpp"

#include <semel/engine.hpp>
#include <semel/error.hpp>
#include <semel/idempotency.hpp>
#include <semel/value.hpp>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
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

/// One line per request: when, what, what came of it. A path is all of a request that is shown. A thread of its own writes
/// whatever has come together since it last did, so that requests do not wait for whoever reads the log.
class AccessLog {
 public:
  explicit AccessLog(std::ostream& out)
      : out_(out), writer_([this](const std::stop_token& stop) { write(stop); }) {}

  void add(const http::AccessLine& line) {
    const std::string now = value::from_text(value::encode(clock_.now())).as_string().c_str();
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(line.took).count();
    const std::string text = fmt::format("{} {} {} {} {} {}.{:03}ms\n", now, line.method, line.path,
                                         line.status, line.outcome, micros / 1000, micros % 1000);
    std::unique_lock lock(mutex_);
    written_.wait(lock, [this] { return lines_.size() < bytes_max; });
    lines_ += text;
    added_.notify_one();
  }

 private:
  static constexpr std::size_t bytes_max = std::size_t{1} << 20U;  ///< then requests do wait

  /// Until it is asked to stop and nothing is left.
  void write(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (added_.wait(lock, stop, [this] { return !lines_.empty(); })) {
      const std::string lines = std::exchange(lines_, {});
      written_.notify_all();
      lock.unlock();
      out_ << lines << std::flush;
      lock.lock();
    }
  }

  std::ostream& out_;
  base::SystemClock clock_;
  std::mutex mutex_;
  std::condition_variable_any added_;
  std::condition_variable written_;
  std::string lines_;
  std::jthread writer_;  // the last: it ends before what it uses
};

}  // namespace

int run_proxy(const ProxyCommand& command, Output output) {
  const auto [host, port] = address_of("--listen", command.listen);
  http::ProxyOptions options{
      .upstream = command.upstream, .config = config_of(command), .host = host, .port = port};
  options.threads = std::max(1U, std::thread::hardware_concurrency());

  const StopSignals signals;
  AccessLog log(output.out);
  if (!command.is_quiet) options.log = [&log](const http::AccessLine& line) { log.add(line); };
  const base::SystemClock clock;
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
