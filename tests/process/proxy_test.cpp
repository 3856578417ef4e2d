// The proxy as a process: asked to stop, locked out, killed while clients retry.
#include "base/clock.hpp"
#include "http/listener.hpp"
#include "http/raw_client.hpp"
#include "tests/process/process.hpp"

#include <doctest/doctest.h>

#include <atomic>
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
    int times = 0;
    {
      const std::lock_guard lock(mutex_);
      times = ++executed_[key];
    }
    responder.answer({201, {}, "done " + key + " " + std::to_string(times) + "."});
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
    REQUIRE_MESSAGE(comes_true([this] { return listens(); }, 60s), text_of(log_));
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
    std::ofstream(file)
        << R"({"lease": "1s", "routes": [{"path": "/again", "onAbandoned": "run"}]})";
    return file.string();
  }

  bool listens() const {
    return text_of(log_).find("proxy on 127.0.0.1:" + std::to_string(port_)) != std::string::npos;
  }

  std::string upstream_;
  TemporaryDirectory directory_;
  int starts_ = 0;
  std::uint16_t port_ = port_to_return_to();
  std::filesystem::path log_;
  std::optional<Child> child_;
};

/// Nothing where there is no answer.
std::optional<RawAnswer> ask(std::uint16_t port, const std::string& key,
                             const std::string& path = "/orders") {
  try {
    RawClient client(port);
    return client
        .send("POST " + path +
              " HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nIdempotency-Key: " + key + "\r\n\r\n{}")
        .receive();
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

/// What all clients heard, by key; "unknown" where the outcome is.
struct Seen {
  std::mutex mutex;
  std::map<std::string, std::string> answers;
  std::vector<std::string> problems;
};

/// Sends each of its requests until it is answered for good, and then once more.
class Customer {
 public:
  Customer(int number, std::uint16_t port, Seen& seen, const std::atomic<bool>& stopping)
      : number_(number), port_(port), seen_(seen), stopping_(stopping) {}

  void run() {
    for (int n = 1; !stopping_; ++n) {
      for (const std::string path : {"orders", "again"}) {
        const std::string key = path + "-" + std::to_string(number_) + "-" + std::to_string(n);
        insist("/" + path, key);
        insist("/" + path, key);
      }
    }
  }

 private:
  void insist(const std::string& path, const std::string& key) {
    while (!stopping_) {
      const auto answer = ask(port_, key, path);
      const std::string code = answer ? answer->code() : "";
      // Cut off in the middle of the body it is no answer.
      const bool is_done = answer && answer->status == 201 && answer->body.ends_with('.');
      if (is_done || code == "OUTCOME_UNKNOWN")
        return heard(key, is_done ? answer->body : "unknown");
      if (answer && answer->status != 201 && code != "IDEMPOTENCY_IN_PROGRESS") {
        const std::lock_guard lock(seen_.mutex);
        seen_.problems.push_back(key + ": " + std::to_string(answer->status) + " " + code);
      }
      pause(25ms);
    }
  }

  void heard(const std::string& key, const std::string& body) {
    const std::lock_guard lock(seen_.mutex);
    const auto [known, is_new] = seen_.answers.emplace(key, body);
    if (known->second != body) seen_.problems.push_back(key + ": the answer has changed");
  }

  int number_;
  std::uint16_t port_;
  Seen& seen_;
  const std::atomic<bool>& stopping_;
};

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
  CHECK(first->body == "done k 1.");
  CHECK(second->body == "done k 1.");
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

TEST_CASE(
    "killed at any moment while clients insist, nothing is sent twice and no answer changes") {
  const int kills = setting("SEMEL_KILLS", 10);
  const auto seed = static_cast<unsigned>(setting("SEMEL_SEED", 7));
  CAPTURE(seed);
  Service service;
  ProxyProcess proxy(service.url());
  Seen seen;
  std::atomic<bool> stopping = false;
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < 64; ++i) {
      clients.emplace_back([&, i] { Customer(i, proxy.port(), seen, stopping).run(); });
    }
    const StopsAtEnd stops(stopping);
    std::mt19937 random(seed);
    for (int i = 0; i < kills; ++i) {
      pause(std::chrono::milliseconds{std::uniform_int_distribution<int>(1, 100)(random)});
      proxy.kill();
      proxy.start();
    }
    pause(3s);  // longer than a lease: whatever was cut off is answered
    comes_true(
        [&] {
          const std::lock_guard lock(seen.mutex);
          return seen.answers.size() > 64;
        },
        60s);
  }

  for (const std::string& problem : seen.problems) MESSAGE(problem);
  CHECK(seen.problems.empty());
  int unknown = 0;
  int again = 0;
  for (const auto& [key, answer] : seen.answers) {
    CAPTURE(key);
    const int executed = service.executed(key);
    if (key.starts_with("orders-")) {
      CHECK(executed <= 1);  // not even where nobody knows whether it was
      unknown += answer == "unknown" ? 1 : 0;
    } else {
      CHECK(executed >= 1);
      CHECK(answer != "unknown");
      again += executed > 1 ? 1 : 0;
    }
    if (answer != "unknown") CHECK(answer.starts_with("done " + key + " "));
  }
  CHECK(seen.answers.size() > 64);
  MESSAGE(kills << " kills, " << seen.answers.size() << " keys answered, " << unknown
                << " of unknown outcome, " << again << " sent again where that is allowed");
}

}  // namespace semel::process
