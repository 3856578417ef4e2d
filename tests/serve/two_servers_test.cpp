// Whichever server is asked: the run is the other's, and the answer is the same.
#include "tests/serve/two_servers.hpp"

#include <algorithm>
#include <set>

namespace semel::serving {
namespace {

std::string run_path(const std::string& id) { return "/api/v1/runs/" + id; }

/// Asks for a result that is not there yet.
class Waiting {
 public:
  Waiting(const Served& server, const std::string& id) : client_(server.server->port()) {
    client_.send("GET " + run_path(id) + "/result?wait=20s HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }

  Json result() {
    const auto answer = client_.receive();
    REQUIRE(answer);
    return Served::json(*answer);
  }

 private:
  RawClient client_;
};

TEST_CASE("a run of one server is seen, resumed and awaited at the other") {
  TwoServers two;
  const std::string id = two.a.started("approve", R"("t")", R"(,"token":"t")");
  two.b.reach(id, "waiting");
  Waiting there(two.b, id);
  Waiting here(two.a, id);

  const RawAnswer seen = two.b.get(run_path(id));
  const RawAnswer hook = two.b.get("/api/v1/hooks/t");
  const RawAnswer hooks = two.b.get("/api/v1/hooks?runId=" + id);
  const RawAnswer misfit = two.b.post("/api/v1/hooks/t/resume", R"({"granted":"perhaps"})");
  const RawAnswer resumed = two.b.post("/api/v1/hooks/t/resume", R"({"granted":true})", "k");
  const RawAnswer again = two.a.post("/api/v1/hooks/t/resume", R"({"granted":true})", "k");

  CHECK(seen.status == 200);
  CHECK(Served::json(seen).at("waitingFor").as_array().size() == 1);
  CHECK(Served::json(hook).at("runId") == Json(id));
  CHECK(Served::json(hooks).at("items").as_array().size() == 1);
  CHECK(misfit.status == 422);
  CHECK(resumed.status == 200);
  CHECK(again.body == resumed.body);
  CHECK(again.says("idempotency-replayed: true"));
  CHECK(there.result().at("output") == "granted");
  CHECK(here.result().at("output") == "granted");
  CHECK(two.b.get("/api/v1/hooks/t").status == 404);
}

TEST_CASE("what is done at one server to a run of the other is done soon") {
  TwoServers two;
  std::vector<std::chrono::nanoseconds> times;

  for (int i = 0; i < 21; ++i) {
    const std::string token = "t" + std::to_string(i);
    const std::string id =
        two.a.started("approve", "\"" + token + "\"", R"(,"token":")" + token + "\"");
    two.a.reach(id, "waiting");
    Waiting waiting(two.b, id);
    const auto began = std::chrono::steady_clock::now();
    CHECK(two.b.post("/api/v1/hooks/" + token + "/resume", R"({"granted":true})").status == 200);
    CHECK(waiting.result().at("output") == "granted");
    times.push_back(std::chrono::steady_clock::now() - began);
  }

  // By being told: whoever has to look for it does so once a second.
  std::ranges::sort(times);
  CHECK(times[times.size() / 2] < 500ms);
}

TEST_CASE("a run of one server is cancelled at the other, at once and with grace") {
  TwoServers two;
  const std::string at_once = two.a.started("approve", R"("t")", R"(,"token":"t")");
  const std::string in_a_while = two.a.started("nap", "[]");
  two.a.reach(at_once, "waiting");
  two.a.reach(in_a_while, "waiting");
  Waiting here(two.a, at_once);
  Waiting later(two.a, in_a_while);

  const RawAnswer cancelled = two.b.post(run_path(at_once) + "/cancel", "", "k");
  const RawAnswer again = two.a.post(run_path(at_once) + "/cancel", "", "k");
  const RawAnswer graceful = two.b.post(run_path(in_a_while) + "/cancel", R"({"grace":"100ms"})");

  CHECK(Served::json(cancelled).at("status") == "cancelled");
  CHECK(again.body == cancelled.body);
  CHECK(graceful.status == 200);
  CHECK(here.result().at("status") == "cancelled");
  CHECK(later.result().at("status") == "cancelled");
  // Its token is free, for whoever asks.
  CHECK(two.a.started("approve", R"("t")", R"(,"token":"t")") != at_once);
}

TEST_CASE("a run of one server is woken, retried and forked at the other") {
  TwoServers two;
  mended() = false;
  const std::string asleep = two.a.started("nap", "[]");
  const std::string broken = two.a.started("fragile", "[]");
  two.b.reach(asleep, "waiting");
  two.b.reach(broken, "failed");
  Waiting awake(two.b, asleep);

  const RawAnswer woken = two.b.post(run_path(asleep) + "/wake", "");
  mended() = true;
  const RawAnswer stale = two.b.ask(
      {.method = "POST", .path = run_path(broken) + "/retry", .headers = {{"If-Match", "\"0\""}}});
  const RawAnswer retried = two.b.post(run_path(broken) + "/retry", "");
  const Json mended_result = two.b.result(broken);
  const RawAnswer copy = two.b.post(run_path(broken) + "/fork", R"({"seq":0})");

  CHECK(Served::json(woken).at("woken") == 1);
  CHECK(awake.result().at("output") == 1);
  CHECK(stale.code() == "CONCURRENCY_ERROR");
  CHECK(retried.status == 200);
  CHECK(mended_result.at("output") == 7);
  REQUIRE_MESSAGE(copy.status == 201, copy.body);
  const std::string copied(Served::json(copy).at("run").at("id").as_string());
  CHECK(two.a.result(copied).at("output") == 7);
}

TEST_CASE("resume-or-start at both servers makes one run, and no payload is lost") {
  TwoServers two;
  const Wanted wanted{
      .method = "POST",
      .path = "/api/v1/hooks/t/resume-or-start",
      .body =
          R"({"workflow":"approve","payload":{"granted":true},"start":{"input":"t","delay":"1h"}})"};

  const auto answers = all_at_once(two.a, two.b, 20, wanted);

  std::set<std::string> runs;
  int started = 0;
  for (const RawAnswer& answer : answers) {
    REQUIRE_MESSAGE(answer.status / 100 == 2, answer.body);
    if (answer.status == 201) ++started;
    runs.insert(std::string(Served::json(answer).at("runId").as_string()));
  }
  CHECK(started == 1);
  CHECK(runs.size() == 1);
  CHECK(Served::json(two.a.get("/api/v1/hooks/t")).at("waiting") == 20);
}

TEST_CASE("webhooks of one server's runs are answered by the other") {
  TwoServers two;
  const std::string listens = two.a.started("listen", R"("ear")");
  const std::string greets = two.a.started("greet", R"("door")");
  const std::string talks = two.a.started("converse", R"("chat")");
  for (const std::string& id : {listens, greets, talks}) two.b.reach(id, "waiting");
  const Wanted question{.method = "POST",
                        .path = "/hooks/chat",
                        .body = "how are you?",
                        .key = "k",
                        .headers = {{"Content-Type", "text/plain"}}};

  CHECK(two.b.post("/hooks/ear", "hello").status == 202);
  CHECK(two.b.post("/hooks/door", "hello").body == "good day");
  const RawAnswer said = two.b.ask(question);
  const RawAnswer again = two.a.ask(question);

  CHECK(two.b.result(listens).at("output") == "POST hello");
  CHECK(said.status == 201);
  CHECK(said.body == "re: how are you?");
  CHECK(again.body == said.body);
  CHECK(again.says("idempotency-replayed: true"));
}

TEST_CASE("a journal is followed at the other server") {
  TwoServers two;
  const std::string id = two.a.started("approve", R"("t")", R"(,"token":"t")");
  two.a.reach(id, "waiting");
  RawClient follower(two.b.server->port());
  follower.send("GET " + run_path(id) +
                "/journal HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
  REQUIRE_FALSE(follower.receive_until("event: started").empty());

  CHECK(two.a.post("/api/v1/hooks/t/resume", R"({"granted":true})").status == 200);

  CHECK_FALSE(follower.receive_until("event: payload_arrived").empty());
  CHECK_FALSE(follower.receive_until("event: end").empty());
  CHECK(two.a.get(run_path(id) + "/journal").body == two.b.get(run_path(id) + "/journal").body);
}

TEST_CASE("one key at both servers at the same time: one execution, the same bytes everywhere") {
  TwoServers two;
  for (int round = 0; round < 5; ++round) {
    CAPTURE(round);
    const auto answers = all_at_once(two.a, two.b, 50,
                                     {.method = "POST",
                                      .path = "/api/v1/runs",
                                      .body = R"({"workflow":"nap"})",
                                      .key = "k" + std::to_string(round)});

    std::set<std::string> bodies;
    std::ptrdiff_t first = 0;
    for (const RawAnswer& answer : answers) {
      CHECK_MESSAGE(answer.status == 201, answer.body);
      bodies.insert(answer.body);
      if (!answer.says("idempotency-replayed")) ++first;
    }
    CHECK(bodies.size() == 1);
    CHECK(first == 1);
    CHECK(Served::json(two.b.get("/api/v1/runs?workflow=nap")).at("items").as_array().size() ==
          static_cast<std::size_t>(round + 1));
  }
}

TEST_CASE("starts with one key in their bodies at both servers: one of them made the run") {
  TwoServers two;
  for (int round = 0; round < 5; ++round) {
    CAPTURE(round);
    const auto answers = all_at_once(
        two.a, two.b, 50,
        {.method = "POST",
         .path = "/api/v1/runs",
         .body = R"({"workflow":"nap","idempotencyKey":"k)" + std::to_string(round) + "\"}"});

    int created = 0;
    std::set<std::string> runs;
    for (const RawAnswer& answer : answers) {
      REQUIRE_MESSAGE(answer.status / 100 == 2, answer.body);
      if (Served::json(answer).at("created").as_bool()) ++created;
      runs.insert(std::string(Served::json(answer).at("run").at("id").as_string()));
    }
    CHECK(created == 1);
    CHECK(runs.size() == 1);
  }
}

TEST_CASE("a key in progress at one server is so at the other, and a fence is a fence there") {
  TwoServers two;
  const std::string ask = R"({"namespace":"pay","key":"k","fingerprint":"f"})";
  const auto outcome = [&](const Served& at) {
    return std::string(
        Served::json(at.post("/api/v1/idempotency/reserve", ask)).at("outcome").as_string());
  };

  const Json mine = Served::json(two.a.post("/api/v1/idempotency/reserve", ask));
  CHECK(mine.at("outcome") == "acquired");
  CHECK(outcome(two.b) == "inProgress");
  const std::string complete = R"({"namespace":"pay","key":"k","fence":")" +
                               std::string(mine.at("fence").as_string()) +
                               R"(","response":{"paid":true}})";
  CHECK(two.b.post("/api/v1/idempotency/complete", complete).status == 204);

  CHECK(outcome(two.a) == "replay");
  CHECK(two.b.ask({.method = "DELETE", .path = "/api/v1/idempotency?namespace=pay&key=k"}).status ==
        204);
  CHECK(outcome(two.a) == "acquired");
}

/// A server of the program's own contracts, beside the other.
std::unique_ptr<http::Server> paying(Engine& engine, std::function<std::int64_t(const Sum&)> pay) {
  auto server = std::make_unique<http::Server>(engine, http::ServerOptions{});
  server->handle(http::post<Sum, std::int64_t>("/pay").named("pay").idempotent({}),
                 [pay = std::move(pay)](const Sum& sum, http::Call&) { return pay(sum); });
  server->start();
  return server;
}

TEST_CASE("a duplicate at one server waits for the first at the other") {
  TwoServers two;
  std::latch began(1);
  std::latch may_end(1);
  std::atomic<int> times = 0;
  const auto first = paying(two.a.engine, [&](const Sum& sum) {
    ++times;
    began.count_down();
    may_end.wait();
    return sum.left + sum.right;
  });
  const auto second = paying(two.b.engine, [&](const Sum&) {
    ++times;
    return std::int64_t{0};
  });
  const std::string body = R"({"left":1,"right":2})";
  const std::string text =
      "POST /pay HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: k\r\nPrefer: wait=20\r\n"
      "Content-Type: application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  RawClient one(first->port());
  RawClient other(second->port());

  one.send(text);
  began.wait();
  other.send(text);
  may_end.count_down();
  const auto paid = one.receive();
  const auto heard = other.receive();

  REQUIRE((paid && heard));
  CHECK(paid->body == "3");
  CHECK(heard->body == "3");
  CHECK(heard->says("idempotency-replayed: true"));
  CHECK(times == 1);
}

}  // namespace
}  // namespace semel::serving
