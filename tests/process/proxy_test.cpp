// The proxy as a process: asked to stop, locked out, killed while clients retry.
#include "base/clock.hpp"
#include "http/listener.hpp"
#include "http/raw_client.hpp"
#include "tests/process/process.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace semel::process {
namespace {

using namespace std::chrono_literals;
using http::testing::RawAnswer;
using http::testing::RawClient;

/// The service behind the proxy; it outlives all of them and knows how often it did what.
class Service final : public http::Handler {
 public:
  Service() : listener_(http::Listener::open({}, *this, clock_)) {}

  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  ~Service() override { listener_->stop(); }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(listener_->port()); }

  int executed(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return executed_[key];
  }

 private:
  void handle(const http::Request& request, http::Responder responder) override {
    const std::string key(request.header("idempotency-key").value_or(""));
    {
      const std::lock_guard lock(mutex_);
      ++executed_[key];
    }
    responder.answer({201, {}, "done " + key});
  }

  const base::SystemClock clock_;
  std::mutex mutex_;
  std::map<std::string, int> executed_;
  std::unique_ptr<http::Listener> listener_;
};

/// A proxy in a process of its own. Started again it has the same port and file.
class ProxyProcess {
 public:
  explicit ProxyProcess(const std::string& upstream) : upstream_(upstream) { start(); }

  void start() {
    ++starts_;
    log_ = directory_.path() / ("log" + std::to_string(starts_));
    child_.emplace(command(std::to_string(port_)), log_);
    REQUIRE_MESSAGE(comes_true([this] { return read_port(); }, 60s), text_of(log_));
  }

  void kill() { child_->kill(); }

  Child& child() { return *child_; }

  std::uint16_t port() const { return port_; }

  std::string file() const { return (directory_.path() / "keys.db").string(); }

  std::vector<std::string> command(const std::string& port) const {
    return {SEMEL_SEMEL_CLI, "proxy",   "--listen",         "127.0.0.1:" + port, "--upstream",
            upstream_,       "--store", "sqlite:" + file(), "--config",          config()};
  }

  const std::filesystem::path& directory() const { return directory_.path(); }

 private:
  std::string config() const {
    const std::filesystem::path file = directory_.path() / "proxy.json";
    std::ofstream(file) << R"({"lease": "1s"})";
    return file.string();
  }

  bool read_port() {
    constexpr std::string_view before = "proxy on 127.0.0.1:";
    const std::string text = text_of(log_);
    const std::size_t at = text.find(before);
    if (at == std::string::npos || text.find(' ', at + before.size()) == std::string::npos)
      return false;
    port_ = static_cast<std::uint16_t>(std::stoi(text.substr(at + before.size())));
    return true;
  }

  std::string upstream_;
  TemporaryDirectory directory_;
  int starts_ = 0;
  std::uint16_t port_ = 0;
  std::filesystem::path log_;
  std::optional<Child> child_;
};

/// Nothing where there is no answer.
std::optional<RawAnswer> ask(std::uint16_t port, const std::string& key) {
  try {
    RawClient client(port);
    return client
        .send("POST /orders HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nIdempotency-Key: " + key +
              "\r\n\r\n{}")
        .receive();
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

}  // namespace

TEST_CASE("asked to stop, a proxy ends with 0, and the next one replays what it answered") {
  Service service;
  ProxyProcess proxy(service.url());
  const auto first = ask(proxy.port(), "k");

  ::kill(proxy.child().id(), SIGTERM);
  const auto code = proxy.child().ends_within(20s);
  proxy.start();
  const auto second = ask(proxy.port(), "k");

  CHECK(code == 0);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->body == "done k");
  CHECK(second->body == "done k");
  CHECK(second->says("idempotency-replayed: true"));
  CHECK(service.executed("k") == 1);
}

TEST_CASE("a second proxy on the same file refuses to start and names it") {
  Service service;
  ProxyProcess proxy(service.url());

  const std::filesystem::path log = proxy.directory() / "second";
  Child second(proxy.command("0"), log);
  const auto code = second.ends_within(20s);

  CHECK(code == 1);
  CHECK(text_of(log).find(proxy.file()) != std::string::npos);
  CHECK(ask(proxy.port(), "k").has_value());
}

TEST_CASE("killed at any moment while clients retry, nothing is executed twice") {
  const int kills = setting("SEMEL_KILLS", 10);
  const int keys_each = kills * 2;
  const auto seed = static_cast<unsigned>(setting("SEMEL_SEED", 7));
  CAPTURE(seed);
  Service service;
  ProxyProcess proxy(service.url());
  const std::uint16_t port = proxy.port();
  std::mutex mutex;
  std::map<std::string, std::string> outcomes;  ///< by key: the body, or "unknown"

  {
    std::vector<std::jthread> clients;
    for (int client = 0; client < 4; ++client) {
      clients.emplace_back([&, client] {
        for (int i = 0; i < keys_each; ++i) {
          const std::string key = std::to_string(client) + "-" + std::to_string(i);
          const auto until = std::chrono::steady_clock::now() + 60s;
          while (std::chrono::steady_clock::now() < until) {
            const auto answer = ask(port, key);
            const bool is_unknown = answer && answer->code() == "OUTCOME_UNKNOWN";
            if (is_unknown || (answer && answer->status == 201)) {
              const std::lock_guard lock(mutex);
              outcomes[key] = is_unknown ? "unknown" : answer->body;
              break;
            }
            pause(5ms);
          }
          pause(5ms);
        }
      });
    }
    std::mt19937 random(seed);
    for (int i = 0; i < kills; ++i) {
      pause(std::chrono::milliseconds{std::uniform_int_distribution<int>(1, 100)(random)});
      proxy.kill();
      proxy.start();
    }
  }

  CHECK(outcomes.size() == static_cast<std::size_t>(4 * keys_each));
  int done = 0;
  for (const auto& [key, outcome] : outcomes) {
    CAPTURE(key);
    CHECK(service.executed(key) <= 1);
    if (outcome == "unknown") continue;
    ++done;
    CHECK(outcome == "done " + key);
    CHECK(service.executed(key) == 1);
    const auto again = ask(port, key);
    REQUIRE(again);
    CHECK(again->body == outcome);
    CHECK(again->says("idempotency-replayed: true"));
  }
  CHECK(done > 0);
}

}  // namespace semel::process
