// Who may, and how much, where two servers share a store; and what happens when one of them, or the store, goes.
#include "tests/serve/two_servers.hpp"
#include "tests/support/postgres_proxy.hpp"
#include "tests/support/postgres_server.hpp"

#include <algorithm>
#include <optional>

namespace semel::serving {
namespace {

constexpr const char* keys = "/api/v1/api-keys";
constexpr const char* admin = R"({"name":"root","scopes":["read","write","admin"]})";

std::string member(const RawAnswer& answer, const char* name) {
  return std::string(Served::json(answer).at(name).as_string());
}

int status_of(const Served& served, const std::string& key, const std::string& path) {
  return served.ask({.path = path, .headers = {{"Authorization", "Bearer " + key}}}).status;
}

std::ptrdiff_t with_status(const std::vector<RawAnswer>& answers, int status) {
  return std::ranges::count(answers, status, &RawAnswer::status);
}

TEST_CASE("the first key ends open mode at both servers, in the same commit") {
  TwoServers two;
  REQUIRE(two.b.get("/api/v1/runs").status == 200);

  const RawAnswer made = two.a.post(keys, admin);
  const RawAnswer anonymous = two.b.get("/api/v1/runs");
  const RawAnswer elsewhere =
      two.b.ask({.path = "/api/v1/runs", .headers = {{"Host", "semel.example"}}});

  CHECK(made.status == 201);
  CHECK(anonymous.status == 401);
  CHECK(elsewhere.status == 401);
  CHECK(status_of(two.b, member(made, "key"), "/api/v1/runs") == 200);
}

TEST_CASE("two who make the first key at the same time: one is an admin, the other is nobody") {
  for (int round = 0; round < 3; ++round) {
    TwoServers two;
    const auto answers =
        all_at_once(two.a, two.b, 10, {.method = "POST", .path = keys, .body = admin});

    CHECK(with_status(answers, 201) == 1);
    CHECK(with_status(answers, 401) == 9);
  }
}

TEST_CASE(
    "a key made at one server is good at the other at once, and no longer once it is revoked") {
  TwoServers two;
  two.a.credential = member(two.a.post(keys, admin), "key");
  two.b.credential = two.a.credential;

  for (int i = 0; i < 50; ++i) {
    Served& here = i % 2 == 0 ? two.a : two.b;
    Served& there = i % 2 == 0 ? two.b : two.a;
    const RawAnswer made = here.post(keys, R"({"name":"r","scopes":["read"]})");
    const std::string key = member(made, "key");
    CHECK(status_of(there, key, "/api/v1/runs") == 200);
    CHECK(there.ask({.method = "DELETE", .path = std::string(keys) + "/" + member(made, "id")})
              .status == 204);
    CHECK(status_of(here, key, "/api/v1/runs") == 401);
    CHECK(status_of(there, key, "/api/v1/runs") == 401);
  }
  CHECK(Served::json(two.b.get(keys)).at("items").as_array().size() == 1);
}

TEST_CASE("the last admin's key stays, whoever revokes the others where") {
  TwoServers two;
  const RawAnswer first = two.a.post(keys, admin);
  two.a.credential = member(first, "key");
  const RawAnswer second = two.a.post(keys, admin);
  two.b.credential = member(second, "key");
  std::latch begin(2);
  int statuses[2] = {0, 0};

  {
    const auto revoke = [&](const Served& at, const RawAnswer& made, int& status) {
      begin.arrive_and_wait();
      status =
          at.ask({.method = "DELETE", .path = std::string(keys) + "/" + member(made, "id")}).status;
    };
    const std::jthread one([&] { revoke(two.a, second, statuses[0]); });
    const std::jthread other([&] { revoke(two.b, first, statuses[1]); });
  }

  // The other one is the last, or is not there to ask any more.
  CHECK(std::ranges::count(statuses, 204) == 1);
  CHECK((std::ranges::count(statuses, 409) + std::ranges::count(statuses, 401)) == 1);
}

TEST_CASE("parallel clients of both servers get no more runs than the workspace may have") {
  TwoServers two{{.active_runs_max = 10}};

  const auto answers =
      all_at_once(two.a, two.b, 40,
                  {.method = "POST", .path = "/api/v1/runs", .body = R"({"workflow":"nap"})"});

  CHECK(with_status(answers, 201) == 10);
  CHECK(with_status(answers, 429) == 30);
  const Json runs = Served::json(two.a.get("/api/v1/runs"));
  CHECK(runs.at("items").as_array().size() == 10);
  // One that is cancelled anywhere makes room everywhere.
  const std::string id(runs.at("items").at(0).at("id").as_string());
  CHECK(two.b.post("/api/v1/runs/" + id + "/cancel", "").status == 200);
  int status = 429;
  for (int i = 0; i < 10'000 && status == 429; ++i)
    status = two.a.post("/api/v1/runs", R"({"workflow":"nap"})").status;
  CHECK(status == 201);
}

TEST_CASE("with limits, too, one key at both servers is one execution, and what is done is told") {
  TwoServers two{{.active_runs_max = 1000}};

  for (int round = 0; round < 5; ++round) {
    const auto answers = all_at_once(two.a, two.b, 20,
                                     {.method = "POST",
                                      .path = "/api/v1/runs",
                                      .body = R"({"workflow":"nap"})",
                                      .key = "k" + std::to_string(round)});
    for (const RawAnswer& answer : answers) CHECK(answer.body == answers.front().body);
  }

  CHECK(Served::json(two.b.get("/api/v1/runs")).at("items").as_array().size() == 5);
  mended() = false;
  const std::string id = two.a.started("fragile", "[]");
  two.a.reach(id, "failed");
  mended() = true;
  CHECK(two.b.post("/api/v1/runs/" + id + "/retry", "").status == 200);
  CHECK(two.b.result(id).at("output") == 7);
}

TEST_CASE("a store that is out of reach lets nobody in, and the server says that it is not ready") {
  testing::PostgresServer& server = testing::PostgresServer::shared();
  server.clear();
  std::optional<testing::PostgresProxy> way(server.port());
  Served served(way->url());
  served.credential = member(served.post(keys, admin), "key");
  REQUIRE(served.get("/api/v1/runs").status == 200);
  REQUIRE(served.get("/readyz").status == 200);

  way.reset();

  CHECK(served.get("/api/v1/runs").code() == "STORE_UNAVAILABLE");
  CHECK(served.post("/api/v1/runs", R"({"workflow":"nap"})", "k").code() == "STORE_UNAVAILABLE");
  CHECK(served.get("/readyz").status == 503);
  CHECK(served.get("/healthz").status == 200);
}

TEST_CASE("a server that leaves hands its runs over, and they go on at the other") {
  TwoServers two;
  std::vector<std::string> ids;
  for (int i = 0; i < 20; ++i) {
    const std::string token = "t" + std::to_string(i);
    ids.push_back(two.a.started("approve", "\"" + token + "\"", R"(,"token":")" + token + "\""));
    two.a.reach(ids.back(), "waiting");
  }

  two.a.server->stop();
  const auto began = std::chrono::steady_clock::now();
  two.a.engine.stop();

  for (int i = 0; i < 20; ++i) {
    const std::string path = "/api/v1/hooks/t" + std::to_string(i) + "/resume";
    CHECK(two.b.post(path, R"({"granted":true})").status == 200);
  }
  for (const std::string& id : ids) CHECK(two.b.result(id).at("output") == "granted");
  CHECK(std::chrono::steady_clock::now() - began < 10s);
}

}  // namespace
}  // namespace semel::serving
