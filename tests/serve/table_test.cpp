// Every route with every kind of caller and every kind of request.
#include "tests/serve/served.hpp"

#include <functional>

namespace semel::serving {
namespace {

constexpr const char* keys = "/api/v1/api-keys";

/// A served engine with keys of all kinds.
struct Guarded : Served {
  Guarded() {
    credential = made(R"({"name":"root","scopes":["read","write","admin"]})");
    reads = made(R"({"name":"r","scopes":["read"]})");
    writes = made(R"({"name":"w","scopes":["write"]})");
    other = made(R"({"name":"o","scopes":["read","write","admin"],"workspace":"acme"})");
    revoked = made(R"({"name":"x","scopes":["read","write","admin"]})");
    const Json list = json(get(keys));
    const std::string id(list.at("items").as_array().back().at("id").as_string());
    REQUIRE(ask({.method = "DELETE", .path = keys + ("/" + id)}).status == 204);
  }

  std::string made(const std::string& body) const {
    const RawAnswer answer = post(keys, body);
    REQUIRE_MESSAGE(answer.status == 201, answer.body);
    return std::string(json(answer).at("key").as_string());
  }

  RawAnswer as(const std::string& key, Wanted wanted) const {
    wanted.headers["Authorization"] = key.empty() ? "Basic eDp5" : "Bearer " + key;
    return ask(wanted);
  }

  std::string reads;
  std::string writes;
  std::string other;
  std::string revoked;
};

enum class Scope { read, write, admin };

struct Route {
  std::string name;
  Scope scope;
  int status;  ///< of a right request
  std::function<Wanted(Guarded&)>
      prepared;                    ///< a right request, with whatever it is about in place
  bool is_about_something = true;  ///< which another workspace does not have
  std::string other_body{};        ///< one that fits and says something else
  std::string wrong_type{};        ///< a body with a member of a wrong type
  std::string wrong_field{};       ///< and which that is
  bool is_keyed = true;
  bool is_secret = false;
};

Wanted post_to(std::string path, std::string body) {
  return {.method = "POST", .path = std::move(path), .body = std::move(body)};
}

Wanted get_from(std::string path) { return {.path = std::move(path)}; }

std::vector<Route> changing() {
  const auto waiting = [](Guarded& served) {
    return served.started("approve", R"("t")", R"(,"token":"t")");
  };
  const auto failed = [](Guarded& served) {
    mended() = false;
    const std::string id = served.started("fragile", "[]");
    REQUIRE(served.result(id).at("status") == "failed");
    return id;
  };
  const auto run_path = [](const std::string& id, const char* action) {
    return "/api/v1/runs/" + id + "/" + action;
  };
  return {
      {.name = "start",
       .scope = Scope::write,
       .status = 201,
       .prepared =
           [](Guarded&) { return post_to("/api/v1/runs", R"({"workflow":"nap","input":[]})"); },
       .is_about_something = false,
       .other_body = R"({"workflow":"nap","input":[],"delay":"1s"})",
       .wrong_type = R"({"workflow":1})",
       .wrong_field = "/workflow"},
      {.name = "cancel",
       .scope = Scope::write,
       .status = 200,
       .prepared =
           [=](Guarded& served) { return post_to(run_path(waiting(served), "cancel"), "{}"); },
       .other_body = R"({"grace":"1s"})",
       .wrong_type = R"({"grace":1})",
       .wrong_field = "/grace"},
      {.name = "retry",
       .scope = Scope::write,
       .status = 200,
       .prepared =
           [=](Guarded& served) { return post_to(run_path(failed(served), "retry"), "{}"); },
       .wrong_type = "[]",
       .wrong_field = ""},
      {.name = "fork",
       .scope = Scope::write,
       .status = 201,
       .prepared =
           [=](Guarded& served) {
             const std::string id = served.started("add", R"({"left":1,"right":1})");
             REQUIRE(served.result(id).at("output") == 2);
             return post_to(run_path(id, "fork"), R"({"seq":0})");
           },
       .other_body = R"({"seq":1})",
       .wrong_type = R"({"seq":"0"})",
       .wrong_field = "/seq"},
      {.name = "wake",
       .scope = Scope::write,
       .status = 200,
       .prepared =
           [=](Guarded& served) { return post_to(run_path(waiting(served), "wake"), "{}"); },
       .wrong_type = "7",
       .wrong_field = ""},
      {.name = "resume",
       .scope = Scope::write,
       .status = 200,
       .prepared =
           [=](Guarded& served) {
             waiting(served);
             return post_to("/api/v1/hooks/t/resume", R"({"granted":true})");
           },
       .other_body = R"({"granted":false})",
       .wrong_type = R"({"granted":1})",
       .wrong_field = "/granted"},
      {.name = "resume or start",
       .scope = Scope::write,
       .status = 201,
       .prepared =
           [](Guarded&) {
             return post_to(
                 "/api/v1/hooks/t/resume-or-start",
                 R"({"workflow":"approve","payload":{"granted":true},"start":{"input":"t"}})");
           },
       .is_about_something = false,
       .other_body = R"({"workflow":"approve","payload":{"granted":false},"start":{"input":"t"}})",
       .wrong_type = R"({"workflow":"approve","payload":{"granted":1},"start":{"input":"t"}})",
       .wrong_field = "/payload/granted"},
      {.name = "new key",
       .scope = Scope::admin,
       .status = 201,
       .prepared = [](Guarded&) { return post_to(keys, R"({"name":"n","scopes":["read"]})"); },
       .is_about_something = false,
       .other_body = R"({"name":"n","scopes":["write"]})",
       .wrong_type = R"({"name":"n","scopes":"read"})",
       .wrong_field = "/scopes",
       .is_secret = true},
      {.name = "reserve",
       .scope = Scope::write,
       .status = 200,
       .prepared =
           [](Guarded&) {
             return post_to("/api/v1/idempotency/reserve", R"({"namespace":"n","key":"k"})");
           },
       .is_about_something = false,
       .wrong_type = R"({"namespace":"n","key":1})",
       .wrong_field = "/key",
       .is_keyed = false},
  };
}

std::vector<Route> looking() {
  const auto about_run = [](const std::string& end) {
    return [end](Guarded& served) {
      return get_from("/api/v1/runs/" + served.started("nap", "[]") + end);
    };
  };
  return {
      {.name = "runs",
       .scope = Scope::read,
       .status = 200,
       .prepared = [](Guarded&) { return get_from("/api/v1/runs"); },
       .is_about_something = false},
      {.name = "run", .scope = Scope::read, .status = 200, .prepared = about_run("")},
      {.name = "result", .scope = Scope::read, .status = 202, .prepared = about_run("/result")},
      {.name = "journal", .scope = Scope::read, .status = 200, .prepared = about_run("/journal")},
      {.name = "hooks",
       .scope = Scope::read,
       .status = 200,
       .prepared = [](Guarded&) { return get_from("/api/v1/hooks"); },
       .is_about_something = false},
      {.name = "hook",
       .scope = Scope::read,
       .status = 200,
       .prepared =
           [](Guarded& served) {
             served.started("approve", R"("t")", R"(,"token":"t")");
             return get_from("/api/v1/hooks/t");
           }},
      {.name = "workflows",
       .scope = Scope::read,
       .status = 200,
       .prepared = [](Guarded&) { return get_from("/api/v1/workflows"); },
       .is_about_something = false},
      {.name = "nodes",
       .scope = Scope::read,
       .status = 200,
       .prepared = [](Guarded&) { return get_from("/api/v1/nodes"); },
       .is_about_something = false},
      {.name = "keys",
       .scope = Scope::admin,
       .status = 200,
       .prepared = [](Guarded&) { return get_from(keys); },
       .is_about_something = false},
      {.name = "reservation",
       .scope = Scope::read,
       .status = 200,
       .prepared =
           [](Guarded& served) {
             served.post("/api/v1/idempotency/reserve", R"({"namespace":"n","key":"k"})");
             return get_from("/api/v1/idempotency?namespace=n&key=k");
           }},
      {.name = "metrics",
       .scope = Scope::read,
       .status = 200,
       .prepared = [](Guarded&) { return get_from("/metrics"); },
       .is_about_something = false},
  };
}

void check_callers(const Route& route) {
  CAPTURE(route.name);
  Guarded served;
  const Wanted right = route.prepared(served);
  const std::string& too_little = route.scope == Scope::read ? served.writes : served.reads;

  const RawAnswer anonymous = served.as("", right);
  CHECK(anonymous.status == 401);
  CHECK(anonymous.says("www-authenticate: bearer"));
  CHECK(served.as(served.revoked, right).status == 401);
  CHECK(served.as(too_little, right).status == 403);
  if (route.is_about_something) CHECK(served.as(served.other, right).status == 404);
  // Nothing of that has changed anything.
  const RawAnswer answer = served.ask(right);
  CHECK_MESSAGE(answer.status == route.status, answer.body);
}

void check_bodies(const Route& route) {
  CAPTURE(route.name);
  Guarded served;
  Wanted wanted = route.prepared(served);
  const std::string right = wanted.body;
  wanted.key = "k1";
  const auto sent = [&](const std::string& body) {
    wanted.body = body;
    return served.ask(wanted);
  };

  const RawAnswer malformed = sent("{");
  CHECK(malformed.status == 400);
  CHECK(malformed.code() == "MALFORMED");
  const RawAnswer wrong = sent(route.wrong_type);
  CHECK(wrong.status == 422);
  CHECK(Served::json(wrong).at("field") == Json(route.wrong_field));
  if (right.starts_with('{') && route.name != "resume") {
    const std::string more =
        right == "{}" ? R"({"surprise":1})" : R"({"surprise":1,)" + right.substr(1);
    const RawAnswer unknown = sent(more);
    CHECK(unknown.status == 422);
    CHECK(Served::json(unknown).at("field") == "/surprise");
  }
  const RawAnswer large = sent("{\"x\":\"" + std::string(std::size_t{1} << 20U, 'x') + "\"}");
  CHECK(large.status == 413);
  // Refused requests leave the key free.
  CHECK(sent(right).status == route.status);
}

void check_repeats(const Route& route) {
  CAPTURE(route.name);
  Guarded served;
  Wanted wanted = route.prepared(served);
  wanted.key = "k2";

  const RawAnswer first = served.ask(wanted);
  REQUIRE_MESSAGE(first.status == route.status, first.body);
  for (int i = 0; i < 3; ++i) {  // from the store, then from memory
    const RawAnswer again = served.ask(wanted);
    if (route.is_secret) {
      CHECK(again.code() == "IDEMPOTENCY_RESPONSE_NOT_RETAINED");
    } else {
      CHECK(again.status == first.status);
      CHECK(again.body == first.body);
      CHECK(again.says("idempotency-replayed: true"));
    }
  }
  CHECK(served.as(served.revoked, wanted).status == 401);  // also before a replay
  if (route.other_body.empty()) return;
  wanted.body = route.other_body;
  const RawAnswer other = served.ask(wanted);
  CHECK(other.status == 409);
  CHECK(other.code() == "IDEMPOTENCY_CONFLICT");
}

TEST_CASE("every route that changes something: who may") {
  for (const Route& route : changing()) check_callers(route);
}

TEST_CASE("every route that looks: who may") {
  for (const Route& route : looking()) check_callers(route);
}

TEST_CASE("every route that changes something: what does not fit") {
  for (const Route& route : changing()) check_bodies(route);
}

TEST_CASE("every route that changes something: the same again") {
  for (const Route& route : changing()) {
    if (route.is_keyed) check_repeats(route);
  }
}

TEST_CASE("a parameter that nobody knows is refused by every route") {
  for (const auto& routes : {changing(), looking()}) {
    for (const Route& route : routes) {
      CAPTURE(route.name);
      Guarded served;
      Wanted wanted = route.prepared(served);
      wanted.path += wanted.path.find('?') == std::string::npos ? "?odd=1" : "&odd=1";
      const RawAnswer answer = served.ask(wanted);
      CHECK(answer.status == 422);
      CHECK(Served::json(answer).at("field") == "odd");
    }
  }
}

}  // namespace
}  // namespace semel::serving
