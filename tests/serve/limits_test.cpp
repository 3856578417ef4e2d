// What a workspace may use, under concurrency and over restarts.
#include "tests/serve/served.hpp"

#include <filesystem>
#include <thread>

namespace semel::serving {
namespace {

constexpr const char* nap = R"({"workflow":"nap"})";

std::string limit_in(const RawAnswer& answer) {
  return std::string(Served::json(answer).at("limit").as_string());
}

/// The id of a run that is started as soon as there is room. That another has ended is noticed at the next count, a tenth of
/// a second later; no clock: each look is a request.
std::string until_started(const Served& served, const std::string& body) {
  for (int i = 0; i < 100'000; ++i) {
    const RawAnswer answer = served.post("/api/v1/runs", body);
    if (answer.status == 201)
      return std::string(Served::json(answer).at("run").at("id").as_string());
    REQUIRE(answer.status == 429);
  }
  FAIL("there is no room");
  return {};
}

TEST_CASE("whoever asks too often is told when to come back, and a replay is never too often") {
  Served served{testing::fresh_store(), {.requests_per_second = 0.01}};
  const RawAnswer first = served.post("/api/v1/runs", nap, "k");

  const RawAnswer again = served.post("/api/v1/runs", nap, "k");
  const RawAnswer from_memory = served.post("/api/v1/runs", nap, "k");
  const RawAnswer other = served.post("/api/v1/runs", nap, "other");
  const RawAnswer without_key = served.post("/api/v1/runs", nap);
  const RawAnswer look = served.get("/api/v1/runs");

  CHECK(first.status == 201);
  CHECK(again.body == first.body);
  CHECK(from_memory.body == first.body);
  for (const RawAnswer& refused : {other, without_key, look}) {
    CHECK(refused.status == 429);
    CHECK(refused.code() == "RATE_LIMITED");
    CHECK(served.json(refused).at("retryable") == true);
    CHECK(limit_in(refused) == "requestsPerSecond");
    CHECK(refused.says("retry-after: 1"));  // 100 s, less what has passed
  }
  CHECK(served.get("/healthz").status == 200);
}

TEST_CASE("a refused request leaves its key free") {
  Served served{testing::fresh_store(), {.requests_per_second = 0.01}};
  REQUIRE(served.get("/api/v1/runs").status == 200);
  REQUIRE(served.post("/api/v1/runs", nap, "k").status == 429);

  const RawAnswer other_body = served.post("/api/v1/runs", R"({"workflow":"doze"})", "k");

  CHECK(other_body.code() == "RATE_LIMITED");
}

TEST_CASE(
    "parallel starts make as many runs as there may be, and those that are there are handed back") {
  Served served{testing::fresh_store(), {.active_runs_max = 5}};
  std::atomic<int> made{0};
  std::atomic<int> refused{0};
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back([&, i] {
        for (int n = 0; n < 5; ++n) {
          RawClient client(served.server->port());
          const std::string body = R"({"workflow":"nap","idempotencyKey":")" + std::to_string(i) +
                                   "-" + std::to_string(n) + "\"}";
          const auto answer =
              client
                  .send(
                      "POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                      "application/json\r\nContent-Length: " +
                      std::to_string(body.size()) + "\r\n\r\n" + body)
                  .receive();
          if (answer && answer->status == 201) ++made;
          if (answer && answer->status == 429) ++refused;
        }
      });
    }
  }

  CHECK(made == 5);
  CHECK(refused == 15);
  const Json runs = served.json(served.get("/api/v1/runs"));
  REQUIRE(runs.at("items").as_array().size() == 5);
  const std::string key(runs.at("items").at(0).at("idempotencyKey").as_string());
  const RawAnswer attached =
      served.post("/api/v1/runs", R"({"workflow":"nap","idempotencyKey":")" + key + "\"}");
  CHECK(attached.status == 200);
  CHECK(served.json(attached).at("created") == false);
}

TEST_CASE("forks, retries and resume-or-start make runs too") {
  Served served{testing::fresh_store(), {.active_runs_max = 2}};
  const std::string broken = served.started("fragile", "[]");
  served.result(broken);
  const std::string asleep = until_started(served, nap);
  until_started(served, R"({"workflow":"approve","input":"t","token":"t"})");

  const RawAnswer fork = served.post("/api/v1/runs/" + asleep + "/fork", R"({"seq":0})");
  const RawAnswer retry = served.post("/api/v1/runs/" + broken + "/retry", "");
  const std::string body =
      R"({"workflow":"approve","payload":{"granted":true},"start":{"input":"u"}})";
  const RawAnswer start = served.post("/api/v1/hooks/u/resume-or-start", body);
  const RawAnswer resume = served.post("/api/v1/hooks/t/resume-or-start", body);

  CHECK(limit_in(fork) == "activeRuns");
  CHECK(limit_in(retry) == "activeRuns");
  CHECK(limit_in(start) == "activeRuns");
  CHECK(resume.status == 200);
  CHECK(served.json(served.get("/api/v1/runs")).at("items").as_array().size() == 3);
}

TEST_CASE("a run that ends makes room") {
  Served served{testing::fresh_store(), {.active_runs_max = 1}};
  const std::string first = served.started("nap", "[]");
  REQUIRE(served.post("/api/v1/runs", nap).status == 429);
  REQUIRE(served.post("/api/v1/runs/" + first + "/cancel", "").status == 200);

  CHECK_FALSE(until_started(served, nap).empty());
}

TEST_CASE("what is stored is known after a restart, and over the limit nothing is started") {
  const std::string file = "/tmp/semel-limits-" + std::to_string(::getpid()) + ".db";
  const std::string fresh = testing::fresh_store();
  const std::string url = fresh == "memory:" ? "sqlite:" + file : fresh;
  const http::WorkspaceLimits limits{.stored_bytes_max = 50'000};
  const std::string large = R"({"workflow":"keep","input":")" + std::string(20'000, 'x') +
                            R"(","runId":"RUN","token":"RUN"})";
  const auto body = [&](const std::string& id) {
    std::string text = large;
    for (std::size_t at = 0; (at = text.find("RUN")) != std::string::npos;) text.replace(at, 3, id);
    return text;
  };
  {
    Served served{url, limits};
    CHECK(served.post("/api/v1/runs", body("a")).status == 201);
    CHECK(served.post("/api/v1/runs", body("b")).status == 201);
    CHECK(served.post("/api/v1/runs", body("c")).status == 201);
    CHECK(limit_in(served.post("/api/v1/runs", body("d"))) == "storedBytes");
  }

  Served served{url, limits};

  CHECK(limit_in(served.post("/api/v1/runs", body("d"))) == "storedBytes");
  CHECK(served.post("/api/v1/runs", body("a")).status == 200);
  // What lets runs go on, and end, is never refused.
  CHECK(served.post("/api/v1/hooks/a/resume", R"({"granted":true})").status == 200);
  CHECK(served.post("/api/v1/runs/b/cancel", "").status == 200);
  for (const char* suffix : {"", "-wal", "-shm", ".lock"}) std::filesystem::remove(file + suffix);
}

TEST_CASE("limits are each workspace's own") {
  Served served{testing::fresh_store(), {.active_runs_max = 1}};
  served.engine.workspace("acme").start({}, "nap", boost::json::array{});

  CHECK(served.post("/api/v1/runs", nap).status == 201);
  CHECK(served.post("/api/v1/runs", nap).status == 429);
}

}  // namespace
}  // namespace semel::serving
