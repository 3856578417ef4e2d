// Hooks over HTTP, with a key and by the token alone.
#include "tests/serve/served.hpp"

namespace semel::serving {
namespace {

TEST_CASE("a payload reaches the run that has the token, once per key") {
  Served served;
  const std::string id = served.started("approve", R"("t")", R"(,"token":"t")");

  const RawAnswer first = served.post("/api/v1/hooks/t/resume", R"({"granted":true})", "p");
  const RawAnswer again = served.post("/api/v1/hooks/t/resume", R"({"granted":true})", "p");
  const RawAnswer other = served.post("/api/v1/hooks/t/resume", R"({"granted":false})", "p");

  CHECK(first.status == 200);
  CHECK(served.json(first).at("runId") == Json(id));
  CHECK(again.body == first.body);
  CHECK(again.says("idempotency-replayed: true"));
  CHECK(other.code() == "IDEMPOTENCY_CONFLICT");
  CHECK(served.result(id).at("output") == "granted");
  CHECK(served.post("/api/v1/hooks/t/resume", R"({"granted":true})", "q").code() ==
        "HOOK_NOT_FOUND");
}

TEST_CASE("a payload that does not fit is refused with the field") {
  Served served;
  const std::string id = served.started("approve", R"("t")", R"(,"token":"t")");

  const RawAnswer wrong = served.post("/api/v1/hooks/t/resume", R"({"granted":"yes"})", "p");
  const RawAnswer right = served.post("/api/v1/hooks/t/resume", R"({"granted":false})", "p");

  CHECK(wrong.status == 422);
  CHECK(served.json(wrong).at("field") == "/granted");
  CHECK(right.status == 200);
  CHECK(served.result(id).at("output") == "refused");
}

TEST_CASE("resume or start is one of the two") {
  Served served;
  const std::string path = "/api/v1/hooks/order%3A7/resume-or-start";
  const std::string body =
      R"({"workflow":"approve","payload":{"granted":true},"start":{"input":"order:7"}})";

  const RawAnswer started = served.post(path, body, "a");
  const RawAnswer again = served.post(path, body, "a");
  REQUIRE_MESSAGE(started.status == 201, started.body);

  CHECK(served.json(started).at("started").as_bool());
  CHECK(again.body == started.body);
  const std::string id(served.json(started).at("runId").as_string());
  CHECK(served.result(id).at("output") == "granted");
  const std::string waits = served.started("approve", R"("order:7")", R"(,"token":"order:7")");
  const RawAnswer resumed = served.post(path, body, "b");
  CHECK(resumed.status == 200);
  CHECK(served.json(resumed).at("runId") == Json(waits));
}

TEST_CASE("resume or start takes no token, no key and no payload that does not fit") {
  Served served;

  for (
      const auto& [body, field] : std::vector<std::pair<std::string, std::string>>{
          {R"({"workflow":"approve","payload":{"granted":true},"start":{"input":"t","token":"t"}})",
           "/start/token"},
          {R"({"workflow":"approve","payload":1,"start":{"input":"t","idempotencyKey":"k"}})",
           "/start/idempotencyKey"},
          {R"({"workflow":"approve","payload":{"granted":1},"start":{"input":"t"}})",
           "/payload/granted"},
          {R"({"workflow":"approve","payload":{"granted":true},"start":{"input":7}})",
           "/start/input"},
          {R"({"workflow":"approve","start":{"input":"t"}})", "/payload"}}) {
    CAPTURE(body);
    const RawAnswer answer = served.post("/api/v1/hooks/t/resume-or-start", body);
    CHECK(answer.status == 422);
    CHECK(served.json(answer).at("field") == Json(field));
  }
  CHECK(served.get("/api/v1/hooks/t").status == 404);
}

TEST_CASE("a token that is too long is refused by its name") {
  const Served served;
  const std::string hook = "/api/v1/hooks/" + std::string(256, 't');

  for (const RawAnswer& answer :
       {served.post(hook + "/resume", "1"),
        served.post(hook + "/resume-or-start", R"({"workflow":"nap","payload":1,"start":{}})")}) {
    CHECK(answer.status == 422);
    CHECK(served.json(answer).at("field") == "token");
  }
}

TEST_CASE("hooks are shown one by one and in a list") {
  Served served;
  const std::string id = served.started("approve", R"("t")", R"(,"token":"t")");
  served.started("approve", R"("u")", R"(,"token":"u")");

  const Json one = served.json(served.get("/api/v1/hooks/t"));
  const Json of_run = served.json(served.get("/api/v1/hooks?runId=" + id));
  const Json first = served.json(served.get("/api/v1/hooks?limit=1"));
  const std::string cursor(first.at("nextCursor").as_string());
  const Json second = served.json(served.get("/api/v1/hooks?limit=1&cursor=" + cursor));

  CHECK(one.at("runId") == Json(id));
  CHECK(one.at("token") == "t");
  CHECK(one.at("webhook") == false);
  CHECK(one.as_object().contains("since"));
  CHECK(of_run.at("items").as_array().size() == 1);
  CHECK(first.at("items").at(0).at("token") == "u");
  CHECK(second.at("items").at(0).at("token") == "t");
  CHECK_FALSE(second.as_object().contains("nextCursor"));
}

TEST_CASE("a webhook takes anything from anybody who has its token") {
  Served served;
  const std::string id = served.started("listen", R"("secret")");
  served.reach(id, "waiting");

  const RawAnswer answer = served.ask({.method = "POST",
                                       .path = "/hooks/secret?a=1",
                                       .body = "plain",
                                       .headers = {{"Content-Type", "text/plain"},
                                                   {"Host", "elsewhere.example"},
                                                   {"Origin", "https://elsewhere.example"}}});

  CHECK(answer.status == 202);
  CHECK(answer.body.empty());
  CHECK(served.result(id).at("output") == "POST plain");
}

TEST_CASE("what is not UTF-8 comes as base64") {
  Served served;
  const std::string id = served.started("listen", R"("secret")");
  served.reach(id, "waiting");

  const RawAnswer answer = served.ask({.method = "POST",
                                       .path = "/hooks/secret",
                                       .body = "\xFF\xFE",
                                       .headers = {{"Content-Type", "application/octet-stream"}}});

  CHECK(answer.status == 202);
  CHECK(served.result(id).at("output") == "POST //4=");
}

TEST_CASE("a webhook with an answer of its own gives it to everybody") {
  Served served;
  const std::string id = served.started("greet", R"("door")");
  served.reach(id, "waiting");

  const RawAnswer first = served.post("/hooks/door", "{}");
  const RawAnswer second = served.post("/hooks/door", "{}");

  CHECK(first.status == 200);
  CHECK(first.says("content-type: text/plain\r\n"));
  CHECK(first.body == "good day");
  CHECK(second.body == "good day");
  CHECK(served.result(id).at("output") == 2);
}

TEST_CASE(
    "whoever waits for a run's answer hears the first it gives, and a repeat hears it again") {
  Served served;
  const std::string id = served.started("converse", R"("chat")");
  served.reach(id, "waiting");
  const Wanted wanted{.method = "POST",
                      .path = "/hooks/chat",
                      .body = "how are you?",
                      .key = "k",
                      .headers = {{"Content-Type", "text/plain"}}};

  const RawAnswer first = served.ask(wanted);
  const RawAnswer again = served.ask(wanted);
  const RawAnswer from_memory = served.ask(wanted);
  const RawAnswer other = served.post("/hooks/chat", "well");

  CHECK(first.status == 201);
  CHECK(first.says("x-said: yes\r\n"));
  CHECK_FALSE(first.says("semel-answer-place"));
  CHECK_FALSE(first.says("idempotency-replayed"));
  CHECK(first.body == "re: how are you?");
  for (const RawAnswer& repeat : {again, from_memory}) {
    CHECK(repeat.status == 201);
    CHECK(repeat.body == first.body);
    CHECK(repeat.says("idempotency-replayed: true\r\n"));
  }
  CHECK(other.body == "re: well");
}

TEST_CASE("a run that ends without an answer leaves 202") {
  Served served;
  const std::string id = served.started("converse", R"("chat")");
  served.reach(id, "waiting");

  const RawAnswer answer = served.post("/hooks/chat", "nothing");

  CHECK(answer.status == 202);
  CHECK(answer.body.empty());
  CHECK(served.result(id).at("output") == 0);
}

TEST_CASE("a server that stops lets nobody wait for a run's answer") {
  Served served;
  const std::string id = served.started("silent", R"("chat")");
  served.reach(id, "waiting");
  RawClient client(served.server->port());
  client.send("POST /hooks/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
  served.reach_entry(id, "payload_arrived");

  served.server->stop();

  const auto answer = client.receive();
  REQUIRE(answer);
  CHECK(answer->status == 202);
}

TEST_CASE("a token that is no webhook's is as unknown as any other") {
  Served served;
  served.started("approve", R"("t")", R"(,"token":"t")");

  const RawAnswer private_one = served.post("/hooks/t", R"({"granted":true})");
  const RawAnswer unknown = served.post("/hooks/u", R"({"granted":true})");

  CHECK(private_one.status == 404);
  CHECK(private_one.body == unknown.body);
}

}  // namespace
}  // namespace semel::serving
