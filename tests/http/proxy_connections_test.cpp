// The proxy as a client sees it, in front of a real server: connections, framing, streams, health.
#include "http/proxy_admin.hpp"
#include "tests/http/proxy_fixture.hpp"

#include <thread>

namespace semel::http {

using namespace proxy_fixture;

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
