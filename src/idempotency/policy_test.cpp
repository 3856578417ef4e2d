#include "idempotency/policy.hpp"

#include <doctest/doctest.h>

namespace semel::idempotency {

using namespace std::chrono_literals;

TEST_CASE("the presets are what their table says") {
  const Policy standard = preset("default").value();
  CHECK(standard.mismatch_status == 409);
  CHECK(standard.in_flight == InFlight::wait);
  CHECK(standard.wait_default == 2s);
  CHECK(standard.wait_max == 30s);
  CHECK(standard.methods == std::vector<std::string>{"POST", "PATCH"});
  CHECK(standard.scope == Scope::actor_tenant);
  CHECK(standard.compared == Compared{});
  CHECK(standard.lifetime == 24h);
  CHECK(standard.lease == 30s);
  CHECK(standard.per_endpoint);

  const Policy ietf = preset("ietf").value();
  CHECK(ietf.mismatch_status == 422);
  CHECK(ietf.in_flight == InFlight::reject);
  CHECK(ietf.stored == standard.stored);
  CHECK(ietf.compared == standard.compared);

  const Policy beignet = preset("beignet").value();
  CHECK(beignet.mismatch_status == 409);
  CHECK(beignet.in_flight == InFlight::reject);
  CHECK(beignet.stored.contains(201));
  CHECK_FALSE(beignet.stored.contains(404));
  CHECK_FALSE(beignet.compared.method);
  CHECK(beignet.compared.query);

  const Policy codecourier = preset("codecourier").value();
  CHECK(codecourier.in_flight == InFlight::wait);
  CHECK(codecourier.wait_default == 30s);
  CHECK(codecourier.stored.contains(500));
  CHECK(codecourier.scope == Scope::tenant);
  CHECK(codecourier.compared.body == BodyComparison::raw);
  CHECK_FALSE(codecourier.compared.query);

  const Policy stripe = preset("stripe").value();
  CHECK(stripe.mismatch_status == 400);
  CHECK(stripe.in_flight == InFlight::reject);
  CHECK(stripe.methods == std::vector<std::string>{"POST"});
  CHECK(stripe.stored.contains(500));
  CHECK(stripe.stored.contains(409));
  CHECK_FALSE(stripe.stored.contains(401));
  CHECK_FALSE(stripe.stored.contains(429));
  CHECK_FALSE(stripe.per_endpoint);
  CHECK(stripe.compared.path);

  CHECK_FALSE(preset("Default"));
  CHECK_FALSE(proxy_preset(""));
}

TEST_CASE("a proxy leaves abandoned work unknown unless its preset says otherwise") {
  using store::OnAbandoned;
  for (const char* name : {"default", "ietf", "stripe"}) {
    CHECK(proxy_preset(name)->on_abandoned == OnAbandoned::unknown);
    CHECK(preset(name)->on_abandoned == OnAbandoned::run);
  }
  for (const char* name : {"beignet", "codecourier"})
    CHECK(proxy_preset(name)->on_abandoned == OnAbandoned::run);
}

TEST_CASE("by default answers that may change are not stored") {
  const StatusSet stored = Policy::default_stored();
  for (const int status : {200, 201, 204, 299, 301, 304, 400, 402, 404, 410, 415, 422, 499}) {
    CAPTURE(status);
    CHECK(stored.contains(status));
  }
  for (const int status :
       {0, 99, 100, 199, 401, 403, 407, 408, 409, 421, 423, 425, 429, 500, 503, 599, 600, -1}) {
    CAPTURE(status);
    CHECK_FALSE(stored.contains(status));
  }
}

TEST_CASE("status patterns add and take away in order, and wrong ones are named") {
  const auto stored = StatusSet::parse({"4xx", "!404", "!4xx", "410", "599"});
  REQUIRE(stored);
  CHECK(stored->contains(410));
  CHECK(stored->contains(599));
  CHECK_FALSE(stored->contains(404));
  CHECK_FALSE(stored->contains(400));
  for (const char* wrong : {"", "!", "2x", "20x", "2XX", "600", "099", "200 ", "!!200", "xxx"}) {
    CAPTURE(wrong);
    const auto parsed = StatusSet::parse({"2xx", wrong});
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().message.find("\"" + std::string{wrong} + "\"") == 0);
  }
}

TEST_CASE("a key belongs to its endpoint, unless the policy says otherwise") {
  CHECK(endpoint_namespace({}, "POST", "/a") == "POST /a");
  CHECK(endpoint_namespace(*preset("stripe"), "POST", "/a").empty());
  CHECK(Policy{}.applies_to("PATCH"));
  CHECK_FALSE(Policy{}.applies_to("GET"));
  CHECK_FALSE(Policy{}.applies_to("post"));
}

}  // namespace semel::idempotency
