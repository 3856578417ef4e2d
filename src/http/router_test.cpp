#include "http/router.hpp"

#include "http/target.hpp"

#include <semel/error.hpp>

#include <doctest/doctest.h>

namespace semel::http {
namespace {

using Parameters = std::map<std::string, std::string>;

TEST_CASE("a path finds its endpoint, fixed parts first") {
  Router router;
  router.add("GET", "/", 0);
  router.add("GET", "/orders", 1);
  router.add("POST", "/orders", 2);
  router.add("GET", "/orders/{order}", 3);
  router.add("GET", "/orders/new", 4);
  router.add("GET", "/orders/{id}/items/{item}", 5);
  router.add("GET", "/orders/new/pages", 6);

  struct Case {
    const char* method;
    const char* path;
    std::size_t endpoint;
    Parameters parameters;
  };

  for (const Case& each : std::vector<Case>{
           {"GET", "/", 0, {}},
           {"HEAD", "/orders", 1, {}},
           {"POST", "/orders", 2, {}},
           {"GET", "/orders/7", 3, {{"order", "7"}}},
           {"GET", "/orders/new", 4, {}},
           {"GET", "/orders/a%2Fb%2541", 3, {{"order", "a/b%41"}}},
           {"GET", "/orders/new/items/x", 5, {{"id", "new"}, {"item", "x"}}},
           {"GET", "/orders/new/pages", 6, {}},
           {"GET", "/orders/..", 3, {{"order", ".."}}},
       }) {
    CAPTURE(each.path);
    const auto found = router.find(each.method, each.path);
    REQUIRE(std::holds_alternative<Router::Found>(found));
    CHECK(std::get<Router::Found>(found).endpoint == each.endpoint);
    CHECK(std::get<Router::Found>(found).parameters == each.parameters);
  }
  for (const char* path : {"/nowhere", "/orders/", "/orders/7/items", "//orders",
                           "/orders/7/items/", "/Orders", "*", ""}) {
    CAPTURE(path);
    CHECK(std::holds_alternative<Router::NoRoute>(router.find("GET", path)));
  }
  for (const char* path : {"/orders/%", "/orders/%2", "/orders/%zz", "/orders/%ff"}) {
    CAPTURE(path);
    CHECK(std::holds_alternative<Router::BadPath>(router.find("GET", path)));
  }
  CHECK(std::get<Router::NoMethod>(router.find("PUT", "/orders")).allow ==
        "GET, HEAD, OPTIONS, POST");
}

TEST_CASE("what is not a template or is there already is refused") {
  Router router;
  router.add("GET", "/a/{b}", 0);
  for (const char* path :
       {"", "a", "/a/{c}", "/{", "/{}", "/a{b}", "/{a}/{a}", "/{a{b}}", "/a b", "/a?b"}) {
    CAPTURE(path);
    CHECK_THROWS_AS(router.add("GET", path, 1), Error);
  }
}

TEST_CASE("queries are decoded") {
  CHECK(read_query("a=1&b=x%20y+z&c&a=2&&=e") ==
        Parameters{{"a", "2"}, {"b", "x y z"}, {"c", ""}, {"", "e"}});
  CHECK(read_query("") == Parameters{});
  CHECK_FALSE(read_query("a=%"));
  CHECK_FALSE(read_query("%zz=1"));
}

TEST_CASE("what is encoded for a path comes back") {
  const std::string text = "a/b c%?#é~-._";
  CHECK(percent_encoded(text) == "a%2Fb%20c%25%3F%23%C3%A9~-._");
  CHECK(percent_decoded(percent_encoded(text)) == text);
}

}  // namespace
}  // namespace semel::http
