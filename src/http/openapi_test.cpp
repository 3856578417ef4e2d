#include "http/openapi.hpp"

#include <doctest/doctest.h>

#include <set>

namespace schema {

enum class Colour { red, green };
BOOST_DESCRIBE_ENUM(Colour, red, green)

struct Tree {
  std::string name;
  std::vector<Tree> below;
  std::optional<Colour> colour;
};
BOOST_DESCRIBE_STRUCT(Tree, (), (name, below, colour))

struct Everything {
  bool flag = false;
  std::int8_t small = 0;
  std::uint64_t large = 0;
  double ratio = 0;
  Tree tree;
  std::variant<std::int32_t, std::string> either;
  std::tuple<int, bool> both;
  std::array<int, 2> two{};
  std::map<std::string, Tree> named;
  std::set<int> distinct;
  semel::Bytes raw;
  semel::TimePoint at{};
  semel::Json anything;
};
BOOST_DESCRIBE_STRUCT(Everything, (),
                      (flag, small, large, ratio, tree, either, both, two, named, distinct, raw, at,
                       anything))

}  // namespace schema

namespace semel::http {
namespace {

std::string text_at(const Json& document, const char* pointer) {
  boost::system::error_code error;
  const Json* found = document.find_pointer(pointer, error);
  return found == nullptr ? "nothing at " + std::string(pointer) : value::to_text(*found);
}

TEST_CASE("contracts describe themselves") {
  const std::vector<detail::ContractSpec> contracts{
      post<schema::Everything, schema::Tree>("/trees/{forest}/{tree}")
          .named("trees.plant")
          .idempotent({.required = true})
          .spec(),
      get<std::vector<schema::Tree>>("/trees").spec(),
      del<std::monostate>("/trees").spec(),
  };

  const Json document = value::from_text(openapi_text(contracts, "forest"));

  CHECK(text_at(document, "/openapi") == "\"3.1.0\"");
  CHECK(text_at(document, "/info/title") == "\"forest\"");
  const std::string plant = "/paths/~1trees~1{forest}~1{tree}/post";
  const auto in_plant = [&](const char* rest) { return text_at(document, (plant + rest).c_str()); };
  CHECK(in_plant("/operationId") == "\"trees.plant\"");
  CHECK(in_plant("/parameters/0") ==
        R"({"name":"forest","in":"path","required":true,"schema":{"type":"string"}})");
  CHECK(in_plant("/parameters/1/name") == "\"tree\"");
  CHECK(in_plant("/parameters/2/name") == "\"idempotency-key\"");
  CHECK(in_plant("/parameters/2/in") == "\"header\"");
  CHECK(in_plant("/parameters/2/required") == "true");
  CHECK(in_plant("/requestBody/content/application~1json/schema/$ref") ==
        "\"#/components/schemas/trees.plant.request\"");
  CHECK(in_plant("/responses/2XX/content/application~1json/schema/$ref") ==
        "\"#/components/schemas/trees.plant.response\"");
  CHECK(in_plant("/responses/409/description").find("IDEMPOTENCY_CONFLICT") != std::string::npos);
  CHECK(in_plant("/responses/400/description").find("IDEMPOTENCY_KEY_REQUIRED") !=
        std::string::npos);
  CHECK(in_plant("/responses/422/content/application~1problem+json/schema/$ref") ==
        "\"#/components/schemas/Problem\"");
  CHECK(text_at(document, "/paths/~1trees/get/responses/2XX/content/application~1json/schema") ==
        R"({"type":"array","items":{"$ref":"#/components/schemas/GET__trees.response"}})");
  CHECK(text_at(document, "/paths/~1trees/delete/responses/204/description") ==
        "\"It went well.\"");
  CHECK(text_at(document, "/paths/~1trees/delete/responses/409").starts_with("nothing"));
}

TEST_CASE("types become schemas") {
  const Json document = value::from_text(
      openapi_text({post<schema::Everything, std::monostate>("/x").named("x").spec()}, "x"));
  const auto property = [&](const char* name) {
    return text_at(document,
                   (std::string("/components/schemas/x.request/properties/") + name).c_str());
  };

  CHECK(property("flag") == R"({"type":"boolean"})");
  CHECK(property("small") == R"({"type":"integer","minimum":-128,"maximum":127})");
  CHECK(property("large") == R"({"type":"integer","format":"uint64","minimum":0})");
  CHECK(property("ratio") == R"({"type":"number","format":"double"})");
  CHECK(property("tree") == R"({"$ref":"#/components/schemas/x.request.1"})");
  CHECK(property("either").starts_with(
      R"({"anyOf":[{"type":"integer","minimum":-2147483648,"maximum":2147483647},{"type":"string"},)"));
  CHECK(property("both").starts_with(R"({"type":"array","prefixItems":[{"type":"integer")"));
  CHECK(property("two/minItems") == "2");
  CHECK(property("named") ==
        R"({"type":"object","additionalProperties":{"$ref":"#/components/schemas/x.request.1"}})");
  CHECK(property("distinct/uniqueItems") == "true");
  CHECK(property("raw") == R"({"type":"string","contentEncoding":"base64"})");
  CHECK(property("at") == R"({"type":"string","format":"date-time"})");
  CHECK(property("anything") == "{}");
  CHECK(text_at(document, "/components/schemas/x.request/additionalProperties") == "false");
  CHECK(text_at(document, "/components/schemas/x.request.1") ==
        R"({"type":"object","properties":{"name":{"type":"string"},"below":{"type":"array",)"
        R"("items":{"$ref":"#/components/schemas/x.request.1"}},"colour":{"anyOf":[)"
        R"({"type":"string","enum":["red","green"]},{"type":"null"}]}},)"
        R"("required":["name","below"],"additionalProperties":false})");
}

}  // namespace
}  // namespace semel::http
