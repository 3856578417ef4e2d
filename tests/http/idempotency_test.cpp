// Idempotency over HTTP: what a client sees that sends the same thing twice. Cases have numbers, so that a failure names the
// line of the table.
#include "http/kernel_layer.hpp"
#include "http/raw_client.hpp"
#include "idempotency/kernel.hpp"
#include "idempotency/policy.hpp"
#include "idempotency/scope.hpp"
#include "tests/support/api.hpp"
#include "tests/support/fresh_store.hpp"

#include <semel/semel.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <coroutine>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

namespace semel::http {

namespace {

using namespace std::chrono_literals;
using testing::RawAnswer;
using testing::RawClient;

/// What is sent; the rest is as usual.
struct Sent {
  std::string method = "POST";
  std::string target = "/any";
  std::string headers{};  ///< whole lines
  std::string body = "{}";
  std::string content_type = "application/json";
};

std::string with_key(const std::string& key) { return "Idempotency-Key: " + key + "\r\n"; }

std::string text_of(const Sent& sent) {
  std::string text = sent.method + " " + sent.target + " HTTP/1.1\r\nHost: test\r\n" + sent.headers;
  if (!sent.content_type.empty()) text += "Content-Type: " + sent.content_type + "\r\n";
  text += "Content-Length: " + std::to_string(sent.body.size()) + "\r\n\r\n";
  return text + sent.body;
}

/// Where the test program has its stores, or with SEMEL_STORE=file in a file: there a handler begins before its reservation is durable.
std::string url_in(const test::TemporaryDirectory& directory) {
  const char* wanted = std::getenv("SEMEL_STORE");
  const bool is_file = wanted != nullptr && std::string_view(wanted) == "file";
  return is_file ? directory.url() : semel::testing::fresh_store();
}

/// A server with an endpoint that counts how often it runs and answers as it is told to in headers.
class Service {
 public:
  explicit Service(ServerOptions options = {}, Idempotent wanted = {})
      : server_(engine_, with_identity(std::move(options))) {
    const auto handler = [this](const Json& body, Call& call) { return handle(body, call); };
    server_.handle(post<Json, Json>("/any").idempotent(wanted), handler);
    server_.handle(put<Json, Json>("/any").idempotent(wanted), handler);
    server_.handle(patch<Json, Json>("/any").idempotent(wanted), handler);
    server_.handle(post<Json, Json>("/other").idempotent(wanted), handler);
    Idempotent required = wanted;
    required.required = true;
    server_.handle(post<Json, Json>("/required").idempotent(required), handler);
    server_.handle(get<Json>("/any").idempotent(required),
                   [this](const std::monostate&, Call& call) { return handle({}, call); });
    server_.handle(del<Json>("/any").idempotent(wanted),
                   [this](const std::monostate&, Call& call) { return handle({}, call); });
    server_.handle(post<Json, std::monostate>("/empty").idempotent(wanted),
                   [this](const Json&, Call&) { ++executed; });
    server_.handle(post<Json, std::string>("/large").idempotent(wanted),
                   [this](const Json&, Call&) {
                     ++executed;
                     return std::string(std::size_t{1} << 20U, 'x');
                   });
    server_.handle(post<Json, int>("/throws").idempotent(wanted),
                   [this](const Json&, Call&) -> int {
                     ++executed;
                     throw std::runtime_error("no");
                   });
    server_.handle(post<Json, int>("/gate").idempotent(wanted), [this](const Json&, Call&) {
      const int number = ++executed;
      std::unique_lock lock(mutex_);
      opened_.wait(lock, [this] { return is_open_; });
      return number;
    });
    // The same as Tasks, which begin on the connection's thread.
    server_.handle(
        post<Json, Json>("/task").idempotent(wanted),
        [this](const Json& body, Call& call) -> Task<Json> { co_return handle(body, call); });
    server_.handle(post<Json, int>("/task-gate").idempotent(wanted),
                   [this](const Json&, Call&) -> Task<int> {
                     const int number = ++executed;
                     co_await Gate{*this};
                     co_return number;
                   });
    server_.start();
  }

  RawAnswer send(const Sent& sent) {
    RawClient client(server_.port());
    auto answer = client.send(text_of(sent)).receive();
    REQUIRE(answer);
    return *answer;
  }

  void open_gate() {
    std::vector<std::coroutine_handle<>> waiting;
    {
      const std::lock_guard lock(mutex_);
      is_open_ = true;
      opened_.notify_all();
      waiting.swap(waiting_);
    }
    for (const auto each : waiting) each.resume();
  }

  /// Whether the store knows that somebody is at work on the key "k" of that endpoint, or has been.
  bool is_stored(const std::string& target) {
    const auto found = engine_.idempotency().kernel().call(store::FindReservation{
        .id = {.workspace = "default",
               .ns = idempotency::endpoint_namespace(idempotency::Policy{}, "POST", target),
               .scope = idempotency::caller_scope_text(Scope::actor_tenant, "", ""),
               .key = "k"}});
    REQUIRE(found);
    return std::holds_alternative<store::ReservationFound>(*found);
  }

  std::uint16_t port() const { return server_.port(); }

  std::atomic<int> executed = 0;

 private:
  struct Gate {
    Service& service;

    bool await_ready() const { return false; }

    bool await_suspend(std::coroutine_handle<> waiting) const {
      const std::lock_guard lock(service.mutex_);
      if (service.is_open_) return false;
      service.waiting_.push_back(waiting);
      return true;
    }

    void await_resume() const {}
  };

  /// Callers say who they are; whoever says nothing is nobody in particular.
  static ServerOptions with_identity(ServerOptions options) {
    options.authenticate = [](const Request& request) -> std::variant<Identity, Refusal> {
      return Identity{std::string(request.header("x-actor").value_or("")),
                      std::string(request.header("x-tenant").value_or(""))};
    };
    return options;
  }

  Json handle(const Json& body, Call& call) {
    const int number = ++executed;
    if (const auto status = call.headers.find("x-status"); status != call.headers.end())
      call.status = std::stoi(status->second);
    call.answer_headers = {{"X-First", "1"},        {"Set-Cookie", "secret=1"},
                           {"X-Second", "a, b"},    {"WWW-Authenticate", "Basic"},
                           {"Keep-Alive", "max=5"}, {"Idempotency-Replayed", "true"}};
    return {{"number", number}, {"body", body}};
  }

  test::TemporaryDirectory directory_;
  Engine engine_{url_in(directory_)};
  std::mutex mutex_;
  std::condition_variable opened_;
  std::vector<std::coroutine_handle<>> waiting_;
  bool is_open_ = false;
  Server server_;
};

bool is_replay(const RawAnswer& answer) { return answer.says("idempotency-replayed: true"); }

}  // namespace

TEST_CASE("K: what is a key and what is none") {
  struct Case {
    std::string number;
    std::string headers;
    bool is_key;
  };

  const std::string longest(255, 'k');
  const std::string escaped = std::string(253, 'k') + R"(\"\\)";
  const std::vector<Case> cases{
      {"K01", with_key("8e03978e-40d5-43dd-bc93-6894a57f9324"), true},
      {"K02", with_key("\"8e03978e-40d5-43dd-bc93-6894a57f9325\""), true},
      {"K03", with_key("k"), true},
      {"K04", with_key(longest), true},
      {"K05", with_key(longest + "k"), false},
      {"K06", with_key("\"" + escaped + "\""), true},
      {"K07", with_key("\"" + escaped + "k\""), false},
      {"K08", with_key(""), false},
      {"K09", with_key("\"\""), false},
      {"K10", with_key("   "), false},
      {"K11", with_key("a,b"), false},
      {"K12", with_key("a\"b"), false},
      {"K13", with_key("\"abc"), false},
      {"K14", with_key("abc\""), false},
      {"K15", with_key("\"abc\"d"), false},
      {"K16", with_key("\"parameters\";a=1;b"), true},
      {"K17", with_key(R"("quote\"d")"), true},
      {"K18", with_key(R"("back\\slash")"), true},
      {"K19", with_key(R"("line\nbreak")"), false},
      {"K20", with_key("caf\xc3\xa9"), false},
      {"K21", with_key("\"caf\xc3\xa9\""), false},
      {"K22", with_key("\"with a space\""), true},
      {"K23", with_key("with a space"), false},
      {"K24", with_key("\"tab\there\""), false},
      {"K25", with_key("one") + with_key("two"), false},
      {"K26", with_key("same") + with_key("same"), false},
      {"K27", with_key("!#$%&'()*+-./:;<=>?@[]^_`{|}~"), true},
      {"K28", with_key("back\\slash-bare"), true},
      {"K29", "Idempotency-Key:  \t around \t \r\n", true},
      {"K30", "IDEMPOTENCY-KEY: shouted\r\n", true},
      {"K31", with_key("\"one\", \"two\""), false},
  };
  Service service;
  for (const Case& each : cases) {
    CAPTURE(each.number);
    const int before = service.executed;
    const RawAnswer first = service.send({.headers = each.headers});
    const RawAnswer second = service.send({.headers = each.headers});
    if (each.is_key) {
      CHECK(first.status == 200);
      CHECK(is_replay(second));
      CHECK(service.executed == before + 1);
    } else {
      CHECK(first.status == 400);
      CHECK(first.code() == "IDEMPOTENCY_KEY_INVALID");
      CHECK(service.executed == before);
    }
  }
}

TEST_CASE("K32–K36: which keys are the same, and who needs one") {
  Service service;
  CHECK(service.send({.headers = with_key("abc")}).status == 200);
  CHECK(is_replay(service.send({.headers = with_key("\"abc\"")})));      // K32 bare and quoted
  CHECK(is_replay(service.send({.headers = with_key("\"abc\";v=1")})));  // K33 parameters
  CHECK_FALSE(is_replay(service.send({.headers = with_key("ABC")})));    // K34 case
  CHECK(service.send({}).status == 200);                            // K35 none, and none needed
  const RawAnswer missing = service.send({.target = "/required"});  // K36 none, and one needed
  CHECK(missing.status == 400);
  CHECK(missing.code() == "IDEMPOTENCY_KEY_REQUIRED");
  CHECK(service.executed == 3);
}

TEST_CASE("R: a replay is the first answer, byte for byte") {
  Service service;
  const Sent sent{.headers = with_key("r") + "X-Status: 201\r\n",
                  .body = R"({"n": 1.50, "big": 18446744073709551615, "s": "\u00e9\n"})"};
  const RawAnswer first = service.send(sent);
  const RawAnswer again = service.send(sent);

  CHECK(first.status == 201);  // R01 status
  CHECK(again.status == 201);
  CHECK(again.body == first.body);  // R02 body
  CHECK(is_replay(again));          // R03 says so
  CHECK_FALSE(is_replay(first));    // R04 and only then, whatever the handler says
  const std::size_t one = again.head.find("x-first: 1");
  const std::size_t two = again.head.find("x-second: a, b");
  CHECK(one < two);  // R05 headers in order
  CHECK(two != std::string::npos);
  CHECK(again.says("content-type: application/json"));  // R06
  CHECK(first.says("set-cookie: secret=1"));            // R07 cookies once
  CHECK_FALSE(again.says("set-cookie"));
  CHECK_FALSE(again.says("www-authenticate"));  // R08 credentials never
  CHECK_FALSE(again.says("keep-alive"));        // R09 hop by hop never
  CHECK(again.says("\r\ndate: "));              // R10 a date of its own
  CHECK(service.executed == 1);

  const RawAnswer empty = service.send({.target = "/empty", .headers = with_key("e")});
  const RawAnswer empty_again = service.send({.target = "/empty", .headers = with_key("e")});
  CHECK(empty.status == 204);  // R11 nothing, twice
  CHECK(empty_again.status == 204);
  CHECK(is_replay(empty_again));
  CHECK(empty_again.body.empty());
  // R12 a request that pretends to be a replay is none
  CHECK_FALSE(is_replay(service.send({.headers = "Idempotency-Replayed: true\r\n"})));
}

TEST_CASE("F: which requests are the same") {
  struct Case {
    std::string number;
    Sent first;
    Sent second;
    bool is_same;
  };

  const auto body = [](const char* text) { return Sent{.body = text}; };
  const auto target = [](const char* text) { return Sent{.target = text}; };
  const std::vector<Case> cases{
      {"F01", body(R"({"a":1,"b":2})"), body(R"({"b":2,"a":1})"), true},
      {"F02", body(R"({"a":1})"), body("{ \"a\" :\n 1 }"), true},
      {"F03", body(R"({"a":1})"), body(R"({"a":1.0})"), true},
      {"F04", body(R"({"a":1})"), body(R"({"a":1e0})"), true},
      {"F05", body(R"({"a":100})"), body(R"({"a":1E+2})"), true},
      {"F06", body(R"({"a":1.10})"), body(R"({"a":1.1})"), true},
      {"F07", body(R"({"a":0})"), body(R"({"a":-0})"), true},
      {"F08", body(R"({"a":9007199254740993})"), body(R"({"a":9007199254740992})"), false},
      {"F09", body(R"({"a":1})"), body(R"({"a":2})"), false},
      {"F10", body(R"({"a":null})"), body("{}"), false},
      {"F11", body(R"({"a":"é"})"), body(R"({"a":"\u00e9"})"), true},
      {"F12", body("{\"a\":\"\xc3\xa9\"}"), body("{\"a\":\"e\xcc\x81\"}"), false},
      {"F13", body(R"({"a":"x"})"), body(R"({"a":"X"})"), false},
      {"F14", body(R"({"a":{"b":1,"c":2}})"), body(R"({"a":{"c":2,"b":1}})"), true},
      {"F15", body("[1,2]"), body("[2,1]"), false},
      {"F16", body(R"({"a":true})"), body(R"({"a":1})"), false},
      {"F17", body(R"({"a":"1"})"), body(R"({"a":1})"), false},
      {"F18", body("{}"), body("[]"), false},
      {"F19", body(R"({"a":"/"})"), body(R"({"a":"\/"})"), true},
      {"F20", body(R"({"":1})"), body(R"({" ":1})"), false},
      {"F21", target("/any?a=1&b=2"), target("/any?b=2&a=1"), true},
      {"F22", target("/any?a=1&a=2"), target("/any?a=2&a=1"), false},
      {"F23", target("/any?a=1"), target("/any?a=2"), false},
      {"F24", target("/any?a=A"), target("/any?a=%41"), false},
      {"F25", target("/any?a=1"), target("/any"), false},
      {"F26", {}, {.content_type = "application/json; charset=utf-8"}, true},
      {"F27", {}, {.content_type = "APPLICATION/JSON"}, true},
      {"F28", {}, {.content_type = "application/merge-patch+json"}, false},
      {"F29", {}, {.headers = "User-Agent: other\r\nX-Trace: 7\r\n"}, true},
      {"F30", body("1e400"), body("1e401"), false},
  };
  Service service;
  for (const Case& each : cases) {
    CAPTURE(each.number);
    Sent first = each.first;
    Sent second = each.second;
    first.headers += with_key(each.number);
    second.headers += with_key(each.number);
    const RawAnswer begun = service.send(first);
    if (begun.status != 200)
      continue;  // a value that no Json can hold is refused before its key is looked at
    const int before = service.executed;
    const RawAnswer answer = service.send(second);
    CHECK(service.executed == before);
    if (each.is_same) {
      CHECK(is_replay(answer));
    } else {
      CHECK(answer.status == 409);
      CHECK(answer.code() == "IDEMPOTENCY_CONFLICT");
      CHECK(is_replay(service.send(first)));  // the record is untouched
    }
  }
}

TEST_CASE("F31–F33: how it is sent does not matter, what is malformed uses no key") {
  Service service;
  CHECK(service.send({.headers = with_key("k"), .body = R"({"a":1})"}).status == 200);
  RawClient client(service.port());
  const auto chunked =
      client
          .send(
              "POST /any HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
              "Idempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n"
              "3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n")
          .receive();
  REQUIRE(chunked);
  CHECK(is_replay(*chunked));  // F31
  CHECK(service.send({.headers = with_key("m"), .body = R"({"a":1,"a":2})"}).code() ==
        "MALFORMED");                                                                  // F32
  CHECK(service.send({.headers = with_key("m"), .body = "{"}).code() == "MALFORMED");  // F33
  CHECK(service.send({.headers = with_key("m"), .body = R"({"a":1})"}).status == 200);
  CHECK(service.executed == 2);
}

TEST_CASE("O: which outcomes are kept") {
  Service service;
  const auto kept = [&](int status) {
    const Sent sent{.headers = with_key("o" + std::to_string(status)) +
                               "X-Status: " + std::to_string(status) + "\r\n"};
    const int before = service.executed;
    const RawAnswer first = service.send(sent);
    const RawAnswer again = service.send(sent);
    CHECK(first.status == status);
    CHECK(again.status == status);
    return service.executed == before + 1;
  };

  for (const int status : {200, 201, 202, 203, 206, 301, 303, 307, 400, 402, 404, 405,
                           406, 410, 411, 412, 413, 415, 418, 422, 424, 428, 431, 451}) {
    CAPTURE(status);
    CHECK(kept(status));
  }
  for (const int status :
       {401, 403, 407, 408, 409, 421, 423, 425, 429, 500, 501, 502, 503, 504, 507}) {
    CAPTURE(status);
    CHECK_FALSE(kept(status));
  }
  CHECK(service.send({.target = "/throws", .headers = with_key("t")}).status == 500);
  CHECK(service.send({.target = "/throws", .headers = with_key("t")}).status == 500);
  const int thrown = service.executed;
  CHECK(service.send({.target = "/throws", .headers = with_key("t")}).status == 500);
  CHECK(service.executed == thrown + 1);
}

TEST_CASE("P: presets differ where systems do") {
  const auto conflict = [](const char* name) {
    Service service({.idempotency = name});
    service.send({.headers = with_key("k")});
    return service.send({.headers = with_key("k"), .body = "[]"}).status;
  };
  CHECK(conflict("default") == 409);
  CHECK(conflict("ietf") == 422);
  CHECK(conflict("beignet") == 409);
  CHECK(conflict("codecourier") == 409);
  CHECK(conflict("stripe") == 400);

  Service stripe({.idempotency = "stripe"});
  const Sent failing{.headers = with_key("k") + "X-Status: 500\r\n"};
  stripe.send(failing);
  CHECK(is_replay(stripe.send(failing)));  // all once execution began
  CHECK(stripe.send({.target = "/other", .headers = with_key("k")}).status ==
        400);  // another endpoint

  Service beignet({.idempotency = "beignet"});
  const Sent refused{.headers = with_key("k") + "X-Status: 404\r\n"};
  beignet.send(refused);
  CHECK_FALSE(is_replay(beignet.send(refused)));  // 2xx only

  Engine engine{"memory:"};
  CHECK_THROWS_AS(Server(engine, {.idempotency = "acme"}), Error);
}

TEST_CASE("T: whose a key is") {
  const auto as = [](const char* actor, const char* tenant) {
    return Sent{.headers =
                    with_key("k") + "X-Actor: " + actor + "\r\nX-Tenant: " + tenant + "\r\n"};
  };
  const auto distinct = [&](Scope scope) {
    Service service({}, {.scope = scope});
    service.send(as("ada", "acme"));
    service.send(as("bob", "acme"));
    service.send(as("ada", "other"));
    service.send(as("ada", "acme"));
    return service.executed.load();
  };

  CHECK(distinct(Scope::actor_tenant) == 3);
  CHECK(distinct(Scope::actor) == 2);
  CHECK(distinct(Scope::tenant) == 2);
  CHECK(distinct(Scope::global) == 1);

  Service service;
  service.send(as("a", "bc"));
  CHECK_FALSE(is_replay(service.send(as("ab", "c"))));  // names do not run into each other
  service.send({.headers = with_key("e")});
  CHECK_FALSE(is_replay(service.send({.target = "/other", .headers = with_key("e")})));
}

TEST_CASE("M: methods") {
  Service service;
  const auto twice = [&](const char* method, const char* body, const char* type) {
    const Sent sent{.method = method, .headers = with_key("m"), .body = body, .content_type = type};
    service.send(sent);
    return is_replay(service.send(sent));
  };

  CHECK(twice("POST", "{}", "application/json"));
  CHECK(twice("PUT", "{}", "application/json"));  // the same key on another method is another key
  CHECK(twice("PATCH", "{}", "application/json"));
  CHECK(twice("DELETE", "", ""));     // as declared
  CHECK_FALSE(twice("GET", "", ""));  // ignored, also one that would be invalid
  CHECK(service.send({.method = "GET", .headers = with_key(""), .body = "", .content_type = ""})
            .status == 200);
}

TEST_CASE("S: an answer too large to keep is given once and not made again") {
  Service service;
  const Sent sent{.target = "/large", .headers = with_key("s")};
  const RawAnswer first = service.send(sent);
  const RawAnswer again = service.send(sent);

  CHECK(first.status == 200);
  CHECK(first.body.size() == (std::size_t{1} << 20U) + 2);
  CHECK(again.status == 409);
  CHECK(again.code() == "IDEMPOTENCY_RESPONSE_NOT_RETAINED");
  CHECK(service.executed == 1);
}

/// A handler that may block, and a Task.
constexpr auto gates = std::to_array({"/gate", "/task-gate"});

TEST_CASE("C: many at once with one key are one execution") {
  for (const std::string target : gates) {
    for (const bool half_differ : {false, true}) {
      CAPTURE(target);
      CAPTURE(half_differ);
      constexpr int parallel = 500;
      Service service({.threads = 2});
      std::vector<std::unique_ptr<RawClient>> clients;
      for (int i = 0; i < parallel; ++i) {
        clients.push_back(std::make_unique<RawClient>(service.port()));
        const bool differs = half_differ && i % 2 == 1;
        clients.back()->send(text_of({.target = target,
                                      .headers = with_key("k") + "Prefer: wait=20\r\n",
                                      .body = differs ? "[1]" : "{}"}));
        // The first is the first: sent at once, another may be read before it.
        while (service.executed == 0) std::this_thread::yield();
      }
      // Those that do not match are told at once, whatever becomes of the first.
      int conflicts = 0;
      for (int i = 1; half_differ && i < parallel; i += 2) {
        const auto answer = clients[static_cast<std::size_t>(i)]->receive();
        REQUIRE(answer);
        CHECK(answer->code() == "IDEMPOTENCY_CONFLICT");
        ++conflicts;
      }
      service.open_gate();
      int replays = 0;
      int first = 0;
      for (int i = 0; i < parallel; i += half_differ ? 2 : 1) {
        const auto answer = clients[static_cast<std::size_t>(i)]->receive();
        REQUIRE(answer);
        CHECK(answer->status == 200);
        CHECK(answer->body == "1");
        ++(is_replay(*answer) ? replays : first);
      }

      CHECK(service.executed == 1);
      CHECK(first == 1);
      CHECK(replays == (half_differ ? parallel / 2 : parallel) - 1);
      CHECK(conflicts == (half_differ ? parallel / 2 : 0));
    }
  }
}

TEST_CASE("C: many at once with one key are one execution, however quick") {
  for (const std::string target : {"/any", "/task"}) {
    CAPTURE(target);
    constexpr int rounds = 20;
    constexpr int parallel = 16;
    Service service({.threads = 2});
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < parallel; ++i)
      clients.push_back(std::make_unique<RawClient>(service.port()));
    for (int round = 0; round < rounds; ++round) {
      for (const auto& client : clients) {
        client->send(text_of({.target = target, .headers = with_key(std::to_string(round))}));
      }
      std::string first;
      for (const auto& client : clients) {
        const auto answer = client->receive();
        REQUIRE(answer);
        if (first.empty()) first = answer->body;
        CHECK(answer->body == first);
      }
    }
    CHECK(service.executed == rounds);
  }
}

TEST_CASE("C: who does not want to wait is told that it is under way") {
  for (const std::string target : gates) {
    CAPTURE(target);
    Service service;
    RawClient first(service.port());
    first.send(text_of({.target = target, .headers = with_key("k")}));
    while (service.executed == 0) std::this_thread::yield();
    const RawAnswer busy =
        service.send({.target = target, .headers = with_key("k") + "Prefer: wait=0\r\n"});

    CHECK(busy.status == 409);
    CHECK(busy.code() == "IDEMPOTENCY_IN_PROGRESS");
    CHECK(busy.says("retry-after: 1"));
    service.open_gate();
    CHECK(first.receive()->status == 200);
    CHECK(service.executed == 1);
  }
}

TEST_CASE("C: a client that goes away does not stop its request; its retry gets the answer") {
  for (const std::string target : gates) {
    CAPTURE(target);
    Service service;
    {
      RawClient gone(service.port());
      gone.send(text_of({.target = target, .headers = with_key("k")}));
      // Until it is under way: then the second of the same key waits.
      RawClient waiting(service.port());
      while (service.executed == 0) std::this_thread::yield();
      gone.reset();
    }
    service.open_gate();
    const RawAnswer answer = service.send({.target = target, .headers = with_key("k")});

    CHECK(answer.status == 200);
    CHECK(answer.body == "1");
    CHECK(service.executed == 1);
  }
}

TEST_CASE("C: a handler that takes its time is known to the store while it works") {
  for (const std::string target : gates) {
    CAPTURE(target);
    Service service;
    RawClient first(service.port());
    first.send(text_of({.target = target, .headers = with_key("k")}));
    while (!service.is_stored(target)) std::this_thread::yield();

    const RawAnswer other =
        service.send({.target = target, .headers = with_key("k"), .body = "[1]"});
    service.open_gate();
    const auto answer = first.receive();
    const RawAnswer replay = service.send({.target = target, .headers = with_key("k")});

    CHECK(other.code() == "IDEMPOTENCY_CONFLICT");
    REQUIRE(answer);
    CHECK(answer->status == 200);
    CHECK(replay.body == answer->body);
    CHECK(is_replay(replay));
    CHECK(service.executed == 1);
  }
}

TEST_CASE("C: a quick handler whose answer is not kept leaves nothing behind") {
  for (const std::string target : {"/any", "/task"}) {
    CAPTURE(target);
    Service service;
    const RawAnswer failed =
        service.send({.target = target, .headers = with_key("k") + "X-Status: 503\r\n"});
    const bool was_stored = service.is_stored(target);
    const RawAnswer other =
        service.send({.target = target, .headers = with_key("k"), .body = "[1]"});

    CHECK(failed.status == 503);
    CHECK_FALSE(was_stored);
    CHECK(other.status == 200);
    CHECK(service.executed == 2);
  }
}

}  // namespace semel::http
