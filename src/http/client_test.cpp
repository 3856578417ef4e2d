// The client against real servers: one that does as it is told, and one that keeps contracts.
#include "http/client_core.hpp"
#include "http/listener.hpp"
#include "http/problem.hpp"

#include <semel/http.hpp>

#include <doctest/doctest.h>

#include <deque>
#include <mutex>
#include <set>
#include <thread>

namespace post_office {

struct Letter {
  std::string to;
  std::int32_t pages = 1;
};
BOOST_DESCRIBE_STRUCT(Letter, (), (to, pages))

struct Sent {
  std::string id;
};
BOOST_DESCRIBE_STRUCT(Sent, (), (id))

}  // namespace post_office

namespace semel::http {
namespace {

using namespace std::chrono_literals;
using post_office::Letter;
using post_office::Sent;

const auto plain = post<Letter, Sent>("/letters").named("letters.send");
const auto keyed = plain.idempotent({});
const auto look = get<Sent>("/letters/{id}");

/// Cuts the connection in the middle of the answer.
struct Cut {};

using Move = std::variant<Response, Cut>;

/// Answers with what is on its list, and with 200 when that is over. Notes what it was asked.
class ScriptedServer : public Handler {
 public:
  explicit ScriptedServer(std::deque<Move> script) : script_(std::move(script)) {}

  void handle(const Request& request, Responder responder) override {
    const std::lock_guard lock(mutex_);
    keys_.emplace_back(request.header("idempotency-key").value_or("none"));
    seen_.push_back(std::string(request.method) + " " + std::string(request.target) + " " +
                    std::string(request.body));
    headers_.clear();
    for (const HeaderView& each : request.headers)
      headers_[std::string(each.name)] = std::string(each.value);
    Move next = Response{200, {}, R"({"id":"ok","added later":true})"};
    if (!script_.empty()) {
      next = std::move(script_.front());
      script_.pop_front();
    }
    if (std::holds_alternative<Cut>(next)) {
      responder.stream({200, {}, "{"});
    } else {
      responder.answer(std::get<Response>(std::move(next)));
    }
  }

  std::vector<std::string> keys() { return locked(keys_); }

  std::vector<std::string> seen() { return locked(seen_); }

  std::map<std::string, std::string> headers() { return locked(headers_); }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(listener_->port()); }

 private:
  template <class T>
  T locked(const T& value) {
    const std::lock_guard lock(mutex_);
    return value;
  }

  std::mutex mutex_;
  std::deque<Move> script_;
  std::vector<std::string> keys_;
  std::vector<std::string> seen_;
  std::map<std::string, std::string> headers_;
  base::SystemClock clock_;
  std::unique_ptr<Listener> listener_ = Listener::open({}, *this, clock_);
};

/// A client whose time passes only while it waits.
struct TestClient {
  explicit TestClient(const std::string& url, ClientOptions options = {})
      : client(std::make_unique<detail::ClientCore>(
            url, std::move(options),
            detail::ClientSources{
                .clock = std::make_unique<base::ManualClock>(TimePoint{784111777s}),
                .random = std::make_unique<base::SeededRandom>(7),
                .monotonic_now = [now = now] { return *now; },
                .wait =
                    [now = now, waits = waits](std::chrono::nanoseconds time) {
                      *now += time;
                      waits->push_back(time);
                    }})) {}

  std::shared_ptr<std::chrono::nanoseconds> now = std::make_shared<std::chrono::nanoseconds>(1h);
  std::shared_ptr<std::vector<std::chrono::nanoseconds>> waits =
      std::make_shared<std::vector<std::chrono::nanoseconds>>();
  Client client;
};

TEST_CASE("a call sends a fresh key, the same on every attempt") {
  ScriptedServer server{{Response{503, {}, ""}, Cut{}, Response{200, {}, R"({"id":"7"})"},
                         Response{200, {}, R"({"id":"8"})"}}};
  TestClient test{server.url()};

  CHECK(test.client.call(keyed, {.to = "ann"}).id == "7");
  CHECK(test.client.call(keyed, {.to = "ann"}).id == "8");

  const auto keys = server.keys();
  REQUIRE(keys.size() == 4);
  CHECK(keys[0].size() == 36);
  CHECK(keys[0][14] == '7');  // the version of a UUID
  CHECK(keys[1] == keys[0]);
  CHECK(keys[2] == keys[0]);
  CHECK(keys[3] != keys[0]);
  CHECK(server.seen()[0] == R"(POST /letters {"to":"ann","pages":1})");
  CHECK(server.headers()["content-type"] == "application/json");
}

TEST_CASE("an explicit key always wins") {
  ScriptedServer server{{}};
  TestClient test{server.url()};

  test.client.call(keyed, {}, {.idempotency_key = "mine"});
  test.client.call(keyed, {}, {.headers = {{"Idempotency-Key", "in a header"}}});
  test.client.call(plain, {}, {.idempotency_key = "also here"});
  test.client.call(keyed, {}, {.idempotency_key = R"(a "b",\)"});

  CHECK(server.keys() ==
        std::vector<std::string>{"mine", "in a header", R"("also here")", R"("a \"b\",\\")"});
  CHECK_THROWS_AS(test.client.call(keyed, {}, {.idempotency_key = ""}), Error);
  CHECK_THROWS_AS(test.client.call(keyed, {}, {.idempotency_key = std::string(256, 'x')}), Error);
  CHECK_THROWS_AS(test.client.call(keyed, {}, {.idempotency_key = "a\nb"}), Error);
}

TEST_CASE("what may be repeated is repeated, and nothing else") {
  struct Case {
    int number;
    Move first;
    bool repeats;
  };

  const std::vector<Case> cases{
      {1, Cut{}, true},
      {2, Response{408, {}, ""}, true},
      {3, Response{425, {}, ""}, true},
      {4, Response{429, {}, ""}, true},
      {5, Response{500, {}, ""}, true},
      {6, Response{502, {}, ""}, true},
      {7, Response{503, {}, ""}, true},
      {8, Response{504, {}, ""}, true},
      {9, problem("IDEMPOTENCY_IN_PROGRESS", ""), true},
      {10, problem("IDEMPOTENCY_CONFLICT", ""), false},
      {11, Response{409, {}, "<html>"}, false},
      {12, Response{400, {}, ""}, false},
      {13, Response{404, {}, ""}, false},
      {14, Response{422, {}, ""}, false},
      {15, Response{302, {{"location", "/"}}, ""}, false},
  };
  for (const Case& each : cases) {
    CAPTURE(each.number);
    {
      ScriptedServer server{{each.first}};
      TestClient test{server.url()};
      if (each.repeats) {
        CHECK(test.client.call(keyed, {}).id == "ok");
      } else {
        CHECK_THROWS_AS(test.client.call(keyed, {}), Error);
      }
      CHECK(server.seen().size() == (each.repeats ? 2 : 1));
    }
    {  // reading is safe without a key
      ScriptedServer server{{each.first}};
      TestClient test{server.url()};
      try {
        test.client.call(look, {}, {.path = {{"id", "1"}}});
      } catch (const Error&) {
        CHECK_FALSE(each.repeats);
      }
      CHECK(server.seen().size() == (each.repeats ? 2 : 1));
      CHECK(server.keys()[0] == "none");
    }
    {  // writing is not
      ScriptedServer server{{each.first}};
      TestClient test{server.url()};
      CHECK_THROWS_AS(test.client.call(plain, {}), Error);
      CHECK(server.seen().size() == 1);
      CHECK(server.keys()[0] == "none");
    }
  }
}

TEST_CASE("pauses grow, are drawn by chance, and are never shorter than the server asks") {
  ScriptedServer server{{Response{503, {}, ""}, Response{503, {}, ""}, Response{503, {}, ""},
                         Response{503, {{"retry-after", "20"}}, ""},
                         Response{503, {{"Retry-After", "Sun, 06 Nov 1994 08:50:37 GMT"}}, ""},
                         Response{503, {{"retry-after", "soon"}}, ""}}};
  TestClient test{server.url(), {.deadline = 10min, .backoff = 100ms, .backoff_max = 250ms}};

  test.client.call(keyed, {}, {.attempts = 10});

  const auto& waits = *test.waits;
  REQUIRE(waits.size() == 6);
  CHECK((waits[0] >= 50ms && waits[0] < 100ms));
  CHECK((waits[1] >= 100ms && waits[1] < 200ms));
  CHECK((waits[2] >= 125ms && waits[2] < 250ms));
  CHECK(waits[3] == 20s);
  CHECK(waits[4] == 60s);
  CHECK((waits[5] >= 125ms && waits[5] < 250ms));
}

TEST_CASE("attempts and the deadline bound a call") {
  const std::deque<Move> failing(10, Response{503, {{"retry-after", "20"}}, ""});
  ScriptedServer server{failing};
  TestClient test{server.url()};

  try {
    test.client.call(keyed, {}, {.attempts = 4});
    FAIL("not thrown");
  } catch (const ProblemError& error) {
    CHECK(error.status == 503);
    CHECK(error.code() == "HTTP_503");
  }
  CHECK(server.seen().size() == 4);

  // Waiting 20 s twice would be too long, so the second answer is the last.
  CHECK_THROWS_AS(test.client.call(keyed, {}, {.attempts = 4, .deadline = 30s}), ProblemError);
  CHECK(server.seen().size() == 6);

  CHECK_THROWS_AS(test.client.call(keyed, {}, {.attempts = 0}), Error);
  try {
    test.client.call(keyed, {}, {.deadline = 0ms});
    FAIL("not thrown");
  } catch (const Error& error) {
    CHECK(error.code() == "DEADLINE_EXCEEDED");
  }
  CHECK(server.seen().size() == 6);
}

TEST_CASE("errors come with the server's code") {
  ScriptedServer server{{problem("IDEMPOTENCY_CONFLICT", "another request"),
                         problem("VALIDATION_ERROR", "/to: too long", {{"field", "/to"}}),
                         problem(402, "NO_MONEY", "pay first", {{"owed", 7}}),
                         problem("IDEMPOTENCY_IN_PROGRESS", "wait")}};
  TestClient test{server.url()};

  CHECK_THROWS_AS(test.client.call(keyed, {}), IdempotencyConflictError);
  try {
    test.client.call(keyed, {});
    FAIL("not thrown");
  } catch (const ValidationError& error) {
    CHECK(error.path == "/to");
    CHECK(std::string(error.what()) == "/to: too long");
  }
  try {
    test.client.call(keyed, {});
    FAIL("not thrown");
  } catch (const ProblemError& error) {
    CHECK(error.status == 402);
    CHECK(error.code() == "NO_MONEY");
    CHECK(error.more.at("owed") == 7);
  }
  CHECK_THROWS_AS(test.client.call(keyed, {}, {.attempts = 1}), IdempotencyInProgressError);
}

TEST_CASE("a server that is not there") {
  std::string url;
  {
    const ScriptedServer server{{}};
    url = server.url();
  }
  TestClient test{url};

  try {
    test.client.call(keyed, {});
    FAIL("not thrown");
  } catch (const Error& error) {
    CHECK(error.code() == "CONNECTION_FAILED");
  }
  CHECK(test.waits->size() == 2);
}

/// Never answers.
class SilentServer : public Handler {
 public:
  void handle(const Request&, Responder responder) override {
    kept_.push_back(std::move(responder));
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(listener_->port()); }

 private:
  std::deque<Responder> kept_;
  base::SystemClock clock_;
  std::unique_ptr<Listener> listener_ = Listener::open({.stop_grace = 0ms}, *this, clock_);
};

TEST_CASE("a server that does not answer") {
  const SilentServer server;
  Client client{server.url(), {.attempt_timeout = 20ms, .backoff = 1ms}};

  try {
    client.call(keyed, {}, {.attempts = 2});
    FAIL("not thrown");
  } catch (const Error& error) {
    CHECK(error.code() == "CONNECTION_FAILED");
  }
  try {
    client.call(keyed, {}, {.deadline = 10ms});
    FAIL("not thrown");
  } catch (const Error& error) {
    CHECK(error.code() == "DEADLINE_EXCEEDED");
  }
}

TEST_CASE("paths, queries and headers are put together with care") {
  ScriptedServer server{{}};
  TestClient test{server.url() + "/base/", {.headers = {{"authorization", "Bearer t"}}}};

  test.client.call(look, {}, {.path = {{"id", "a/b c"}}, .query = {{"q", "x&y"}, {"r", "é"}}});

  CHECK(server.seen() == std::vector<std::string>{"GET /base/letters/a%2Fb%20c?q=x%26y&r=%C3%A9 "});
  CHECK(server.headers()["authorization"] == "Bearer t");
  CHECK_THROWS_AS(test.client.call(look, {}), Error);
  CHECK_THROWS_AS(test.client.call(look, {}, {.path = {{"id", ""}}}), Error);
  CHECK_THROWS_AS(
      test.client.call(look, {}, {.headers = {{"x", "a\r\nb: c"}}, .path = {{"id", "1"}}}), Error);
}

TEST_CASE("what is not a URL of a server is refused") {
  for (const char* url : {"", "localhost", "ftp://a", "http://", "http://a:b",
                          "http://a:", "http://:1", "http://a@b", "http://a?b", "https://a b"}) {
    CAPTURE(url);
    CHECK_THROWS_AS(Client{url}, Error);
  }
  const Origin origin = read_origin("https://[::1]:8443/api/v1/");
  CHECK(origin.is_tls);
  CHECK(origin.host == "::1");
  CHECK(origin.port == "8443");
  CHECK(origin.authority == "[::1]:8443");
  CHECK(origin.base == "/api/v1");
  CHECK(read_origin("http://a").port == "80");
}

TEST_CASE("client and server agree on a contract, over kept connections and from many threads") {
  Server server;
  server.handle(plain, [](const Letter& letter, Call&) { return Sent{letter.to}; });
  server.handle(look, [](const std::monostate&, Call& call) -> Task<Sent> {
    co_return Sent{call.path["id"] + "?" + call.query["q"]};
  });
  server.start();
  Client client{"http://localhost:" + std::to_string(server.port())};

  std::atomic<int> right = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 50; ++i) {
          const std::string name = std::to_string(t) + "/" + std::to_string(i);
          if (client.call(plain, {.to = name}).id == name) ++right;
          if (client.call(look, {}, {.path = {{"id", name}}, .query = {{"q", "ü"}}}).id ==
              name + "?ü")
            ++right;
        }
      });
    }
  }
  CHECK(right == 400);

  // The server closes what the client kept; that costs a call nothing.
  server.stop();
  CHECK_THROWS_AS(client.call(look, {}, {.attempts = 1, .path = {{"id", "1"}}}), Error);
}

TEST_CASE("a kept connection that the server has closed is not used again") {
  auto server = std::make_unique<Server>();
  server->handle(look, [](const std::monostate&, Call&) { return Sent{"1"}; });
  server->start();
  const std::uint16_t port = server->port();
  Client client{"http://127.0.0.1:" + std::to_string(port)};
  CHECK(client.call(look, {}, {.attempts = 1, .path = {{"id", "1"}}}).id == "1");

  server = std::make_unique<Server>(ServerOptions{.port = port});
  server->handle(look, [](const std::monostate&, Call&) { return Sent{"2"}; });
  server->start();

  CHECK(client.call(look, {}, {.attempts = 1, .path = {{"id", "1"}}}).id == "2");
}

TEST_CASE("what Retry-After says") {
  const TimePoint now{784111777s};  // Sun, 06 Nov 1994 08:49:37 GMT
  CHECK(detail::read_retry_after("0", now) == 0s);
  CHECK(detail::read_retry_after("120", now) == 120s);
  CHECK(detail::read_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now) == 0s);
  CHECK(detail::read_retry_after("Mon, 07 Nov 1994 08:49:37 GMT", now) == 24h);
  CHECK(detail::read_retry_after("Sun, 06 Nov 1984 08:49:37 GMT", now) == 0s);
  for (const char* text : {"", "-1", "1.5", "12345678901", "soon", "Sun, 06 Nov 1994 08:49:37 CET",
                           "Sun, 06 Xxx 1994 08:49:37 GMT", "Sun, 99 Nov 1994 08:49:37 GMT"}) {
    CAPTURE(text);
    CHECK_FALSE(detail::read_retry_after(text, now));
  }
}

}  // namespace
}  // namespace semel::http
