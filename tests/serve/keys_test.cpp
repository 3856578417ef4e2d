// Who may ask: open mode, keys, scopes, workspaces.
#include "tests/serve/served.hpp"

namespace semel::serving {
namespace {

constexpr const char* keys = "/api/v1/api-keys";

std::string made(Served& served, const std::string& body) {
  const RawAnswer answer = served.post(keys, body);
  REQUIRE_MESSAGE(answer.status == 201, answer.body);
  return std::string(served.json(answer).at("key").as_string());
}

/// A served engine with an admin of "default".
struct Kept : Served {
  Kept() { credential = made(*this, R"({"name":"root","scopes":["read","write","admin"]})"); }

  RawAnswer as(const std::string& key, Wanted wanted) const {
    wanted.headers["Authorization"] = "Bearer " + key;
    return ask(wanted);
  }
};

TEST_CASE("without keys only this machine is served") {
  Served served;
  const auto from = [&](const std::string& host, const std::string& origin) {
    Wanted wanted{.path = "/api/v1/runs", .headers = {{"Host", host}}};
    if (!origin.empty()) wanted.headers["Origin"] = origin;
    return served.ask(wanted).status;
  };

  for (const char* host : {"localhost", "localhost:80", "LOCALHOST", "127.0.0.1:8080", "[::1]:1"})
    CHECK_MESSAGE(from(host, "") == 200, host);
  for (const char* host :
       {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2", "[::2]"})
    CHECK_MESSAGE(from(host, "") == 421, host);
  for (const char* origin : {"http://localhost:3000", "http://127.0.0.1", "https://[::1]:1"})
    CHECK_MESSAGE(from("localhost", origin) == 200, origin);
  for (const char* origin :
       {"null", "https://evil.example", "http://localhost.evil.example", "file://", "localhost"})
    CHECK_MESSAGE(from("localhost", origin) == 403, origin);
  CHECK(served.ask({.path = "/healthz", .headers = {{"Host", "evil.example"}}}).status == 421);
}

TEST_CASE("without keys a server beyond this machine is refused, and it says what to do") {
  Engine engine{testing::fresh_store()};
  std::string message;
  try {
    http::serve(engine, {.host = "0.0.0.0"});
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(message.find("POST /api/v1/api-keys") != std::string::npos);
}

TEST_CASE("the first key is an admin's, and ends open mode for good") {
  Served served;

  CHECK(served.post(keys, R"({"name":"a","scopes":["read"]})").status == 422);
  CHECK(served.get("/api/v1/runs").status == 200);
  const RawAnswer first = served.post(keys, R"({"name":"a","scopes":["admin"]})");
  const RawAnswer anonymous = served.get("/api/v1/runs");
  served.credential = std::string(served.json(first).at("key").as_string());

  CHECK(first.status == 201);
  CHECK(served.credential.starts_with("sml_"));
  CHECK(served.credential.size() == 47);
  CHECK(anonymous.status == 401);
  CHECK(anonymous.code() == "UNAUTHENTICATED");
  CHECK(anonymous.says("www-authenticate: bearer"));
  // Scopes do not nest.
  CHECK(served.get("/api/v1/runs").status == 403);
  CHECK(served.get(keys).status == 200);
  // Host and Origin are of no matter any more.
  CHECK(served.ask({.path = keys, .headers = {{"Host", "semel.example"}}}).status == 200);
}

TEST_CASE("a scope is needed for each kind of request") {
  Kept served;
  const std::string reads = made(served, R"({"name":"r","scopes":["read"]})");
  const std::string writes = made(served, R"({"name":"w","scopes":["write"]})");
  const Wanted start{.method = "POST", .path = "/api/v1/runs", .body = R"({"workflow":"nap"})"};

  CHECK(served.as(reads, {.path = "/api/v1/runs"}).status == 200);
  CHECK(served.as(reads, start).code() == "FORBIDDEN");
  CHECK(served.as(reads, {.path = "/metrics"}).status == 200);
  CHECK(served.as(writes, start).status == 201);
  CHECK(served.as(writes, {.path = "/api/v1/runs"}).code() == "FORBIDDEN");
  CHECK(served.as(writes, {.path = "/metrics"}).status == 403);
  CHECK(served.as(writes, {.path = keys}).status == 403);
  CHECK(served.as("sml_wrong", {.path = "/api/v1/runs"}).status == 401);
  CHECK(served.as("", {.path = "/api/v1/runs"}).status == 401);
}

TEST_CASE("a revoked key is refused at once, and the last admin's is not revoked") {
  Kept served;
  const RawAnswer other = served.post(keys, R"({"name":"w","scopes":["write"]})");
  const std::string key(served.json(other).at("key").as_string());
  const std::string id(served.json(other).at("id").as_string());
  const Json list = served.json(served.get(keys));
  const std::string root(list.at("items").at(0).at("id").as_string());

  const RawAnswer revoked = served.ask({.method = "DELETE", .path = keys + ("/" + id)});
  const RawAnswer again = served.ask({.method = "DELETE", .path = keys + ("/" + id)});
  const RawAnswer last = served.ask({.method = "DELETE", .path = keys + ("/" + root)});

  CHECK(revoked.status == 204);
  CHECK(served.as(key, {.path = "/api/v1/runs"}).status == 401);
  CHECK(again.code() == "API_KEY_NOT_FOUND");
  CHECK(last.status == 409);
  CHECK(served.get(keys).status == 200);
  CHECK_FALSE(list.at("items").at(0).as_object().contains("key"));
}

TEST_CASE("a new key's answer is not kept, and what it made is named") {
  Kept served;
  const std::string body = R"({"name":"w","scopes":["write"]})";

  const RawAnswer first = served.post(keys, body, "k");
  const RawAnswer again = served.post(keys, body, "k");
  const RawAnswer from_memory = served.post(keys, body, "k");

  CHECK(first.status == 201);
  for (const RawAnswer& repeated : {again, from_memory}) {
    CHECK(repeated.code() == "IDEMPOTENCY_RESPONSE_NOT_RETAINED");
    CHECK(served.json(repeated).at("id") == served.json(first).at("id"));
    CHECK(repeated.body.find("sml_") == std::string::npos);
  }
  CHECK(served.json(served.get(keys)).at("items").as_array().size() == 2);
}

TEST_CASE("another workspace's things do not exist") {
  Kept served;
  const std::string other =
      made(served, R"({"name":"o","scopes":["read","write","admin"],"workspace":"acme"})");
  const std::string id = served.started("approve", R"("t")", R"(,"token":"t","runId":"mine")");
  const auto same = [&](const std::string& method, const std::string& theirs,
                        const std::string& nothing, const std::string& body = "") {
    CAPTURE(theirs);
    const RawAnswer there = served.as(other, {.method = method, .path = theirs, .body = body});
    const RawAnswer never = served.as(other, {.method = method, .path = nothing, .body = body});
    CHECK(there.status == 404);
    CHECK(there.code() == never.code());
    CHECK(there.status == never.status);
  };

  same("GET", "/api/v1/runs/mine", "/api/v1/runs/none");
  same("GET", "/api/v1/runs/mine/result", "/api/v1/runs/none/result");
  same("GET", "/api/v1/runs/mine/journal", "/api/v1/runs/none/journal");
  same("POST", "/api/v1/runs/mine/cancel", "/api/v1/runs/none/cancel");
  same("POST", "/api/v1/runs/mine/retry", "/api/v1/runs/none/retry");
  same("POST", "/api/v1/runs/mine/wake", "/api/v1/runs/none/wake");
  same("POST", "/api/v1/runs/mine/fork", "/api/v1/runs/none/fork", R"({"seq":0})");
  same("GET", "/api/v1/hooks/t", "/api/v1/hooks/u");
  same("POST", "/api/v1/hooks/t/resume", "/api/v1/hooks/u/resume", R"({"granted":true})");
  CHECK(served.json(served.as(other, {.path = "/api/v1/runs"})).at("items").as_array().empty());
  CHECK(served.json(served.as(other, {.path = "/api/v1/hooks"})).at("items").as_array().empty());
  CHECK(served.json(served.as(other, {.path = "/api/v1/hooks?runId=mine"}))
            .at("items")
            .as_array()
            .empty());
  // The same id and token are theirs to take.
  CHECK(served
            .as(other, {.method = "POST",
                        .path = "/api/v1/runs",
                        .body = R"({"workflow":"approve","input":"t","token":"t","runId":"mine"})"})
            .status == 201);
  CHECK(served.get("/api/v1/runs/" + id).status == 200);
  // Nor may they make keys for others.
  CHECK(served
            .as(other, {.method = "POST",
                        .path = keys,
                        .body = R"({"name":"x","scopes":["admin"],"workspace":"default"})"})
            .status == 403);
}

TEST_CASE("two callers with the same key do not meet") {
  Kept served;
  const std::string other = made(served, R"({"name":"o","scopes":["read","write"]})");
  const Wanted start{
      .method = "POST", .path = "/api/v1/runs", .body = R"({"workflow":"nap"})", .key = "k"};

  const RawAnswer mine = served.ask(start);
  const RawAnswer theirs = served.as(other, start);

  CHECK(mine.status == 201);
  CHECK(theirs.status == 201);
  CHECK(mine.body != theirs.body);
  CHECK_FALSE(theirs.says("idempotency-replayed"));
}

TEST_CASE("idempotency keys are listed for the workspace of the caller") {
  Kept served;
  const std::string acme =
      made(served, R"({"name":"a","scopes":["read","write"],"workspace":"acme"})");
  const Wanted reserve{.method = "POST",
                       .path = "/api/v1/idempotency/reserve",
                       .body = R"({"namespace":"pay","key":"k"})"};
  const Wanted list{.path = "/api/v1/idempotency?namespace=pay"};

  REQUIRE(served.as(acme, reserve).status == 200);

  CHECK(served.json(served.as(acme, list)).at("items").as_array().size() == 1);
  CHECK(served.json(served.ask(list)).at("items").as_array().empty());
}

TEST_CASE("keys survive a restart, and so does that there were some") {
  const std::string file = "/tmp/semel-keys-" + std::to_string(::getpid()) + ".db";
  std::string key;
  {
    Served served("sqlite:" + file);
    key = made(served, R"({"name":"root","scopes":["read","admin"]})");
  }
  {
    Served served("sqlite:" + file);
    CHECK(served.get("/api/v1/runs").status == 401);
    served.credential = key;
    CHECK(served.get("/api/v1/runs").status == 200);
    const auto actions = served.engine.transaction([](sql::Transaction& tx) {
      return tx.query<std::string>("SELECT action FROM semel_audit");
    });
    CHECK(actions == std::vector<std::string>{"api-key.create"});
    const auto stored = served.engine.transaction([&](sql::Transaction& tx) {
      return tx.query<std::int64_t>(
          "SELECT count(*) FROM semel_api_key WHERE instr(digest, ?1) OR instr(name, ?1)", key);
    });
    CHECK(stored == std::vector<std::int64_t>{0});
  }
  for (const char* end : {"", "-wal", "-shm", ".lock"}) ::unlink((file + end).c_str());
}

TEST_CASE("a key that expired is refused") {
  Kept served;
  const std::string brief = made(served, R"({"name":"b","scopes":["read"],"expiresIn":"1ms"})");

  // It expires before the answer to this request is here.
  int status = 200;
  for (int i = 0; i < 1000 && status == 200; ++i)
    status = served.as(brief, {.path = "/api/v1/runs"}).status;

  CHECK(status == 401);
}

}  // namespace
}  // namespace semel::serving
