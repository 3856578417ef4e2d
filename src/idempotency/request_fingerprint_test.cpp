#include "idempotency/request_fingerprint.hpp"

#include "base/sha256.hpp"

#include <doctest/doctest.h>

namespace semel::idempotency {

namespace {

const RequestParts order{.method = "POST",
                         .path = "/orders",
                         .query = "a=1&b=2",
                         .content_type = "application/json",
                         .body = R"({"id":7,"note":"x"})"};

std::string of(const RequestParts& request, const Compared& compared = {}) {
  return request_fingerprint(compared, request);
}

RequestParts with_body(std::string_view body, std::string_view type = "application/json") {
  RequestParts request = order;
  request.body = body;
  request.content_type = type;
  return request;
}

RequestParts with_query(std::string_view query) {
  RequestParts request = order;
  request.query = query;
  return request;
}

}  // namespace

TEST_CASE("a request's fingerprint is stored, so it never changes") {
  CHECK(base::sha256_hex(of(order)) ==
        "eecc0d6fada530ad95d898d13682f89893a850df4a2b4fddfaf0bc2eb2e128ee");
}

TEST_CASE("JSON bodies are compared by value") {
  const std::string same = of(order);
  CHECK(of(with_body(R"({ "note":"x", "id":7.0 })")) == same);
  CHECK(of(with_body(R"({"note":"x","id":70e-1})", "Application/JSON; charset=utf-8")) == same);
  CHECK(of(with_body(R"({"id":7})")) != same);
  CHECK(of(with_body(R"({"id":7,"note":null})")) != of(with_body(R"({"id":7})")));
  CHECK(of(with_body(R"({"id":9007199254740993})")) != of(with_body(R"({"id":9007199254740992})")));
  CHECK(of(with_body(R"([1,2])", "application/vnd.api+json")) ==
        of(with_body(R"([ 1, 2 ])", "application/vnd.api+json")));
}

TEST_CASE("every other body is compared by bytes") {
  CHECK(of(with_body("[1]", "text/plain")) != of(with_body("[ 1]", "text/plain")));
  CHECK(of(with_body("[1]", "")) != of(with_body("[ 1]", "")));
  CHECK(of(with_body(R"({"a":1,"a":1})")) != of(with_body(R"({"a":1, "a":1})")));
  CHECK(of(with_body("{")) != of(with_body("{ ")));
  RequestParts encoded = with_body("[1]");
  encoded.is_encoded = true;
  RequestParts spaced = with_body("[ 1]");
  spaced.is_encoded = true;
  CHECK(of(encoded) != of(spaced));
  const Compared raw{.body = BodyComparison::raw};
  CHECK(of(with_body("[1]"), raw) != of(with_body("[ 1]"), raw));
}

TEST_CASE("the order of a query's names does not count, that of one name's values does") {
  CHECK(of(with_query("b=2&a=1")) == of(order));
  CHECK(of(with_query("a=1&a=2")) != of(with_query("a=2&a=1")));
  CHECK(of(with_query("a=1&b=1&a=2")) == of(with_query("a=1&a=2&b=1")));
  CHECK(of(with_query("a=%31&b=2")) != of(order));
  CHECK(of(with_query("a=1&b=2&")) != of(order));
  CHECK(of(with_query("")) != of(with_query("&")));
  CHECK(of(with_query("&a")) == of(with_query("a&")));
  CHECK(of(with_query("a")) != of(with_query("a=")));
}

TEST_CASE("method, path and media type make a difference where they are compared") {
  RequestParts other_method = order;
  other_method.method = "PATCH";
  RequestParts other_path = order;
  other_path.path = "/orders/";
  const RequestParts other_type = with_body(order.body, "application/vnd.api+json");
  const RequestParts other_query = with_query("a=1");

  for (const RequestParts& request : {other_method, other_path, other_type, other_query})
    CHECK(of(request) != of(order));
  CHECK(of(other_method, {.method = false}) == of(order, {.method = false}));
  CHECK(of(other_path, {.path = false}) == of(order, {.path = false}));
  CHECK(of(other_type, {.media_type = false}) == of(order, {.media_type = false}));
  CHECK(of(other_query, {.query = false}) == of(order, {.query = false}));
  CHECK(of(with_body("{}"), {.body = BodyComparison::none}) ==
        of(order, {.body = BodyComparison::none}));
  CHECK(of(order, {.method = false}) != of(order));
}

TEST_CASE("where nothing is compared all requests are the same") {
  CHECK(of(order, Compared::nothing()).empty());
  CHECK(of(with_body("{}"), Compared::nothing()).empty());
}

TEST_CASE("a media type is what stands before its parameters") {
  CHECK(media_type("Text/HTML ; charset=x") == "text/html");
  CHECK(media_type("") == "");
  CHECK(media_type(" ; a") == "");
  CHECK(is_json("application/problem+json"));
  CHECK_FALSE(is_json("application/jsonp"));
  CHECK_FALSE(is_json("text/json"));
}

}  // namespace semel::idempotency
