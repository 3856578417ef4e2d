// The proxy as a client sees it, in front of a real server: keys, answers, outcomes. Cases have numbers, so that a failure
// names the line of the table.
#include "idempotency/kernel.hpp"
#include "tests/http/proxy_fixture.hpp"

namespace semel::http {

using namespace proxy_fixture;

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
  const RawAnswer over = front.send("o", {.target = "/large?1001"});
  const RawAnswer over_again = front.send("o", {.target = "/large?1001"});
  const RawAnswer small = front.send("s", {.target = "/large?1000"});
  const RawAnswer replay = front.send("s", {.target = "/large?1000"});

  CHECK(large.status == 200);
  CHECK(large.says("content-length: 200000"));
  CHECK(large.body == std::string(200000, 'x'));
  CHECK(again.status == 409);
  CHECK(again.code() == "IDEMPOTENCY_RESPONSE_NOT_RETAINED");
  CHECK(over.body.size() == 1001);
  CHECK(over_again.code() == "IDEMPOTENCY_RESPONSE_NOT_RETAINED");
  CHECK(small.body.size() == 1000);
  CHECK(is_replay(replay));
  CHECK(service.executed == 3);
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

}  // namespace semel::http
