// The proxy as a client sees it, in front of a real server. Cases have numbers, so that a failure names the line of the table.
#include "http/proxy.hpp"

#include "http/proxy_admin.hpp"
#include "http/raw_client.hpp"
#include "idempotency/kernel.hpp"
#include "tests/http/raw_server.hpp"

#include <semel/idempotency.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace semel::http {

namespace {

using namespace std::chrono_literals;
using testing::RawAnswer;
using testing::RawClient;
using testing::RawServer;

const base::SystemClock wall_clock;

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

std::string with_key(const std::string& key) { return "Idempotency-Key: " + key + "\r\n"; }

std::string text_of(const Sent& sent) {
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

bool is_replay(const RawAnswer& answer) { return answer.says("idempotency-replayed: true"); }

}  // namespace

TEST_CASE("X: the same key is executed once and answered with the same bytes") {
  Service service;
  Front front(service.url());

  const RawAnswer first = front.send("x1");
  const RawAnswer second = front.send("x1");
  const RawAnswer quoted = front.send("\"x1\"");

  CHECK(service.executed == 1);
  CHECK(first.status == 200);
  CHECK_FALSE(is_replay(first));
  CHECK(first.says("set-cookie: secret=1"));
  CHECK(second.status == 200);
  CHECK(second.body == first.body);
  CHECK(is_replay(second));
  CHECK(second.says("x-first: 1\r\nx-second: a, b\r\n"));
  CHECK_FALSE(second.says("set-cookie"));
  CHECK(is_replay(quoted));
  CHECK(front.log() == std::vector<std::string>{"POST /any 200 executed", "POST /any 200 replayed",
                                                "POST /any 200 replayed"});
}

TEST_CASE("X: what has no key passes through each time") {
  Service service;
  Front front(service.url());

  const RawAnswer first = front.send(Sent{});
  const RawAnswer second = front.send(Sent{});
  const RawAnswer get = front.send("x2", {.method = "GET", .body = ""});
  const RawAnswer again = front.send("x2", {.method = "GET", .body = ""});
  const RawAnswer put = front.send("x2", {.method = "PUT"});

  CHECK(service.executed == 5);
  for (const RawAnswer& answer : {first, second, get, again, put}) {
    CHECK(answer.status == 200);
    CHECK_FALSE(is_replay(answer));
  }
}

TEST_CASE("X: what the proxy refuses is not executed and does not consume the key") {
  struct Case {
    std::string number;
    Sent sent;
    int status;
    std::string code;
  };

  Service service;
  Front front(service.url(), R"({"maxBody": 100, "routes": [{"path": "/required", "required": true},
                                {"path": "/tenant", "scope": "header:X-Tenant"}]})");
  const std::vector<Case> cases{
      {"X10", {.headers = with_key("a,b")}, 400, "IDEMPOTENCY_KEY_INVALID"},
      {"X11", {.headers = with_key("a") + with_key("b")}, 400, "IDEMPOTENCY_KEY_INVALID"},
      {"X12", {.target = "/required"}, 400, "IDEMPOTENCY_KEY_REQUIRED"},
      {"X13", {.headers = with_key("x") + "Cookie: a=b\r\n"}, 400, "IDEMPOTENCY_SCOPE_REQUIRED"},
      {"X14", {.target = "/tenant", .headers = with_key("x")}, 400, "IDEMPOTENCY_SCOPE_REQUIRED"},
      {"X15",
       {.target = "/tenant", .headers = with_key("x") + "X-Tenant:\r\n"},
       400,
       "IDEMPOTENCY_SCOPE_REQUIRED"},
      {"X16", {.headers = with_key("x"), .body = std::string(101, '1')}, 413, "PAYLOAD_TOO_LARGE"}};
  for (const Case& each : cases) {
    CAPTURE(each.number);
    const RawAnswer answer = front.send(each.sent);
    CHECK(answer.status == each.status);
    CHECK(answer.code() == each.code);
  }
  CHECK(service.executed == 0);

  CHECK(front.send("x", {.body = std::string(100, '1')}).status == 200);
  CHECK(front.send(Sent{.body = std::string(101, '1')}).status == 200);  // without a key: no limit
}

TEST_CASE("X: JSON nested more deeply than is compared is refused") {
  Service service;
  Front front(service.url());

  const RawAnswer deep = front.send("d", {.body = std::string(65, '[') + std::string(65, ']')});
  const RawAnswer fine = front.send("d", {.body = std::string(64, '[') + std::string(64, ']')});

  CHECK(deep.status == 413);
  CHECK(fine.status == 200);
  CHECK(service.executed == 1);
}

TEST_CASE("X: another request under the same key is a conflict") {
  Service service;
  Front front(service.url());
  Front ietf(service.url(), "{}", "ietf");
  Front stripe(service.url(), "{}", "stripe");

  for (Front* each : {&front, &ietf, &stripe}) CHECK(each->send("c").status == 200);
  const RawAnswer other = front.send("c", {.body = "{\"a\":1}"});
  const RawAnswer same = front.send("c", {.body = " { } "});
  const RawAnswer elsewhere = front.send("c", {.target = "/other"});

  CHECK(other.status == 409);
  CHECK(other.code() == "IDEMPOTENCY_CONFLICT");
  CHECK(is_replay(same));
  CHECK_FALSE(is_replay(elsewhere));
  CHECK(ietf.send("c", {.body = "{\"a\":1}"}).status == 422);
  CHECK(stripe.send("c", {.target = "/other"}).status == 400);
}

TEST_CASE("X: which answers are kept") {
  struct Case {
    int status;
    bool is_kept;
  };

  Service service;
  Front front(service.url());
  for (const Case& each : std::vector<Case>{{201, true},
                                            {400, true},
                                            {422, true},
                                            {302, true},
                                            {401, false},
                                            {409, false},
                                            {429, false},
                                            {500, false},
                                            {503, false}}) {
    CAPTURE(each.status);
    const Sent sent{.headers = "X-Status: " + std::to_string(each.status) + "\r\n"};
    const std::string key = "s" + std::to_string(each.status);
    const RawAnswer first = front.send(key, sent);
    const RawAnswer second = front.send(key, sent);
    CHECK(first.status == each.status);
    CHECK(second.status == each.status);
    CHECK(is_replay(second) == each.is_kept);
    CHECK((second.body == first.body) == each.is_kept);
  }
}

TEST_CASE("X: duplicates of a request under way wait for it or are told") {
  Service service;
  Front front(service.url(), R"({"waitDefault": "30s"})");
  Front impatient(service.url(), R"({"inFlight": "reject"})");
  const Sent gate{.target = "/gate", .headers = with_key("w")};

  RawClient first(front.port());
  first.send(text_of(gate));
  service.wait_for_waiting(1);
  RawClient second(front.port());
  second.send(text_of(gate));
  RawClient owner(impatient.port());
  owner.send(text_of(gate));
  service.wait_for_waiting(2);
  const RawAnswer told = impatient.send(gate);
  service.open_gate();
  const auto answer = first.receive();
  const auto replay = second.receive();

  CHECK(told.status == 409);
  CHECK(told.code() == "IDEMPOTENCY_IN_PROGRESS");
  CHECK(told.says("retry-after: 1"));
  REQUIRE(answer);
  REQUIRE(replay);
  CHECK(answer->body == "through");
  CHECK(replay->body == "through");
  CHECK(is_replay(*replay));
  CHECK(service.executed == 2);
}

TEST_CASE("X: a client that goes away does not stop its request; its retry gets the answer") {
  Service service;
  Front front(service.url(), R"({"waitDefault": "30s"})");
  const Sent gate{.target = "/gate", .headers = with_key("gone")};

  RawClient client(front.port());
  client.send(text_of(gate));
  service.wait_for_waiting(1);
  client.reset();
  service.open_gate();
  const RawAnswer retry = front.send(gate);

  CHECK(retry.status == 200);
  CHECK(is_replay(retry));
  CHECK(service.executed == 1);
}

// ------------------------------------------------------------------------------------------------ abandoned

TEST_CASE("A: an upstream that breaks after the request was sent leaves the outcome unknown") {
  struct Case {
    std::string number;
    std::string answer;  ///< what the server says before it closes
  };

  const std::vector<Case> cases{
      {"A01", ""},
      {"A02", "HTTP/1.1 200 OK\r\n"},
      {"A03", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhal"},
      {"A04", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
      {"A05", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na"},
      {"A06", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na"},
      {"A07", "HTTP/1.1 101 Switching Protocols\r\n\r\n"},
      {"A08", "SSH-2.0-OpenSSH\r\n\r\n"},
      {"A09", "HTTP/1.1 600 What\r\nContent-Length: 0\r\n\r\n"}};
  for (const Case& each : cases) {
    CAPTURE(each.number);
    RawServer server({each.answer});
    Front front(server.url());
    Front again(server.url(), R"({"onAbandoned": "run"})");

    const RawAnswer first = front.send("k");
    const RawAnswer second = front.send("k");
    const RawAnswer runs = again.send("k");
    const RawAnswer reruns = again.send("k");

    CHECK(first.status == 502);
    CHECK(first.code() == "UPSTREAM_UNAVAILABLE");
    CHECK(second.status == 409);
    CHECK(second.code() == "OUTCOME_UNKNOWN");
    CHECK(runs.status == 502);
    CHECK(reruns.status == 502);
    CHECK(server.requests() == 3);  // each sent once: the unknown one is not sent again
  }
}

TEST_CASE("A: an upstream that takes too long is 504, and the outcome is unknown") {
  Service service;
  Front front(service.url(), R"({"upstreamTimeout": "2s"})");
  const Sent gate{.target = "/gate"};

  const RawAnswer late = front.send("t", gate);
  const RawAnswer again = front.send("t", gate);
  const RawAnswer unkeyed = front.send(gate);

  CHECK(late.status == 504);
  CHECK(late.code() == "UPSTREAM_TIMEOUT");
  CHECK(again.code() == "OUTCOME_UNKNOWN");
  CHECK(unkeyed.status == 504);
  CHECK(service.executed == 2);
}

TEST_CASE("A: an upstream that cannot be reached is 502, and the key is free") {
  std::uint16_t port = 0;
  {
    const RawServer closed({});
    port = closed.port();
  }
  Front front("http://127.0.0.1:" + std::to_string(port));

  const RawAnswer first = front.send("u");
  const RawAnswer second = front.send("u");
  const RawAnswer unkeyed = front.send(Sent{});

  for (const RawAnswer& answer : {first, second, unkeyed}) {
    CHECK(answer.status == 502);
    CHECK(answer.code() == "UPSTREAM_UNAVAILABLE");
  }
}

TEST_CASE("A: an owner that lost its key passes the answer on and stores nothing") {
  Service service;
  Front front(service.url());
  const Sent gate{.target = "/gate", .headers = with_key("lost")};

  RawClient client(front.port());
  client.send(text_of(gate));
  service.wait_for_waiting(1);
  const auto forgotten = front.store->kernel().call(store::Forget{
      .id = {.workspace = front.store->workspace(), .ns = "POST /gate", .key = "lost"},
      .force = true});
  service.open_gate();
  const auto answer = client.receive();
  const RawAnswer next = front.send(gate);

  REQUIRE(forgotten);
  CHECK(std::holds_alternative<store::Done>(*forgotten));
  REQUIRE(answer);
  CHECK(answer->body == "through");
  CHECK_FALSE(is_replay(next));
  CHECK(service.executed == 2);
}

// ------------------------------------------------------------------------------------------------ large answers

TEST_CASE("L: an answer too large to keep streams through, and is not run again") {
  Service service;
  Front front(service.url(), R"({"maxAnswer": 1000})");

  const RawAnswer large = front.send("l", {.target = "/large?200000"});
  const RawAnswer again = front.send("l", {.target = "/large?200000"});
  const RawAnswer small = front.send("s", {.target = "/large?900"});
  const RawAnswer replay = front.send("s", {.target = "/large?900"});

  CHECK(large.status == 200);
  CHECK(large.says("content-length: 200000"));
  CHECK(large.body == std::string(200000, 'x'));
  CHECK(again.status == 409);
  CHECK(again.code() == "IDEMPOTENCY_RESPONSE_NOT_RETAINED");
  CHECK(small.body.size() == 900);
  CHECK(is_replay(replay));
  CHECK(service.executed == 2);
}

TEST_CASE("L: events stream at once, and are not kept") {
  Service service;
  Front front(service.url());
  const Sent events{.target = "/events", .headers = with_key("e")};

  RawClient client(front.port());
  client.send(text_of(events));
  client.receive_until("data: first");
  const RawAnswer duplicate = front.send(events);
  service.end_events();
  const std::string rest = client.receive_until("0\r\n\r\n");

  CHECK(duplicate.code() == "IDEMPOTENCY_RESPONSE_NOT_RETAINED");
  CHECK_FALSE(rest.empty());
  CHECK(service.executed == 1);
}

// ------------------------------------------------------------------------------------------------ whose a key is

TEST_CASE("S: a key belongs to whoever has the same credentials") {
  Service service;
  Front front(service.url());
  Front tenants(service.url(), R"({"scope": "header:X-Tenant"})");
  Front open(service.url(), R"({"scope": "none"})");

  CHECK_FALSE(is_replay(front.send("k", {.headers = "Authorization: Bearer a\r\n"})));
  CHECK_FALSE(is_replay(front.send("k", {.headers = "Authorization: Bearer b\r\n"})));
  CHECK_FALSE(is_replay(front.send("k")));
  CHECK(is_replay(front.send("k", {.headers = "Authorization: Bearer a\r\nCookie: c\r\n"})));
  CHECK(is_replay(front.send("k")));
  CHECK(service.executed == 3);

  CHECK_FALSE(is_replay(tenants.send("k", {.headers = "X-Tenant: a\r\n"})));
  CHECK_FALSE(is_replay(tenants.send("k", {.headers = "X-Tenant: b\r\n"})));
  CHECK(is_replay(tenants.send("k", {.headers = "X-Tenant: a\r\nCookie: c\r\n"})));

  CHECK_FALSE(is_replay(open.send("k", {.headers = "Cookie: a\r\n"})));
  CHECK(is_replay(open.send("k", {.headers = "Cookie: b\r\n"})));
}

TEST_CASE("S: with authCheck nobody gets a replay who may not ask") {
  Service service;
  RawServer check({"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
                   "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: "
                   "2\r\nConnection: close\r\n\r\nno",
                   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", ""});
  Front front(service.url(), R"({"authCheck": ")" + check.url() + R"(/check"})");
  const Sent sent{.headers = "Authorization: Bearer a\r\n"};

  const RawAnswer first = front.send("k", sent);
  const RawAnswer refused = front.send("k", sent);
  const RawAnswer replay = front.send("k", sent);
  const RawAnswer broken = front.send("k", sent);
  const RawAnswer unkeyed = front.send(sent);

  CHECK(first.status == 200);
  CHECK(refused.status == 401);
  CHECK(refused.body == "no");
  CHECK(refused.says("www-authenticate: bearer"));
  CHECK(is_replay(replay));
  CHECK(broken.status == 502);
  CHECK(unkeyed.status == 200);
  CHECK(service.executed == 2);
  CHECK(check.requests() == 4);
  CHECK(check.last_request().starts_with("GET /check HTTP/1.1\r\n"));
  CHECK(check.last_request().find("Authorization: Bearer a\r\n") != std::string::npos);
}

// ------------------------------------------------------------------------------------------------ hygiene

TEST_CASE("H: what belongs to the client's connection stays with it") {
  Service service;
  Front front(service.url() + "/base");
  const std::string headers =
      "Connection: X-Drop, keep-alive\r\nX-Drop: 1\r\nX-Keep: 1\r\nUpgrade: h2c\r\nTE: trailers\r\n"
      "Keep-Alive: 5\r\nX-Forwarded-For: 10.0.0.1\r\nIdempotency-Replayed: true\r\n";

  for (const std::string& key : {std::string{}, with_key("\"h\"; a=1")}) {
    const RawAnswer answer = front.send(Sent{.target = "/any?q=%20", .headers = headers + key});
    const std::string seen = service.last_head();
    CAPTURE(seen);
    CHECK(answer.status == 200);
    CHECK_FALSE(is_replay(answer));
    CHECK(seen.starts_with("POST /base/any?q=%20\r\n"));
    CHECK(seen.find("host: shop.example\r\n") != std::string::npos);
    CHECK(seen.find("x-keep: 1\r\n") != std::string::npos);
    CHECK(seen.find("x-forwarded-for: 10.0.0.1, 127.0.0.1\r\n") != std::string::npos);
    CHECK(seen.find("x-forwarded-proto: http\r\n") != std::string::npos);
    CHECK((key.empty() || seen.find("idempotency-key: \"h\"; a=1\r\n") != std::string::npos));
    for (const std::string_view gone :
         {"x-drop", "upgrade", "te:", "keep-alive", "connection", "idempotency-replayed"}) {
      CAPTURE(gone);
      CHECK(seen.find(gone) == std::string::npos);
    }
  }
}

TEST_CASE("H: CONNECT is refused, Expect is answered by the proxy") {
  Service service;
  Front front(service.url());

  RawClient tunnel(front.port());
  const auto refused = tunnel.send("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n").receive();
  RawClient asks(front.port());
  asks.send("POST /any HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n" +
            with_key("ex") + "\r\n");
  const auto go_on = asks.receive();
  const auto answer = asks.send("{}").receive();

  REQUIRE(refused);
  CHECK(refused->status == 405);
  CHECK(refused->says("allow: "));
  REQUIRE(go_on);
  CHECK(go_on->status == 100);
  REQUIRE(answer);
  CHECK(answer->status == 200);
  CHECK(service.last_head().find("expect") == std::string::npos);
}

TEST_CASE("H: a HEAD has the length of the answer it stands for") {
  RawServer server({"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n"});
  Front head(server.url());

  CHECK(head.send(Sent{.method = "HEAD", .body = ""}).says("content-length: 12345"));
}

TEST_CASE("H: a kept connection that the server has closed is not an error for what only reads") {
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  RawServer server({answer});  // closes behind each answer without saying so
  Front front(server.url());

  for (int i = 0; i < 5; ++i) CHECK(front.send(Sent{.method = "GET", .body = ""}).status == 200);
}

TEST_CASE("H: connections to the server are kept, as many as were needed at a time") {
  constexpr std::size_t clients_count = 40;
  Service service;
  Front front(service.url());
  std::vector<std::unique_ptr<RawClient>> clients(clients_count);
  for (auto& client : clients) client = std::make_unique<RawClient>(front.port());

  for (int round = 0; round < 2; ++round) {
    service.close_gate();
    for (const auto& client : clients) client->send("GET /gate HTTP/1.1\r\nHost: a\r\n\r\n");
    service.wait_for_waiting(clients_count);
    service.open_gate();
    for (const auto& client : clients) CHECK(client->receive()->body == "through");

    CHECK(service.connections() == clients_count);
  }
}

TEST_CASE("H: an answer is passed on with the framing of the client's connection") {
  const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  RawServer server({head + "3\r\nabc\r\n0\r\n\r\n", head + "3\r\nabc\r\nno chunk\r\n"});
  Front front(server.url());

  const RawAnswer whole = front.send(Sent{.method = "GET", .body = ""});
  RawClient client(front.port());
  const Sent last{.method = "GET", .headers = "Connection: close\r\n", .body = ""};
  const std::string broken = client.send(text_of(last)).rest();

  CHECK(whole.body == "abc");
  CHECK_FALSE(broken.ends_with("0\r\n\r\n"));
}

TEST_CASE("H: pipelined requests are answered in order, whatever their answers look like") {
  Service service;
  Front front(service.url());
  RawClient client(front.port());
  const std::string host = " HTTP/1.1\r\nHost: a\r\n\r\n";

  client.send("GET /large?3" + host + "HEAD /any" + host + "GET /large?200000" + host +
              "GET /large?0" + host + "GET /large?5" + host);

  CHECK(client.receive()->body == "xxx");
  CHECK(client.receive(true)->status == 200);
  CHECK(client.receive()->body.size() == 200000);
  CHECK(client.receive()->body.empty());
  CHECK(client.receive()->body == "xxxxx");
  CHECK(service.connections() == 1);
}

// ------------------------------------------------------------------------------------------------ streaming

TEST_CASE("T: without a key a body goes up while its answer comes down") {
  Service service;
  Front front(service.url());

  RawClient client(front.port());
  client.send(
      "POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
  const std::string head = client.receive_until("first");
  client.send("6\r\nsecond\r\n");
  const std::string second = client.receive_until("second");
  client.send("0\r\n\r\n");
  const std::string end = client.receive_until("0\r\n\r\n");

  CHECK(head.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(second.find("first") == std::string::npos);
  CHECK_FALSE(end.empty());
}

TEST_CASE("T: large bodies arrive whole in both directions") {
  Service service;
  Front front(service.url());
  const std::string body(std::size_t{8} << 20U, 'b');

  const RawAnswer down = front.send(Sent{.method = "GET", .target = "/large?8000000", .body = ""});
  const RawAnswer up = front.send(Sent{.target = "/any", .body = body});

  CHECK(down.body.size() == 8000000);
  CHECK(up.status == 200);
  CHECK(service.last_head().find("content-length: 8388608") != std::string::npos);
}

TEST_CASE("T: an answer that breaks off cuts the client off") {
  RawServer server({"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"});
  Front front(server.url());

  RawClient client(front.port());
  client.send(text_of({.method = "GET", .body = ""}));
  const std::string all = client.rest();

  CHECK(all.find("content-length: 10\r\n") != std::string::npos);
  CHECK(all.ends_with("\r\n\r\nhalf"));
}

// ------------------------------------------------------------------------------------------------ stopping, admin

TEST_CASE("O: stopping lets what is under way finish") {
  Service service;
  Front front(service.url());
  RawClient client(front.port());
  client.send(text_of({.target = "/gate", .headers = with_key("stop")}));
  service.wait_for_waiting(1);

  std::jthread stopping([&] { front.stop(); });
  service.open_gate();
  const auto answer = client.receive();

  REQUIRE(answer);
  CHECK(answer->body == "through");
}

TEST_CASE("O: health, readiness and metrics are on a listener of their own") {
  Service service;
  Front front(service.url());
  const auto handler = make_proxy_admin(*front.store);
  const auto admin = Listener::open({}, *handler, wall_clock);
  front.send("m");
  front.send("m");

  const auto ask = [&](const std::string& request) {
    RawClient client(admin->port());
    auto answer = client.send(request + " HTTP/1.1\r\nHost: a\r\n\r\n").receive();
    REQUIRE(answer);
    return *answer;
  };

  CHECK(ask("GET /healthz").status == 200);
  CHECK(ask("GET /readyz").body == "ready\n");
  CHECK(ask("GET /metrics").body.find("\nsemel_idempotency_replays_total 1\n") !=
        std::string::npos);
  CHECK(ask("GET /metrics").body.find("\nsemel_idempotency_executions_total 1\n") !=
        std::string::npos);
  CHECK(ask("POST /healthz").status == 405);
  CHECK(ask("GET /").status == 404);
  CHECK(front.send(Sent{.method = "GET", .target = "/healthz", .body = ""}).says("x-first"));
}

}  // namespace semel::http
