// Runs over HTTP: HTTP.md, one sentence at a time.
#include "tests/serve/served.hpp"

#include <atomic>
#include <set>
#include <thread>

namespace semel::serving {
namespace {

TEST_CASE("a run is started, looked at and waited for") {
  Served served;

  const RawAnswer started =
      served.post("/api/v1/runs", R"({"workflow":"add","input":{"left":20,"right":22}})");
  REQUIRE_MESSAGE(started.status == 201, started.body);
  const Json answer = served.json(started);
  const std::string id(answer.at("run").at("id").as_string());
  const Json result = served.result(id);
  const RawAnswer run = served.get("/api/v1/runs/" + id);

  CHECK(answer.at("created").as_bool());
  CHECK(answer.at("run").at("workflow") == "add");
  CHECK(result.at("status") == "completed");
  CHECK(result.at("output") == 42);
  CHECK(run.says("etag: \""));
  const Json seen = served.json(run);
  CHECK(seen.at("status") == "completed");
  CHECK(seen.at("output") == 42);
  CHECK(seen.at("input") == value::from_text(R"([{"left":20,"right":22}])"));
  CHECK(seen.at("workspace") == "default");
  CHECK(seen.at("attempts") == 1);
  CHECK(seen.as_object().contains("completedAt"));
  CHECK(seen.as_object().contains("startedAt"));
}

TEST_CASE("an array is the list of arguments, anything else the only one") {
  Served served;

  CHECK(served.result(served.started("add", R"([{"left":1,"right":2}])")).at("output") == 3);
  CHECK(served.result(served.started("add", R"({"left":1,"right":2})")).at("output") == 3);
  const RawAnswer in_list =
      served.post("/api/v1/runs", R"({"workflow":"add","input":[{"left":1,"right":"x"}]})");
  const RawAnswer alone =
      served.post("/api/v1/runs", R"({"workflow":"add","input":{"left":1,"right":"x"}})");

  CHECK(in_list.status == 422);
  CHECK(served.json(in_list).at("field") == "/input/0/right");
  CHECK(served.json(alone).at("field") == "/input/right");
}

TEST_CASE("what does not fit is refused with the field") {
  Served served;

  struct Case {
    std::string body;
    int status;
    std::string code;
    std::string field;
  };

  for (const auto& [body, status, code, field] : std::vector<Case>{
           {"{", 400, "MALFORMED", ""},
           {R"({"workflow":"add","workflow":"add"})", 400, "MALFORMED", ""},
           {R"({"workflow":"add","more":1})", 422, "VALIDATION_ERROR", "/more"},
           {R"({"workflow":7})", 422, "VALIDATION_ERROR", "/workflow"},
           {R"({"input":[]})", 422, "VALIDATION_ERROR", "/workflow"},
           {R"({"workflow":"nobody","input":[]})", 404, "WORKFLOW_NOT_FOUND", ""},
           {R"({"workflow":"nap","input":[1]})", 422, "VALIDATION_ERROR", "/input"},
           {R"({"workflow":"nap","idempotencyKey":""})", 422, "VALIDATION_ERROR",
            "/idempotencyKey"},
           {R"({"workflow":"nap","idempotencyKey":")" + std::string(256, 'k') + "\"}", 422,
            "VALIDATION_ERROR", "/idempotencyKey"},
           {R"({"workflow":"nap","runId":"a b"})", 422, "VALIDATION_ERROR", "/runId"},
           {R"({"workflow":"nap","delay":"soon"})", 422, "VALIDATION_ERROR", "/delay"},
           {R"({"workflow":"nap","deadline":"0s"})", 422, "VALIDATION_ERROR", "/deadline"},
           {R"({"workflow":"nap","keyTtl":"-1s"})", 422, "VALIDATION_ERROR", "/keyTtl"},
           {R"({"workflow":"nap","onRunning":"return_result"})", 422, "VALIDATION_ERROR",
            "/onRunning"},
           {R"({"workflow":"nap","token":""})", 422, "VALIDATION_ERROR", "/token"},
       }) {
    CAPTURE(body);
    const RawAnswer answer = served.post("/api/v1/runs", body);
    CHECK(answer.status == status);
    CHECK(answer.code() == code);
    if (!field.empty()) CHECK(served.json(answer).at("field") == Json(field));
  }
}

TEST_CASE("the key in the body hands back the run as it is now, the header the first answer") {
  Served served;
  const std::string body =
      R"({"workflow":"add","input":{"left":1,"right":1},"idempotencyKey":"k"})";

  const RawAnswer first = served.post("/api/v1/runs", body, "h1");
  const std::string id(served.json(first).at("run").at("id").as_string());
  CHECK(served.result(id).at("output") == 2);
  const RawAnswer replayed = served.post("/api/v1/runs", body, "h1");
  const RawAnswer from_memory = served.post("/api/v1/runs", body, "h1");
  const RawAnswer now = served.post("/api/v1/runs", body, "h2");

  CHECK(first.status == 201);
  CHECK_FALSE(first.says("idempotency-replayed"));
  for (const RawAnswer& again : {replayed, from_memory}) {
    CHECK(again.status == 201);
    CHECK(again.body == first.body);
    CHECK(again.says("idempotency-replayed: true"));
  }
  CHECK(now.status == 200);
  CHECK_FALSE(served.json(now).at("created").as_bool());
  CHECK(served.json(now).at("run").at("status") == "completed");
  CHECK(served.json(now).at("run").at("id") == Json(id));
}

TEST_CASE("a key with another body is a conflict, and a refused request leaves its key free") {
  Served served;

  const RawAnswer refused = served.post("/api/v1/runs", R"({"workflow":"nobody"})", "k");
  const RawAnswer done = served.post("/api/v1/runs", R"({"workflow":"nap"})", "k");
  const RawAnswer other = served.post("/api/v1/runs", R"({"workflow":"nap","delay":"1s"})", "k");
  const RawAnswer spelled = served.post("/api/v1/runs", R"( { "workflow" : "nap" } )", "\"k\"");
  const RawAnswer bad = served.post("/api/v1/runs", R"({"workflow":"nap"})", "a,b");

  CHECK(refused.status == 404);
  CHECK(done.status == 201);
  CHECK(other.code() == "IDEMPOTENCY_CONFLICT");
  CHECK(spelled.body == done.body);
  CHECK(bad.code() == "IDEMPOTENCY_KEY_INVALID");
}

TEST_CASE("of many starts with one key one makes the run") {
  Served served;
  const std::string body = R"({"workflow":"nap","idempotencyKey":"one"})";
  constexpr int many = 50;

  for (const bool by_header : {false, true}) {
    std::mutex mutex;
    std::set<std::string> bodies;
    std::set<std::string> ids;
    int created = 0;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < many; ++i) {
        threads.emplace_back([&] {
          const RawAnswer answer = served.post("/api/v1/runs", body, by_header ? "header" : "");
          const Json json = served.json(answer);
          const std::lock_guard lock(mutex);
          bodies.insert(answer.body);
          ids.insert(std::string(json.at("run").at("id").as_string()));
          created += json.at("created").as_bool() && !answer.says("idempotency-replayed") ? 1 : 0;
        });
      }
    }
    CHECK(ids.size() == 1);
    if (by_header) {
      CHECK(bodies.size() == 1);
    } else {
      CHECK(created == 1);
    }
  }
}

TEST_CASE("a token belongs to one run") {
  Served served;
  const std::string id = served.started("approve", R"("t")", R"(,"token":"t")");

  const RawAnswer other =
      served.post("/api/v1/runs", R"({"workflow":"approve","input":"t","token":"t"})");
  const RawAnswer instead = served.post(
      "/api/v1/runs", R"({"workflow":"approve","input":"t","token":"t","onRunning":"supersede"})");

  CHECK(other.code() == "HOOK_CONFLICT");
  CHECK(served.json(other).at("runId") == Json(id));
  CHECK(instead.status == 201);
  CHECK(served.result(id).at("status") == "cancelled");
}

TEST_CASE("what a run waits for is said") {
  Served served;
  const std::string waits = served.started("approve", R"("t")");
  const std::string sleeps = served.started("nap", "[]");
  const std::string later = served.started("nap", "[]", R"(,"delay":"1h")");
  served.reach(waits, "waiting");
  served.reach(sleeps, "waiting");

  const Json hook = served.json(served.get("/api/v1/runs/" + waits)).at("waitingFor").at(0);
  const Json timer = served.json(served.get("/api/v1/runs/" + sleeps)).at("waitingFor").at(0);
  const Json pending = served.json(served.get("/api/v1/runs/" + later));

  CHECK(hook.at("kind") == "hook");
  CHECK(hook.at("token") == "t");
  CHECK(hook.as_object().contains("since"));
  CHECK(timer.at("kind") == "timer");
  CHECK(timer.as_object().contains("until"));
  CHECK(pending.at("status") == "pending");
  CHECK(pending.at("waitingFor").at(0).at("kind") == "timer");
}

TEST_CASE("a result that is not there is 202, and waiting for it has a limit") {
  Served served;
  const std::string id = served.started("nap", "[]");

  const RawAnswer now = served.get("/api/v1/runs/" + id + "/result");
  const RawAnswer soon = served.get("/api/v1/runs/" + id + "/result?wait=20ms");

  for (const RawAnswer& answer : {now, soon}) {
    CHECK(answer.status == 202);
    CHECK(answer.says("retry-after: 1"));
  }
  CHECK(served.json(served.get("/api/v1/runs/" + id + "/result?wait=61s")).at("field") == "wait");
  CHECK(served.get("/api/v1/runs/" + id + "/result?wait=60").status == 422);
  CHECK(served.get("/api/v1/runs/none/result").code() == "RUN_NOT_FOUND");
}

TEST_CASE("cancelling ends a run once, and a finished one is not cancelled") {
  Served served;
  const std::string id = served.started("approve", R"("t")", R"(,"token":"t")");
  const std::string done = served.started("add", R"({"left":1,"right":1})");
  CHECK(served.result(done).at("output") == 2);
  const std::string path = "/api/v1/runs/" + id + "/cancel";

  const RawAnswer first = served.post(path, "", "c");
  const RawAnswer again = served.post(path, "", "c");
  const RawAnswer unkeyed = served.post(path, "{}");
  const RawAnswer late = served.post("/api/v1/runs/" + done + "/cancel", "");

  CHECK(first.status == 200);
  CHECK(served.json(first).at("status") == "cancelled");
  CHECK(again.body == first.body);
  CHECK(again.says("idempotency-replayed: true"));
  CHECK(unkeyed.status == 200);
  CHECK(late.code() == "RUN_NOT_ACTIVE");
  CHECK(served.json(late).at("run").at("id") == Json(done));
  CHECK(served.get("/api/v1/hooks/t").code() == "HOOK_NOT_FOUND");
  CHECK(served.post("/api/v1/runs/none/cancel", "").code() == "RUN_NOT_FOUND");
}

TEST_CASE("a run with a grace is told and ends later") {
  Served served;
  const std::string id = served.started("nap", "[]");
  served.reach(id, "waiting");

  const RawAnswer told = served.post("/api/v1/runs/" + id + "/cancel", R"({"grace":"1h"})");

  CHECK(told.status == 200);
  CHECK(served.result(id).at("status") == "cancelled");
  CHECK(served.post("/api/v1/runs/" + id + "/cancel", R"({"grace":"x"})").status == 422);
}

TEST_CASE("If-Match holds a change to a version") {
  Served served;
  const std::string id = served.started("nap", "[]");
  served.reach(id, "waiting");
  const std::string version =
      value::to_text(served.json(served.get("/api/v1/runs/" + id)).at("version"));
  const auto cancel = [&](const std::string& match) {
    return served.ask({.method = "POST",
                       .path = "/api/v1/runs/" + id + "/cancel",
                       .headers = {{"If-Match", match}}});
  };

  CHECK(cancel("\"99\"").code() == "CONCURRENCY_ERROR");
  CHECK(served.json(cancel("\"99\"")).at("retryable").as_bool());
  CHECK(cancel("99").code() == "MALFORMED");
  CHECK(cancel("\"" + version + "\"").status == 200);
}

TEST_CASE("a failed run is retried once per key") {
  mended() = false;
  Served served;
  const std::string id = served.started("fragile", "[]");
  const Json failed = served.result(id);
  CHECK(failed.at("status") == "failed");
  CHECK(failed.at("error").at("code") == "STEP_FAILED");

  mended() = true;
  const RawAnswer first = served.post("/api/v1/runs/" + id + "/retry", "", "r");
  const Json result = served.result(id);
  const RawAnswer again = served.post("/api/v1/runs/" + id + "/retry", "", "r");
  const RawAnswer other = served.post("/api/v1/runs/" + id + "/retry", "", "r2");

  CHECK(first.status == 200);
  CHECK(served.json(first).at("status") == "running");
  CHECK(result.at("output") == 7);
  CHECK(again.body == first.body);
  CHECK(other.code() == "RUN_FINISHED");
  CHECK(served.json(served.get("/api/v1/runs/" + id)).at("attempts") == 2);
  const std::string active = served.started("nap", "[]");
  CHECK(served.post("/api/v1/runs/" + active + "/retry", "").code() == "RUN_ACTIVE");
}

TEST_CASE("a run is forked once per key") {
  Served served;
  const std::string id = served.started("add", R"({"left":3,"right":4})");
  CHECK(served.result(id).at("output") == 7);

  const RawAnswer first = served.post("/api/v1/runs/" + id + "/fork", R"({"seq":0})", "f");
  const RawAnswer again = served.post("/api/v1/runs/" + id + "/fork", R"({"seq":0})", "f");
  REQUIRE_MESSAGE(first.status == 201, first.body);
  const std::string copy(served.json(first).at("run").at("id").as_string());

  CHECK(copy != id);
  CHECK(again.body == first.body);
  CHECK(served.result(copy).at("output") == 7);
  const RawAnswer beyond = served.post("/api/v1/runs/" + id + "/fork", R"({"seq":99})");
  CHECK(beyond.status == 422);
  CHECK(served.json(beyond).at("field") == "/seq");
}

TEST_CASE("a sleeping run is woken, once per key") {
  Served served;
  const std::string id = served.started("nap", "[]");
  served.reach(id, "waiting");

  const RawAnswer first = served.post("/api/v1/runs/" + id + "/wake", "", "w");
  const RawAnswer again = served.post("/api/v1/runs/" + id + "/wake", "", "w");

  CHECK(served.json(first).at("woken") == 1);
  CHECK(again.body == first.body);
  CHECK(served.result(id).at("output") == 1);
  const RawAnswer late = served.post("/api/v1/runs/" + id + "/wake", "");
  CHECK(late.code() == "RUN_NOT_ACTIVE");
  CHECK(served.json(late).at("run").at("status") == "completed");
}

Workflow<int> shift_before() {
  auto hook = semel::hook<int>("shift");
  co_return co_await hook;
}

Workflow<int> shift_after() {
  co_await semel::sleep(1h);
  co_return 0;
}

TEST_CASE(
    "the events of a run that has diverged end, as those of any that will not go on by itself") {
  const std::string file = "/tmp/semel-diverged-" + std::to_string(::getpid()) + ".db";
  std::string id;
  {
    Engine engine{"sqlite:" + file};
    engine.add("shift", shift_before);
    engine.start_workers();
    id = engine.start({.token = "shift"}, &shift_before).run.id();
    while (engine.run(id).status() != RunStatus::waiting) {
    }
  }
  {
    Engine engine{"sqlite:" + file};
    engine.add("shift", shift_after);
    engine.start_workers();
    engine.resume("shift", 7);
    while (engine.run(id).status() != RunStatus::diverged) {
    }
    const auto server = http::serve(engine);
    RawClient client(server->port());

    client.send("GET /api/v1/runs/" + id +
                "/journal HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");

    CHECK_FALSE(client.receive_until("event: end").empty());
  }
  for (const char* end : {"", "-wal", "-shm", ".lock"}) ::unlink((file + end).c_str());
}

TEST_CASE("a woken run is the same when it is read again") {
  const std::string file = "/tmp/semel-woken-" + std::to_string(::getpid()) + ".db";
  std::string id;
  {
    Served served("sqlite:" + file);
    id = served.started("doze", "[]");
    served.reach(id, "waiting");
    CHECK(served.json(served.post("/api/v1/runs/" + id + "/wake", "")).at("woken") == 1);
    while (served.get("/api/v1/hooks/awake").status != 200) {
    }
    served.reach(id, "waiting");
  }
  {
    // Replayed from a journal in which the entry that woke it has no requests.
    Served served("sqlite:" + file);
    CHECK(served.post("/api/v1/hooks/awake/resume", R"({"granted":true})").status == 200);
    CHECK(served.result(id).at("output") == "granted");
    const RawAnswer copy = served.post("/api/v1/runs/" + id + "/fork", R"({"seq":1})");
    REQUIRE_MESSAGE(copy.status == 201, copy.body);
    const std::string other(served.json(copy).at("run").at("id").as_string());
    served.reach(other, "waiting");
    CHECK(served.post("/api/v1/hooks/awake/resume", R"({"granted":false})").status == 200);
    CHECK(served.result(other).at("output") == "refused");
  }
  for (const char* end : {"", "-wal", "-shm", ".lock"}) ::unlink((file + end).c_str());
}

TEST_CASE("runs are listed newest first, filtered and page by page") {
  Served served;
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) {
    ids.push_back(served.started("nap", "[]",
                                 R"(,"attributes":{"n":")" + std::to_string(i % 2) +
                                     R"("},"idempotencyKey":"k)" + std::to_string(i) + "\""));
  }
  served.started("approve", R"("t")");
  const auto list = [&](const std::string& query) {
    std::vector<std::string> found;
    const Json page = served.json(served.get("/api/v1/runs" + query));
    for (const Json& item : page.at("items").as_array())
      found.emplace_back(item.at("id").as_string());
    return found;
  };

  CHECK(list("?workflow=nap") == std::vector<std::string>{ids[4], ids[3], ids[2], ids[1], ids[0]});
  CHECK(list("?attribute.n=1") == std::vector<std::string>{ids[3], ids[1]});
  CHECK(list("?key=k2") == std::vector<std::string>{ids[2]});
  CHECK(list("?status=failed").empty());
  CHECK(list("?until=2001-01-01T00:00:00Z").empty());
  const Json page = served.json(served.get("/api/v1/runs?workflow=nap&limit=2"));
  const std::string cursor(page.at("nextCursor").as_string());
  CHECK(list("?workflow=nap&limit=2&cursor=" + cursor) == std::vector<std::string>{ids[2], ids[1]});
  const Json last = served.json(served.get("/api/v1/runs?workflow=nap&limit=5"));
  CHECK_FALSE(last.as_object().contains("nextCursor"));
}

TEST_CASE("what a list cannot be asked is refused") {
  Served served;

  for (const auto& [query, field] :
       std::vector<std::pair<std::string, std::string>>{{"limit=201", "limit"},
                                                        {"limit=0", "limit"},
                                                        {"limit=x", "limit"},
                                                        {"status=tired", "status"},
                                                        {"since=yesterday", "since"},
                                                        {"colour=red", "colour"},
                                                        {"attribute.=x", "attribute."}}) {
    CAPTURE(query);
    const RawAnswer answer = served.get("/api/v1/runs?" + query);
    CHECK(answer.status == 422);
    CHECK(served.json(answer).at("field") == Json(field));
  }
  CHECK(served.get("/api/v1/runs?cursor=xyz").status == 400);
}

TEST_CASE("the journal is shown in pages") {
  Served served;
  const std::string id = served.started("add", R"({"left":3,"right":4})");
  CHECK(served.result(id).at("output") == 7);

  const Json first = served.json(served.get("/api/v1/runs/" + id + "/journal?limit=1"));
  const Json all = served.json(served.get("/api/v1/runs/" + id + "/journal"));
  const std::string cursor(first.at("nextCursor").as_string());
  const Json rest = served.json(served.get("/api/v1/runs/" + id + "/journal?cursor=" + cursor));

  CHECK(all.at("items").at(0).at("kind") == "started");
  CHECK(first.at("items").as_array().size() == 1);
  CHECK(rest.at("items").as_array().size() + 1 == all.at("items").as_array().size());
  CHECK(served.get("/api/v1/runs/none/journal").status == 404);
}

TEST_CASE("a journal is followed as it grows, and again from where a client was") {
  Served served;
  const std::string id = served.started("approve", R"("t")", R"(,"token":"t")");
  served.reach(id, "waiting");
  const auto follow = [&](const std::string& more) {
    return "GET /api/v1/runs/" + id +
           "/journal HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n" + more + "\r\n";
  };
  RawClient client(served.server->port());
  client.send(follow(""));

  CHECK(served.post("/api/v1/hooks/t/resume", R"({"granted":true})").status == 200);
  const auto stream = client.receive();
  REQUIRE(stream);
  RawClient later(served.server->port());
  const auto rest = later.send(follow("Last-Event-ID: 0\r\n")).receive();
  RawClient wrong(served.server->port());
  const auto future = wrong.send(follow("Last-Event-ID: 99\r\n")).receive();

  CHECK(stream->says("content-type: text/event-stream"));
  CHECK(stream->body.find("id: 0\nevent: started\ndata: {") != std::string::npos);
  CHECK(stream->body.find("event: end") != std::string::npos);
  CHECK(rest->body.find("id: 0\n") == std::string::npos);
  CHECK(rest->body.find("event: end") != std::string::npos);
  CHECK(future->status == 400);
}

TEST_CASE("a server that stops answers those who wait and ends streams") {
  Served served;
  const std::string id = served.started("nap", "[]");
  served.reach(id, "waiting");
  RawClient waits(served.server->port());
  waits.send("GET /api/v1/runs/" + id + "/result?wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n");
  RawClient follows(served.server->port());
  follows.send("GET /api/v1/runs/" + id +
               "/journal HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
  CHECK(follows.receive_until("event: started\n") != "");
  // The engine knows of one that waits.
  while (served.get("/metrics").body.find("semel_waiting_clients 1\n") == std::string::npos) {
  }

  served.server->stop();

  const auto answer = waits.receive();
  REQUIRE(answer);
  CHECK(answer->status == 202);
  CHECK(follows.rest().ends_with("0\r\n\r\n"));
}

}  // namespace
}  // namespace semel::serving
