// Health, metrics, workflows, the kernel's routes, and what hostile clients send.
#include "tests/serve/served.hpp"

namespace semel::serving {
namespace {

TEST_CASE("a server says that it is well and what it can run") {
  Served served;

  const Json workflows = served.json(served.get("/api/v1/workflows"));
  const Json openapi = served.json(served.get("/openapi.json"));
  const RawAnswer head = served.ask({.method = "HEAD", .path = "/healthz"});

  CHECK(served.get("/healthz").status == 200);
  CHECK(served.get("/readyz").status == 200);
  CHECK(head.status == 200);
  CHECK(served.get("/metrics").body.find("semel_batches_total ") != std::string::npos);
  REQUIRE(workflows.at("items").as_array().size() == 10);
  const Json& add = workflows.at("items").at(0);
  CHECK(add.at("name") == "add");
  CHECK(add.at("input").at("prefixItems").at(0).at("$ref") == "#/$defs/T");
  CHECK(add.at("input").at("$defs").at("T").at("properties").as_object().contains("left"));
  CHECK(add.at("output").at("type") == "integer");
  for (const char* path : {"/api/v1/runs",
                           "/api/v1/runs/{id}",
                           "/api/v1/runs/{id}/result",
                           "/api/v1/runs/{id}/journal",
                           "/api/v1/runs/{id}/cancel",
                           "/api/v1/runs/{id}/retry",
                           "/api/v1/runs/{id}/fork",
                           "/api/v1/runs/{id}/wake",
                           "/api/v1/hooks",
                           "/api/v1/hooks/{token}",
                           "/api/v1/hooks/{token}/resume",
                           "/api/v1/hooks/{token}/resume-or-start",
                           "/hooks/{token}",
                           "/api/v1/workflows",
                           "/api/v1/api-keys",
                           "/api/v1/api-keys/{id}",
                           "/api/v1/idempotency/reserve",
                           "/api/v1/idempotency",
                           "/healthz",
                           "/readyz"}) {
    CHECK_MESSAGE(openapi.at("paths").as_object().contains(path), path);
  }
}

/// The number of a sample, by its name and labels; none: it is not there.
std::optional<double> sample(const std::string& metrics, const std::string& name) {
  const std::size_t at = ("\n" + metrics).find("\n" + name + " ");
  if (at == std::string::npos) return std::nullopt;
  return std::stod(metrics.substr(at + name.size() + 1));
}

TEST_CASE("requests are counted and timed by route, not by path") {
  Served served;
  RawClient follower(served.server->port());
  const std::string nap = served.started("nap", "[]");

  served.get("/api/v1/runs/" + nap);
  served.get("/api/v1/runs/nobody");
  served.get("/api/v1/runs/%3C%22x%22%3E");
  served.get("/nowhere");
  served.ask({.method = "POST", .path = "/api/v1/runs", .body = std::string(2 << 20U, ' ')});
  follower.send("GET /api/v1/runs/" + nap +
                "/journal HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
  REQUIRE_FALSE(follower.receive_until("event: ").empty());
  const std::string metrics = served.get("/metrics").body;

  const std::string route = R"({method="GET",route="/api/v1/runs/{id}")";
  CHECK(sample(metrics, "semel_http_requests_total" + route + R"(,status="2xx"})") == 1);
  CHECK(sample(metrics, "semel_http_requests_total" + route + R"(,status="4xx"})") == 2);
  CHECK(sample(metrics, "semel_http_request_seconds_count" + route + "}") == 3);
  CHECK(sample(metrics, "semel_http_request_seconds_bucket" + route + R"(,le="+Inf"})") == 3);
  CHECK(*sample(metrics, "semel_http_request_seconds_sum" + route + "}") > 0);
  CHECK(sample(metrics,
               R"(semel_http_requests_total{method="POST",route="/api/v1/runs",status="2xx"})") ==
        1);
  CHECK(sample(metrics, R"(semel_http_requests_total{method="",route="",status="4xx"})") == 2);
  CHECK(*sample(metrics, "semel_http_connections") >= 2);
  CHECK(sample(metrics, "semel_event_streams") == 1);
}

TEST_CASE("runs, steps, commits and keys are counted") {
  Served served;
  const std::string body = R"({"workflow":"add","input":{"left":1,"right":2}})";
  const RawAnswer first = served.post("/api/v1/runs", body, "k");
  served.post("/api/v1/runs", body, "k");
  served.post("/api/v1/runs", body, "k");
  served.post("/api/v1/runs", R"({"workflow":"nap"})", "k");
  served.result(std::string(served.json(first).at("run").at("id").as_string()));
  const std::string nap = served.started("nap", "[]");
  served.post("/api/v1/runs/" + nap + "/cancel", "");
  served.result(nap);

  const std::string metrics = served.get("/metrics").body;

  CHECK(sample(metrics, R"(semel_idempotency_total{outcome="miss"})") == 1);
  CHECK(sample(metrics, R"(semel_idempotency_total{outcome="hit"})") == 2);
  CHECK(sample(metrics, R"(semel_idempotency_total{outcome="conflict"})") == 1);
  CHECK(sample(metrics, R"(semel_runs_ended_total{status="completed"})") == 1);
  CHECK(sample(metrics, R"(semel_runs_ended_total{status="cancelled"})") == 1);
  CHECK(sample(metrics, R"(semel_step_attempts_total{outcome="done"})") == 1);
  CHECK(sample(metrics, "semel_step_wait_seconds_count") == 1);
  CHECK(sample(metrics, "semel_store_errors_total") == 0);
  CHECK(*sample(metrics, "semel_commit_commands_count") >= 5);
  CHECK(*sample(metrics, "semel_commit_commands_sum") >=
        *sample(metrics, "semel_commit_commands_count"));
  CHECK(sample(metrics, "semel_commit_seconds_count") ==
        sample(metrics, "semel_commit_commands_count"));
  CHECK(*sample(metrics, "semel_commit_wait_seconds_count") >= 1);
}

TEST_CASE("the processes that share the store are listed, and a run says who drives it") {
  Served served;
  const std::string nap = served.started("nap", "[]");
  served.reach(nap, "waiting");

  const Json page = served.json(served.get("/api/v1/nodes"));
  const Json run = served.json(served.get("/api/v1/runs/" + nap));
  const Json started = served.json(served.get("/api/v1/runs"));

  REQUIRE(page.at("items").as_array().size() == 1);
  const boost::json::object& node = page.at("items").at(0).as_object();
  CHECK(node.at("isThis") == true);
  CHECK(node.at("works") == true);
  CHECK_FALSE(node.at("name").as_string().empty());
  CHECK(node.at("partitions").as_int64() >= 1);
  CHECK(node.at("workflows").as_array().size() == 10);
  CHECK(page.at("unownedPartitions") == 0);
  const bool is_shared = node.contains("lease");
  CHECK(run.as_object().contains("node") == is_shared);
  if (is_shared) CHECK(run.at("node") == node.at("name"));
  CHECK(started.at("items").at(0).as_object().contains("node") == is_shared);
  const std::string metrics = served.get("/metrics").body;
  CHECK(sample(metrics, "semel_nodes") == 1);
  CHECK(*sample(metrics, "semel_node_partitions") == node.at("partitions").as_int64());
  CHECK(*sample(metrics, "semel_partitions_gained_total") == node.at("partitions").as_int64());
  CHECK(sample(metrics, "semel_node_draining") == 0);
  CHECK(sample(metrics, "semel_partitions_left_total") == 0);
  CHECK(sample(metrics, "semel_lease_lost_total") == 0);
  CHECK(sample(metrics, "semel_runs_moved_total") == 0);
  CHECK(sample(metrics, "semel_hints_total") == 0);
}

TEST_CASE("the kernel is there for services in any language") {
  Served served;
  const std::string name = R"({"namespace":"pay","key":"k","scope":{"tenant":"t"})";
  const auto reserve = [&](const std::string& fingerprint) {
    return served.json(served.post("/api/v1/idempotency/reserve",
                                   name + R"(,"fingerprint":")" + fingerprint + "\"}"));
  };

  const Json first = reserve("f");
  const std::string fence(first.at("fence").as_string());
  CHECK(first.at("outcome") == "acquired");
  CHECK(reserve("f").at("outcome") == "inProgress");
  CHECK(reserve("g").at("outcome") == "conflict");
  CHECK(served.post("/api/v1/idempotency/renew", name + R"(,"fence":"999999999","lease":"1m"})")
            .code() == "FENCE_LOST");
  CHECK(served.post("/api/v1/idempotency/renew", name + ",\"fence\":\"" + fence + "\"}").status ==
        204);
  CHECK(served
            .post("/api/v1/idempotency/complete",
                  name + ",\"fence\":\"" + fence + R"(","response":{"paid":true}})")
            .status == 204);
  CHECK(reserve("f").at("response").at("paid") == true);
  const std::string query = "?namespace=pay&key=k&scope.tenant=t";
  CHECK(served.json(served.get("/api/v1/idempotency" + query)).at("state") == "completed");
  CHECK(served.ask({.method = "DELETE", .path = "/api/v1/idempotency" + query}).status == 204);
  CHECK(served.get("/api/v1/idempotency" + query).status == 404);
  CHECK(reserve("g").at("outcome") == "acquired");
}

TEST_CASE("keys are listed, the newest first, by whose they are") {
  Served served;
  served.post("/api/v1/runs", R"({"workflow":"nap"})", "start");
  for (const char* key : {"a", "b", "c"}) {
    served.post("/api/v1/idempotency/reserve", std::string(R"({"namespace":"pay","key":")") + key +
                                                   R"(","scope":{"tenant":"t","user":"u;=1"}})");
  }
  const auto path = [](const std::string& more) { return "/api/v1/idempotency?" + more; };

  const Json all = served.json(served.get(path("limit=200")));
  const Json first = served.json(served.get(path("namespace=pay&limit=2")));
  const std::string cursor(first.at("nextCursor").as_string());
  const Json second = served.json(served.get(path("namespace=pay&limit=2&cursor=" + cursor)));
  const Json none = served.json(served.get(path("namespace=other")));

  REQUIRE(all.at("items").as_array().size() == 4);
  CHECK(all.at("items").at(3).at("namespace") == "POST /api/v1/runs");
  CHECK(all.at("items").at(3).at("key") == "start");
  CHECK(all.at("items").at(3).at("state") == "completed");
  REQUIRE(first.at("items").as_array().size() == 2);
  CHECK(first.at("items").at(0).at("key") == "c");
  CHECK(first.at("items").at(0).at("state") == "inProgress");
  CHECK(first.at("items").at(0).as_object().contains("leaseUntil"));
  CHECK(first.at("items").at(0).at("scope").at("user") == "u;=1");
  CHECK(second.at("items").at(0).at("key") == "a");
  CHECK_FALSE(second.as_object().contains("nextCursor"));
  CHECK(none.at("items").as_array().empty());
  CHECK(served.get(path("limit=0")).status == 422);
  CHECK(served.get(path("key=a&limit=1&namespace=pay")).status == 422);
}

TEST_CASE("an unfinished reservation is forgotten by force alone") {
  Served served;
  const std::string path = "/api/v1/idempotency?namespace=n&key=k";
  const Json first =
      served.json(served.post("/api/v1/idempotency/reserve", R"({"namespace":"n","key":"k"})"));

  CHECK(served.ask({.method = "DELETE", .path = path}).code() == "IDEMPOTENCY_IN_PROGRESS");
  CHECK(served.ask({.method = "DELETE", .path = path + "&force=maybe"}).status == 422);
  CHECK(served.ask({.method = "DELETE", .path = path + "&force=true"}).status == 204);
  const std::string fence(first.at("fence").as_string());
  CHECK(served
            .post("/api/v1/idempotency/release",
                  R"({"namespace":"n","key":"k","fence":")" + fence + "\"}")
            .code() == "FENCE_LOST");
}

TEST_CASE("nobody stores answers for the server's own routes") {
  Served served;

  const RawAnswer answer =
      served.post("/api/v1/idempotency/reserve", R"({"namespace":"POST /api/v1/runs","key":"k"})");

  CHECK(answer.status == 422);
  CHECK(served.json(answer).at("field") == "/namespace");
}

TEST_CASE("what hostile clients send is refused or is data") {
  Served served;
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  const std::string large(std::size_t{1} << 20U, 'x');

  struct Case {
    Wanted wanted;
    int status;
  };

  for (const auto& [wanted, status] : std::vector<Case>{
           {{.path = "/api/v1/runs/../../etc/passwd"}, 404},
           {{.path = "/api/v1/runs/..%2F..%2Fetc%2Fpasswd"}, 404},
           {{.path = "/api/v1/runs/%00"}, 404},
           {{.path = "/api/v1/runs/%zz"}, 400},
           {{.path = "/api/v1/runs/%FF"}, 400},
           {{.path = "/api/v1/runs/'%20OR%201=1"}, 404},
           {{.path = "/api/v1/runs?workflow=';DROP%20TABLE%20semel_run;--"}, 200},
           {{.path = "/api/v1/runs/a%0d%0aSet-Cookie:%20x=1"}, 404},
           {{.method = "POST",
             .path = "/api/v1/runs",
             .body = R"({"workflow":"nap","input":)" + deep + "}"},
            413},
           {{.method = "POST",
             .path = "/api/v1/runs",
             .body = R"({"workflow":"approve","input":")" + large + "\"}"},
            413},
           {{.method = "POST",
             .path = "/api/v1/runs",
             .body = "{}",
             .headers = {{"Content-Type", "text/html"}}},
            415},
           {{.method = "POST",
             .path = "/api/v1/runs",
             .body = "{}",
             .headers = {{"Content-Encoding", "gzip"}}},
            415},
           {{.method = "PUT", .path = "/api/v1/runs"}, 405},
           {{.method = "POST", .path = "/api/v1/runs?debug=1", .body = R"({"workflow":"nap"})"},
            422},
           {{.method = "POST",
             .path = "/api/v1/runs",
             .body = R"({"workflow":"nap"})",
             .key = std::string(256, 'k')},
            400},
       }) {
    CAPTURE(wanted.path);
    const RawAnswer answer = served.ask(wanted);
    CHECK(answer.status == status);
    CHECK_FALSE(answer.says("set-cookie"));
  }
}

TEST_CASE("text from clients is never anything but JSON") {
  Served served;
  const std::string id =
      served.started("nap", "[]", R"(,"attributes":{"<script>":"</script><img src=x>"})");

  const RawAnswer run = served.get("/api/v1/runs/" + id);
  const RawAnswer missing = served.get("/api/v1/runs/%3Cscript%3E");

  CHECK(run.says("content-type: application/json\r\n"));
  CHECK(served.json(run).at("attributes").at("<script>") == "</script><img src=x>");
  CHECK(missing.says("content-type: application/problem+json\r\n"));
}

}  // namespace
}  // namespace semel::serving
