#include "http/proxy_config.hpp"

#include <semel/error.hpp>

#include <doctest/doctest.h>

#include <array>

namespace semel::http {

namespace {

using namespace std::chrono_literals;
using idempotency::BodyComparison;
using idempotency::InFlight;
using store::OnAbandoned;

/// What the refusal of a file says; empty where it is accepted.
std::string refusal(std::string_view json, std::string_view preset = "default") {
  try {
    static_cast<void>(read_proxy_config(preset, json));
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == "VALIDATION_ERROR");
    return error.what();
  }
}

}  // namespace

TEST_CASE("without a file a proxy does as its preset says") {
  const ProxyConfig usual = read_proxy_config("default");
  const ProxyConfig beignet = read_proxy_config("beignet");

  CHECK(usual.rules.policy.on_abandoned == OnAbandoned::unknown);
  CHECK(usual.rules.policy.methods == std::vector<std::string>{"POST", "PATCH"});
  CHECK(usual.rules.scope == ProxyScope{});
  CHECK(usual.rules.upstream_timeout == 60s);
  CHECK(usual.rules.auth_check.empty());
  CHECK(usual.header_timeout == 10s);
  CHECK(usual.idle_timeout == 60s);
  CHECK(beignet.rules.policy.on_abandoned == OnAbandoned::run);
  CHECK(refusal("{}", "strip").find("there is no preset \"strip\"") != std::string::npos);
}

TEST_CASE("a file sets everything there is to set") {
  const ProxyConfig config = read_proxy_config("stripe", R"({
    "header": "X-Request-Key", "methods": ["PUT", "DELETE"], "required": true, "scope": "header:X-Tenant",
    "lifetime": "30d", "lease": "5s", "onAbandoned": "run", "inFlight": "wait", "waitDefault": "500ms",
    "waitMax": "1s", "waiters": 7, "mismatchStatus": 422, "store": ["2xx", "!204"], "fingerprint": "raw",
    "ignoreQuery": true, "maxBody": 10, "maxAnswer": 20, "headerTimeout": "3s", "idleTimeout": "4s",
    "upstreamTimeout": "2s", "authCheck": "http://127.0.0.1:9/check", "routes": []})");

  const idempotency::Policy& policy = config.rules.policy;
  CHECK(policy.header == "X-Request-Key");
  CHECK(policy.methods == std::vector<std::string>{"PUT", "DELETE"});
  CHECK(policy.required);
  CHECK(config.rules.scope == ProxyScope{.kind = ProxyScope::Kind::header, .header = "X-Tenant"});
  CHECK(policy.lifetime == 720h);
  CHECK(policy.lease == 5s);
  CHECK(policy.on_abandoned == OnAbandoned::run);
  CHECK(policy.in_flight == InFlight::wait);
  CHECK(policy.wait_default == 500ms);
  CHECK(policy.wait_max == 1s);
  CHECK(policy.waiters_max == 7);
  CHECK(policy.mismatch_status == 422);
  CHECK(policy.stored.contains(200));
  CHECK_FALSE(policy.stored.contains(204));
  CHECK_FALSE(policy.stored.contains(404));
  CHECK(policy.compared.body == BodyComparison::raw);
  CHECK_FALSE(policy.compared.query);
  CHECK(config.rules.body_bytes_max == 10);
  CHECK(policy.answer_bytes_max == 20);
  CHECK(config.header_timeout == 3s);
  CHECK(config.idle_timeout == 4s);
  CHECK(config.rules.upstream_timeout == 2s);
  CHECK(config.rules.auth_check == "http://127.0.0.1:9/check");
  CHECK_FALSE(policy.per_endpoint);  // the preset's, which no setting changes
}

TEST_CASE("a route changes what it names and keeps the rest; the first that matches counts") {
  const ProxyConfig config = read_proxy_config("default", R"({
    "routes": [{"path": "/payments/test", "required": false, "fingerprint": "json"},
               {"path": "/payments", "lifetime": "7d"}],
    "required": true, "fingerprint": "none"})");

  const ProxyRules& test = config.rules_for("/payments/test/1");
  const ProxyRules& payments = config.rules_for("/payments");
  const ProxyRules& others = config.rules_for("/paymentsx");

  CHECK_FALSE(test.policy.required);
  CHECK(test.policy.compared == idempotency::Compared{});
  CHECK(test.policy.lifetime == 24h);
  CHECK(payments.policy.required);
  CHECK(payments.policy.lifetime == 168h);
  CHECK(payments.policy.compared == idempotency::Compared::nothing());
  CHECK(&others == &config.rules);
}

TEST_CASE("paths match by prefix, or by glob where there is a star") {
  struct Case {
    std::string_view pattern;
    std::string_view path;
    bool matches;
  };

  const auto cases = std::to_array<Case>({{"/", "/", true},
                                          {"/", "/a/b", true},
                                          {"/a", "/a", true},
                                          {"/a", "/a/b", true},
                                          {"/a", "/ab", false},
                                          {"/a", "/", false},
                                          {"/a/", "/a/b", true},
                                          {"/a/", "/a", false},
                                          {"/a/*", "/a/b", true},
                                          {"/a/*", "/a/", true},
                                          {"/a/*", "/a/b/c", false},
                                          {"/a/*/c", "/a/b/c", true},
                                          {"/a/*/c", "/a/b/d", false},
                                          {"/a/*/c", "/a/b/b/c", false},
                                          {"/a/**", "/a/b/c", true},
                                          {"/a/**/d", "/a/b/c/d", true},
                                          {"/**/c*", "/a/b/cd", true},
                                          {"/**/c*", "/a/cb/d", false},
                                          {"/a/x*y*z", "/a/xyyz", true},
                                          {"/a/x*y*z", "/a/xz", false}});
  for (const Case& each : cases) {
    CAPTURE(each.pattern);
    CAPTURE(each.path);
    CHECK(path_matches(each.pattern, each.path) == each.matches);
  }
}

TEST_CASE("what is wrong with a file is named by its place") {
  struct Case {
    int number;
    std::string_view json;
    std::string_view place;  ///< how the refusal begins
  };

  const auto cases = std::to_array<Case>(
      {{1, R"({"heade": "x"})", "/heade: there is no such setting"},
       {2, R"({"a/b~c": 1})", "/a~1b~0c: "},
       {3, R"([])", "/: must be an object"},
       {4, R"({"header": "a b"})", "/header: "},
       {5, R"({"header": "Host"})", "/header: "},
       {6, R"({"header": 1})", "/header: must be a text"},
       {7, R"({"methods": "POST"})", "/methods: "},
       {8, R"({"methods": ["POST", "GET"]})", "/methods/1: "},
       {9, R"({"methods": ["post"]})", "/methods/0: "},
       {10, R"({"required": "yes"})", "/required: must be true or false"},
       {11, R"({"scope": "cookie"})", "/scope: "},
       {12, R"({"scope": "header:"})", "/scope: "},
       {13, R"({"lifetime": "1 day"})", "/lifetime: is no duration"},
       {14, R"({"lifetime": "0s"})", "/lifetime: is too short"},
       {15, R"({"lifetime": 24})", "/lifetime: must be a text"},
       {16, R"({"lease": "10ms"})", "/lease: is too short"},
       {17, R"({"onAbandoned": "retry"})", "/onAbandoned: must be one of run, unknown"},
       {18, R"({"inFlight": "queue"})", "/inFlight: must be one of wait, reject"},
       {19, R"({"waitDefault": "1m"})", "/waitDefault: "},
       {20, R"({"waitMax": "1s"})", "/waitMax: "},
       {21, R"({"waiters": -1})", "/waiters: "},
       {22, R"({"waiters": 1.5})", "/waiters: "},
       {23, R"({"mismatchStatus": 200})", "/mismatchStatus: "},
       {24, R"({"store": ["2xx", "6xx"]})", "/store: \"6xx\""},
       {25, R"({"fingerprint": "xml"})", "/fingerprint: must be one of json, raw, none"},
       {26, R"({"ignoreQuery": ["a"]})", "/ignoreQuery: "},
       {27, R"({"maxBody": 0})", "/maxBody: "},
       {28, R"({"maxAnswer": 9999999999})", "/maxAnswer: "},
       {29, R"({"headerTimeout": "0s"})", "/headerTimeout: "},
       {60, R"({"header": "Authorization"})", "/header: "},
       {61, R"({"routes": [{"path": "/a"}, {"path": "/b"}, {"path": "/a"}]})", "/routes/2: "},
       {30, R"({"idleTimeout": "soon"})", "/idleTimeout: "},
       {31, R"({"upstreamTimeout": "0ms"})", "/upstreamTimeout: "},
       {32, R"({"authCheck": "ftp://x"})", "/authCheck: "},
       {33, R"({"authCheck": "https://x"})", "/authCheck: "},
       {34, R"({"routes": {}})", "/routes: "},
       {35, R"({"routes": [{"required": true}]})", "/routes/0: has no path"},
       {36, R"({"routes": [{"path": "a"}]})", "/routes/0/path: "},
       {37, R"({"routes": [{"path": "/a"}, {"path": "/b", "lease": "x"}]})", "/routes/1/lease: "},
       {38, R"({"routes": [{"path": "/a", "requird": true}]})", "/routes/0/requird: "},
       {39, R"({"routes": [{"path": "/a", "idleTimeout": "1s"}]})", "/routes/0/idleTimeout: "},
       {40, R"({"routes": [{"path": "/a", "routes": []}]})", "/routes/0/routes: "}});
  for (const Case& each : cases) {
    CAPTURE(each.number);
    CAPTURE(refusal(each.json));
    CHECK(refusal(each.json).starts_with(each.place));
  }
}

TEST_CASE("a file that is no JSON or says something twice is refused") {
  CHECK_FALSE(refusal("{").empty());
  CHECK_FALSE(refusal("").empty());
  CHECK_FALSE(refusal(R"({"required": true, "required": false})").empty());
}

}  // namespace semel::http
