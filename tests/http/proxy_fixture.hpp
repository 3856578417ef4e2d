// A proxy in front of a real server, as tests of it need them.
#pragma once

#include "http/proxy.hpp"
#include "http/raw_client.hpp"
#include "tests/http/raw_server.hpp"

#include <semel/idempotency.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

namespace semel::http::proxy_fixture {

using namespace std::chrono_literals;
using testing::RawAnswer;
using testing::RawClient;
using testing::RawServer;

inline const base::SystemClock wall_clock;

/// A service that knows nothing of keys: it counts, and answers as the path and headers tell it to.
class Service final : public Handler {
 public:
  Service() : listener_(Listener::open({}, *this, wall_clock)) {}

  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  ~Service() override {
    open_gate();
    listener_->stop();
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(listener_->port()); }

  void open_gate() {
    std::vector<Responder> waiting;
    {
      const std::lock_guard lock(mutex_);
      is_open_ = true;
      waiting.swap(waiting_);
    }
    for (Responder& each : waiting) each.answer({200, {}, "through"});
  }

  void close_gate() {
    const std::lock_guard lock(mutex_);
    is_open_ = false;
  }

  /// Blocks until so many requests wait at the gate.
  void wait_for_waiting(std::size_t count) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, 20s, [&] { return waiting_.size() >= count; }));
  }

  std::size_t connections() const { return listener_->connections(); }

  /// The head of the last request as it came, lower case names.
  std::string last_head() {
    const std::lock_guard lock(mutex_);
    return head_;
  }

  /// Ends the stream of events.
  void end_events() {
    const std::lock_guard lock(mutex_);
    if (events_) events_->finish();
    events_.reset();
  }

  std::atomic<int> executed = 0;

 private:
  Admission admit(const Request& request, const ListenerLimits& limits) override {
    static_cast<void>(limits);
    return {.body_bytes_max = std::size_t{1} << 30U, .is_streamed = request.path == "/upload"};
  }

  void handle(const Request& request, Responder responder) override {
    const int number = ++executed;
    note(request);
    if (request.path == "/gate") {
      const std::lock_guard lock(mutex_);
      if (is_open_) {
        responder.answer({200, {}, "through"});
      } else {
        waiting_.push_back(std::move(responder));
        changed_.notify_all();
      }
    } else if (request.path == "/large") {
      responder.answer({200, {}, std::string(std::stoul(std::string(request.query)), 'x')});
    } else if (request.path == "/events") {
      const std::lock_guard lock(mutex_);
      events_ = std::make_unique<AnswerStream>(
          responder.stream({200, {{"Content-Type", "text/event-stream"}}, "data: first\n\n"}));
    } else if (request.path == "/upload") {
      BodyStream body = responder.body();
      echo(body, std::make_shared<AnswerStream>(responder.stream({200, {}, ""})));
    } else {
      const auto status = request.header("x-status");
      responder.answer({status ? std::stoi(std::string(*status)) : 200,
                        {{"Content-Type", "application/json"},
                         {"X-First", "1"},
                         {"X-Second", "a, b"},
                         {"Set-Cookie", "secret=1"},
                         {"Idempotency-Replayed", "true"}},
                        "{\"number\":" + std::to_string(number) + "}"});
    }
  }

  static void echo(BodyStream body, const std::shared_ptr<AnswerStream>& answer) {
    body.read([body, answer](BodyPart part) {
      if (part.state == BodyPart::State::lost) return;
      const bool is_last = part.state == BodyPart::State::last;
      answer->write(std::move(part.bytes), [body, answer, is_last](bool has_left) {
        if (has_left && !is_last) echo(body, answer);
        if (is_last) answer->finish();
      });
    });
  }

  void note(const Request& request) {
    std::string head = std::string(request.method) + " " + std::string(request.target) + "\r\n";
    for (const HeaderView& header : request.headers) {
      for (const char c : header.name) head += lower(c);
      head += ": " + std::string(header.value) + "\r\n";
    }
    const std::lock_guard lock(mutex_);
    head_ = head;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  std::vector<Responder> waiting_;
  std::unique_ptr<AnswerStream> events_;
  std::string head_;
  std::unique_ptr<Listener> listener_;
};

struct Sent {
  std::string method = "POST";
  std::string target = "/any";
  std::string headers{};  ///< whole lines
  std::string body = "{}";
};

inline std::string with_key(const std::string& key) { return "Idempotency-Key: " + key + "\r\n"; }

inline std::string text_of(const Sent& sent) {
  return sent.method + " " + sent.target + " HTTP/1.1\r\nHost: shop.example\r\n" + sent.headers +
         "Content-Type: application/json\r\nContent-Length: " + std::to_string(sent.body.size()) +
         "\r\n\r\n" + sent.body;
}

/// A proxy that remembers in memory.
class Front {
 public:
  explicit Front(const std::string& upstream, std::string_view config = "{}",
                 std::string_view preset = "default")
      : proxy_(Proxy::open(options(upstream, config, preset), *store, wall_clock)) {}

  RawAnswer send(const Sent& sent) const {
    RawClient client(proxy_->port());
    auto answer = client.send(text_of(sent)).receive(sent.method == "HEAD");
    REQUIRE(answer);
    return *answer;
  }

  RawAnswer send(const std::string& key, const Sent& sent = {}) const {
    Sent keyed = sent;
    keyed.headers += with_key(key);
    return send(keyed);
  }

  std::uint16_t port() const { return proxy_->port(); }

  void stop() const { proxy_->stop(); }

  std::vector<std::string> log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

  const std::unique_ptr<IdempotencyStore> store = memory_idempotency_store();

 private:
  ProxyOptions options(const std::string& upstream, std::string_view config,
                       std::string_view preset) {
    ProxyOptions options{.upstream = upstream, .config = read_proxy_config(preset, config)};
    options.log = [this](const AccessLine& line) {
      const std::lock_guard lock(mutex_);
      log_.push_back(line.method + " " + line.path + " " + std::to_string(line.status) + " " +
                     std::string(line.outcome));
    };
    return options;
  }

  std::mutex mutex_;
  std::vector<std::string> log_;
  std::unique_ptr<Proxy> proxy_;
};

inline bool is_replay(const RawAnswer& answer) { return answer.says("idempotency-replayed: true"); }

}  // namespace semel::http::proxy_fixture
