// A served engine, and a client that speaks to it in a line.
#pragma once

#include "http/raw_client.hpp"
#include "tests/support/fresh_store.hpp"

#include <semel/semel.hpp>

#include <boost/json.hpp>
#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace semel::serving {

using namespace std::chrono_literals;
using http::testing::RawAnswer;
using http::testing::RawClient;

struct Approval {
  bool granted = false;
};
BOOST_DESCRIBE_STRUCT(Approval, (), (granted))

struct Sum {
  std::int64_t left = 0;
  std::int64_t right = 0;
};
BOOST_DESCRIBE_STRUCT(Sum, (), (left, right))

/// Waits for an approval at its token.
inline Workflow<std::string> approve(std::string token) {
  auto hook = semel::hook<Approval>(token);
  const Approval answer = co_await hook;
  co_return answer.granted ? "granted" : "refused";
}

inline Workflow<std::int64_t> add(Sum sum) {
  co_return co_await step("add", [sum] { return sum.left + sum.right; });
}

inline Workflow<int> nap() {
  co_await semel::sleep(24h);
  co_return 1;
}

/// Sleeps, and then waits for an approval.
inline Workflow<std::string> doze() {
  co_await semel::sleep(24h);
  auto hook = semel::hook<Approval>("awake");
  const Approval answer = co_await hook;
  co_return answer.granted ? "granted" : "refused";
}

/// Fails until `mended` says otherwise.
inline std::atomic<bool>& mended() {
  static std::atomic<bool> value = false;
  return value;
}

inline Workflow<int> fragile() {
  co_return co_await step("try", {.retry = {.attempts = 1}}, [] {
    if (!mended()) throw FatalError("broken");
    return 7;
  });
}

/// Tells its token as an attribute and returns the body of what comes in.
inline Workflow<std::string> listen(std::string token) {
  auto hook = semel::webhook(token);
  const WebhookRequest request = co_await hook;
  co_return request.method + " " + request.body + request.bodyBase64.value_or("");
}

/// Greets whoever comes; waits for two of them.
inline Workflow<int> greet(std::string token) {
  auto hook = semel::webhook(
      token, {.status = 200, .headers = {{"content-type", "text/plain"}}, .body = "good day"});
  co_await hook;
  co_await hook;
  co_return 2;
}

/// Answers what it is asked; what is "nothing" it leaves unanswered.
inline Workflow<int> converse(std::string token) {
  auto hook = semel::webhook(token, AnswerWithin{20s});
  for (int i = 0;; ++i) {
    const WebhookRequest request = co_await hook;
    if (request.body == "nothing") co_return i;
    const std::string said = co_await step("reply", [request] { return "re: " + request.body; });
    co_await answer(request, {.status = 201, .headers = {{"x-said", "yes"}}, .body = said});
    co_await answer(request, {.status = 500});
  }
}

/// Sleeps on a text.
inline Workflow<int> keep(std::string text) {
  co_await semel::sleep(24h);
  co_return static_cast<int>(text.size());
}

/// Hears and does not answer.
inline Workflow<int> silent(std::string token) {
  auto hook = semel::webhook(token, AnswerWithin{60s});
  co_await hook;
  co_await semel::sleep(24h);
  co_return 1;
}

struct Wanted {
  std::string method = "GET";
  std::string path;
  std::string body{};
  std::string key{};  ///< Idempotency-Key
  std::map<std::string, std::string> headers{};
};

class Served {
 public:
  explicit Served(const std::string& url = testing::fresh_store(),
                  const http::WorkspaceLimits& limits = {}, const EngineOptions& options = {})
      : engine(url, options) {
    engine.add("approve", approve, {.token_payload = semel::type<Approval>()});
    engine.add("add", add);
    engine.add("nap", nap);
    engine.add("doze", doze);
    engine.add("fragile", fragile);
    engine.add("listen", listen);
    engine.add("greet", greet);
    engine.add("converse", converse);
    engine.add("keep", keep);
    engine.add("silent", silent);
    engine.start_workers();
    server = http::serve(engine, {}, limits);
  }

  RawAnswer ask(const Wanted& wanted) const {
    RawClient client(server->port());
    return ask_by(client, wanted);
  }

  RawAnswer ask_by(RawClient& client, const Wanted& wanted) const {
    std::string text = wanted.method + " " + wanted.path + " HTTP/1.1\r\n";
    if (!wanted.headers.contains("Host")) text += "Host: localhost\r\n";
    if (!wanted.key.empty()) text += "Idempotency-Key: " + wanted.key + "\r\n";
    if (!credential.empty() && !wanted.headers.contains("Authorization"))
      text += "Authorization: Bearer " + credential + "\r\n";
    if (!wanted.body.empty() && !wanted.headers.contains("Content-Type"))
      text += "Content-Type: application/json\r\n";
    for (const auto& [name, value] : wanted.headers) text += name + ": " + value + "\r\n";
    if (wanted.method != "GET" && wanted.method != "HEAD")
      text += "Content-Length: " + std::to_string(wanted.body.size()) + "\r\n";
    auto answer = client.send(text + "\r\n" + wanted.body).receive(wanted.method == "HEAD");
    REQUIRE(answer);
    return *answer;
  }

  RawAnswer get(const std::string& path) const { return ask({.path = path}); }

  RawAnswer post(const std::string& path, const std::string& body,
                 const std::string& key = "") const {
    return ask({.method = "POST", .path = path, .body = body, .key = key});
  }

  /// The id of a run of `workflow` that was started.
  std::string started(const std::string& workflow, const std::string& input,
                      const std::string& more = "") const {
    const RawAnswer answer =
        post("/api/v1/runs", R"({"workflow":")" + workflow + R"(","input":)" + input + more + "}");
    REQUIRE_MESSAGE(answer.status == 201, answer.body);
    return std::string(json(answer).at("run").at("id").as_string());
  }

  /// Waits for the end of a run.
  Json result(const std::string& id) const {
    return json(get("/api/v1/runs/" + id + "/result?wait=20s"));
  }

  static Json json(const RawAnswer& answer) { return value::from_text(answer.body); }

  /// Waits until the run is at this status. No clock: each look is a request.
  void reach(const std::string& id, std::string_view status) const {
    for (int i = 0; i < 5000; ++i) {
      if (json(get("/api/v1/runs/" + id)).at("status").as_string() == status) return;
    }
    FAIL("run " << id << " does not become " << status);
  }

  /// The same until the journal has an entry of this kind.
  void reach_entry(const std::string& id, std::string_view kind) const {
    for (int i = 0; i < 5000; ++i) {
      const Json page = json(get("/api/v1/runs/" + id + "/journal"));
      for (const Json& entry : page.at("items").as_array()) {
        if (entry.at("kind").as_string() == kind) return;
      }
    }
    FAIL("run " << id << " gets no entry " << kind);
  }

  Engine engine;
  std::unique_ptr<http::Server> server;
  std::string credential;
};

}  // namespace semel::serving
