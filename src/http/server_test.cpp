// Contracts, served.
#include "http/idempotency_layer.hpp"
#include "http/raw_client.hpp"
#include "http/server_core.hpp"

#include <semel/http.hpp>

#include <doctest/doctest.h>

#include <future>
#include <thread>

namespace shop {

struct Line {
  std::string sku;
  std::int32_t quantity = 1;
};
BOOST_DESCRIBE_STRUCT(Line, (), (sku, quantity))

struct Order {
  std::string customer;
  std::vector<Line> lines;
  std::optional<std::string> note;
};
BOOST_DESCRIBE_STRUCT(Order, (), (customer, lines, note))

struct Placed {
  std::string id;
  std::int64_t pieces = 0;
};
BOOST_DESCRIBE_STRUCT(Placed, (), (id, pieces))

}  // namespace shop

namespace semel::http {
namespace {

using testing::RawAnswer;
using testing::RawClient;
using namespace std::chrono_literals;

const auto place = post<shop::Order, shop::Placed>("/orders").named("orders.place");
const auto find_order = get<shop::Placed>("/orders/{id}").named("orders.find");
const auto drop_order = del<std::monostate>("/orders/{id}");

shop::Placed placed(const shop::Order& order) {
  shop::Placed result{.id = order.customer};
  for (const shop::Line& line : order.lines) result.pieces += line.quantity;
  return result;
}

std::string request(const std::string& method, const std::string& target, const std::string& body,
                    const std::string& headers = "Content-Type: application/json\r\n") {
  return method + " " + target + " HTTP/1.1\r\nHost: a\r\n" + headers +
         (body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n") + "\r\n" +
         body;
}

RawAnswer ask(const Server& server, const std::string& bytes) {
  RawClient client{server.port()};
  return client.send(bytes).receive().value();
}

TEST_CASE("a contract is served by a function or by a coroutine") {
  Server server;
  server.handle(place, [](const shop::Order& order, Call& call) {
    call.status = 201;
    call.answer_headers.push_back({"location", "/orders/" + order.customer});
    return placed(order);
  });
  server.handle(find_order, [](const std::monostate&, Call& call) -> Task<shop::Placed> {
    co_return shop::Placed{call.path.at("id") + call.query["q"] + call.headers["x-a"], 1};
  });
  server.handle(drop_order, [](const std::monostate&, Call&) {});
  server.start();

  const RawAnswer made =
      ask(server,
          request("POST", "/orders", R"({"customer":"c1","lines":[{"sku":"a","quantity":2}]})"));
  CHECK(made.status == 201);
  CHECK(made.body == R"({"id":"c1","pieces":2})");
  CHECK(made.says("content-type: application/json"));
  CHECK(made.says("location: /orders/c1"));

  const RawAnswer found =
      ask(server, request("GET", "/orders/a%20b?q=+1", "", "X-A: one\r\nx-a: two\r\n"));
  CHECK(found.body == R"({"id":"a b 1one, two","pieces":1})");

  const RawAnswer dropped = ask(server, request("DELETE", "/orders/7", ""));
  CHECK(dropped.status == 204);
  CHECK_FALSE(dropped.says("content-length"));
}

TEST_CASE("what is not a request to a contract is refused with its reason") {
  Server server;
  server.handle(place, [](const shop::Order& order, Call&) { return placed(order); });
  server.handle(find_order, [](const std::monostate&, Call&) { return shop::Placed{}; });
  server.start();

  struct Case {
    int number;
    std::string bytes;
    int status;
    std::string code;
    std::string part;  // of the body or head
  };

  const std::string json = "Content-Type: application/json\r\n";
  const std::string good = R"({"customer":"c","lines":[]})";
  const std::vector<Case> cases{
      {1, request("GET", "/nowhere", ""), 404, "ROUTE_NOT_FOUND", ""},
      {2, request("PUT", "/orders", good), 405, "METHOD_NOT_ALLOWED", "allow: options, post"},
      {3, request("TRACE", "/orders/1", ""), 405, "METHOD_NOT_ALLOWED",
       "allow: get, head, options"},
      {4, request("OPTIONS", "/orders", ""), 204, "", "allow: options, post"},
      {5, request("OPTIONS", "*", ""), 204, "", "allow: "},
      {6, "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 405, "METHOD_NOT_ALLOWED", "allow: "},
      {7, request("GET", "/orders/%zz", ""), 400, "MALFORMED", ""},
      {8, request("GET", "/orders/1?a=%", ""), 400, "MALFORMED", ""},
      {10, request("POST", "/orders", good), 200, "", ""},
      {11, request("POST", "/orders", good, "Content-Type: Application/JSON; charset=utf-8\r\n"),
       200, "", ""},
      {12, request("POST", "/orders", good, "Content-Type: application/vnd.shop+json\r\n"), 200, "",
       ""},
      {13, request("POST", "/orders", good, ""), 415, "UNSUPPORTED_MEDIA_TYPE", ""},
      {14, request("POST", "/orders", good, "Content-Type: text/plain\r\n"), 415,
       "UNSUPPORTED_MEDIA_TYPE", ""},
      {15, request("POST", "/orders", good, "Content-Type: application/jsonp\r\n"), 415,
       "UNSUPPORTED_MEDIA_TYPE", ""},
      {16, request("POST", "/orders", good, json + "Content-Encoding: gzip\r\n"), 415,
       "UNSUPPORTED_MEDIA_TYPE", ""},
      {17, request("POST", "/orders", good, json + "Content-Encoding: identity\r\n"), 200, "", ""},
      {18, request("POST", "/orders", "{"), 400, "MALFORMED", ""},
      {19, request("POST", "/orders", ""), 400, "MALFORMED", ""},
      {20, request("POST", "/orders", R"({"customer":"a","customer":"b","lines":[]})"), 400,
       "MALFORMED", R"("field":"/customer")"},
      {21, request("POST", "/orders", R"({"customer":"a","lines":[],"x":{"y":1,"y":1}})"), 400,
       "MALFORMED", R"("field":"/x/y")"},
      {22, request("POST", "/orders", R"({"customer":7,"lines":[]} x)"), 400, "MALFORMED", ""},
      {23, request("POST", "/orders", R"({"customer":7,"lines":[]})"), 422, "VALIDATION_ERROR",
       R"("field":"/customer")"},
      {24, request("POST", "/orders", R"({"customer":"a","lines":[{"sku":"b","quantity":3e9}]})"),
       422, "VALIDATION_ERROR", R"("field":"/lines/0/quantity")"},
      {25, request("POST", "/orders", R"({"customer":"a"})"), 422, "VALIDATION_ERROR",
       R"("field":"/lines")"},
      {26, request("POST", "/orders", R"({"customer":"a","lines":[],"extra":1})"), 422,
       "VALIDATION_ERROR", R"("field":"/extra")"},
      {27, request("POST", "/orders", "[]"), 422, "VALIDATION_ERROR", R"("field":"")"},
      {28, request("POST", "/orders", std::string(65, '[') + std::string(65, ']')), 413,
       "PAYLOAD_TOO_LARGE", "deep"},
      {29, request("POST", "/orders", std::string(64, '[') + std::string(64, ']')), 422,
       "VALIDATION_ERROR", ""},
  };
  for (const Case& each : cases) {
    CAPTURE(each.number);
    const RawAnswer answer = ask(server, each.bytes);
    CAPTURE(answer.body);
    CHECK(answer.status == each.status);
    CHECK(answer.code() == each.code);
    CHECK((answer.body + answer.head).find(each.part) != std::string::npos);
    if (!each.code.empty()) CHECK(answer.says("content-type: application/problem+json"));
  }
}

TEST_CASE("what a handler throws is answered, and only what is ours is told") {
  const auto fail = post<std::string, std::string>("/fail");
  std::vector<std::string> seen;
  ServerOptions options;
  options.on_error = [&](std::string_view contract, const std::exception_ptr&) {
    seen.emplace_back(contract);
  };
  Server server{options};
  const auto thrower = [](const std::string& kind) {
    if (kind == "validation") throw ValidationError("/a/0", "too small");
    if (kind == "problem") throw ProblemError(402, "NO_MONEY", "pay first", {{"owed", 7}});
    if (kind == "not found") throw RunNotFoundError("RUN_NOT_FOUND", "no such run");
    if (kind == "store") throw Error("STORE_UNAVAILABLE", "later");
    if (kind == "unknown") throw Error("MY_SECRET", "secret");
    if (kind == "bytes") throw ProblemError(400, "MALFORMED", "\xFF");
    throw std::runtime_error("secret");
  };
  server.handle(fail, [&](const std::string& kind, Call&) {
    thrower(kind);
    return kind;
  });
  server.handle(put<std::string, std::string>("/fail"),
                [&](const std::string& kind, Call&) -> Task<std::string> {
                  thrower(kind);
                  co_return kind;
                });
  server.start();

  struct Case {
    const char* kind;
    int status;
    const char* code;
    const char* part;
  };

  for (const char* method : {"POST", "PUT"}) {
    for (const Case& each : std::to_array<Case>({
             {"validation", 422, "VALIDATION_ERROR", R"("field":"/a/0")"},
             {"problem", 402, "NO_MONEY", R"("owed":7)"},
             {"not found", 404, "RUN_NOT_FOUND", "no such run"},
             {"store", 503, "STORE_UNAVAILABLE", R"("retryable":true)"},
             {"unknown", 500, "INTERNAL", ""},
             {"bytes", 400, "MALFORMED", ""},
             {"other", 500, "INTERNAL", ""},
         })) {
      CAPTURE(each.kind);
      const RawAnswer answer =
          ask(server, request(method, "/fail", "\"" + std::string(each.kind) + "\""));
      CHECK(answer.status == each.status);
      CHECK(answer.code() == each.code);
      CHECK(answer.body.find(each.part) != std::string::npos);
      CHECK(answer.body.find("ecret") == std::string::npos);
    }
  }
  server.stop();
  CHECK(seen == std::vector<std::string>{"POST /fail", "POST /fail", "PUT /fail", "PUT /fail"});
}

TEST_CASE("who asks comes before what they say") {
  ServerOptions options;
  options.authenticate = [](const Request& asked) -> std::variant<Identity, Refusal> {
    const auto credential = asked.header("authorization");
    if (!credential) return Refusal{};
    return Identity{std::string(*credential), "acme"};
  };
  options.authorise = [](const Request&, const Identity& identity,
                         std::string_view contract) -> std::optional<Refusal> {
    if (identity.actor == "guest" && contract == "orders.place")
      return Refusal{"FORBIDDEN", "guests only look"};
    return std::nullopt;
  };
  Server server{options};
  server.handle(place, [](const shop::Order&, Call& call) {
    return shop::Placed{call.actor + "@" + call.tenant, 0};
  });
  server.start();
  const std::string good = R"({"customer":"c","lines":[]})";

  const RawAnswer nobody = ask(server, request("POST", "/orders", "{"));
  CHECK(nobody.status == 401);
  CHECK(nobody.code() == "UNAUTHENTICATED");
  CHECK(nobody.says("www-authenticate: bearer"));

  const std::string json = "Content-Type: application/json\r\n";
  const RawAnswer guest =
      ask(server, request("POST", "/orders", "{", json + "Authorization: guest\r\n"));
  CHECK(guest.status == 403);
  CHECK(guest.code() == "FORBIDDEN");

  CHECK(ask(server, request("POST", "/orders", good, json + "Authorization: ann\r\n")).body ==
        R"({"id":"ann@acme","pieces":0})");

  // Nobody uploads a body only to learn that they may not.
  const RawAnswer early = ask(server,
                              "POST /orders HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                              "Content-Length: 100\r\n\r\n");
  CHECK(early.status == 401);
  CHECK(ask(server,
            "POST /nowhere HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
            "Content-Length: 100\r\n\r\n")
            .status == 404);
  CHECK(ask(server, request("GET", "/openapi.json", "")).status == 200);
}

/// Answers the second request with a key as the first was answered.
class Remembering : public IdempotencyLayer {
 public:
  void handle(const KeyedRequest& keyed, std::shared_ptr<KeyedWork> work) override {
    inputs.push_back(keyed.fingerprint_input ? keyed.fingerprint_input() : "");
    const auto key = keyed.request.header(keyed.contract.idempotency->header);
    if (!key) {
      work->run(KeyedWork::Begin::now,
                [work](Response answer) { work->answer(std::move(answer)); });
      return;
    }
    const std::string id = keyed.call.actor + "/" + std::string(*key);
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = answers_.find(id); known != answers_.end()) {
        work->answer(known->second);
        return;
      }
    }
    work->run(KeyedWork::Begin::now, [this, id, work](Response answer) {
      {
        const std::lock_guard lock(mutex_);
        answers_[id] = answer;
      }
      work->answer(std::move(answer));
    });
  }

  std::vector<std::string> inputs;

 private:
  std::mutex mutex_;
  std::map<std::string, Response> answers_;
};

TEST_CASE("the idempotency layer stands between parsing and the handler") {
  const auto layer = std::make_shared<Remembering>();
  Server server;
  std::atomic<int> runs = 0;
  server.handle(
      place.idempotent({.header = "x-key"}).fingerprint_input([](const shop::Order& order) {
        return order.customer;
      }),
      [&](const shop::Order&, Call&) { return shop::Placed{"id", ++runs}; });
  server.core().use(layer);
  server.start();
  const std::string headers = "Content-Type: application/json\r\nX-Key: k\r\n";
  const std::string good = R"({"customer":"c","lines":[]})";

  CHECK(ask(server, request("POST", "/orders", "{", headers)).status == 400);
  CHECK(layer->inputs.empty());
  const std::string first = ask(server, request("POST", "/orders", good, headers)).body;
  const std::string second = ask(server, request("POST", "/orders", good, headers)).body;

  CHECK(first == R"({"id":"id","pieces":1})");
  CHECK(second == first);
  CHECK(runs == 1);
  CHECK(layer->inputs == std::vector<std::string>{"\"c\"", "\"c\""});
}

TEST_CASE("an idempotent contract is not served without a memory") {
  Server server;
  server.handle(place.idempotent({}),
                [](const shop::Order& order, Call&) { return placed(order); });

  CHECK_THROWS_AS(server.start(), Error);
}

TEST_CASE("a server that stops lets its handlers finish") {
  Server server;
  std::promise<void> entered;
  std::promise<void> may_go;
  server.handle(find_order, [&](const std::monostate&, Call&) {
    entered.set_value();
    may_go.get_future().wait();
    return shop::Placed{"done", 0};
  });
  server.start();
  RawClient client{server.port()};
  client.send(request("GET", "/orders/1", ""));
  entered.get_future().wait();

  std::jthread stopping([&] { server.stop(); });
  may_go.set_value();

  CHECK(client.receive()->body == R"({"id":"done","pieces":0})");
}

TEST_CASE("blocking handlers do not wait for each other") {
  Server server;
  std::promise<void> second;
  std::shared_future<void> second_is_here = second.get_future().share();
  server.handle(find_order, [&](const std::monostate&, Call& call) {
    if (call.path["id"] == "first") second_is_here.wait();
    if (call.path["id"] == "second") second.set_value();
    return shop::Placed{call.path["id"], 0};
  });
  server.start();
  RawClient first{server.port()};
  first.send(request("GET", "/orders/first", ""));

  CHECK(ask(server, request("GET", "/orders/second", "")).status == 200);
  CHECK(first.receive()->status == 200);
}

}  // namespace
}  // namespace semel::http
