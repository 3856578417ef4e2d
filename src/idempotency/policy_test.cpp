#include "idempotency/policy.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

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

// ------------------------------------------------------------------------------------------------ the page

namespace {

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// By classes, with what is missing in them: "2xx, 4xx but 401 403". No server of ours answers 1xx.
std::string in_words(const StatusSet& stored) {
  std::vector<std::string> classes;
  for (int hundreds = 200; hundreds < 600; hundreds += 100) {
    std::string missing;
    int count = 0;
    for (int status = hundreds; status < hundreds + 100; ++status) {
      if (stored.contains(status)) continue;
      missing += " " + std::to_string(status);
      ++count;
    }
    if (count == 100) continue;
    classes.push_back(std::to_string(hundreds / 100) + "xx" + (count > 0 ? " but" + missing : ""));
  }
  return listed(classes);
}

std::string in_words(const Compared& compared) {
  std::vector<std::string> parts;
  if (compared.method) parts.emplace_back("method");
  if (compared.path) parts.emplace_back("path");
  if (compared.query) parts.emplace_back("query");
  if (compared.media_type) parts.emplace_back("media type");
  if (compared.body == BodyComparison::json) parts.emplace_back("body");
  if (compared.body == BodyComparison::raw) parts.emplace_back("bytes of the body");
  return listed(parts);
}

std::string in_words(Scope scope) {
  switch (scope) {
    case Scope::global:
      return "global";
    case Scope::actor:
      return "actor";
    case Scope::tenant:
      return "tenant";
    case Scope::actor_tenant:
      return "actor and tenant";
  }
  return "";
}

std::string in_words(store::OnAbandoned choice) {
  return choice == store::OnAbandoned::run ? "done again" : "unknown";
}

std::string seconds(Millis time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

std::string hours(Millis time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::hours>(time).count()) + " h";
}

std::string in_flight(const Policy& policy) {
  if (policy.in_flight == InFlight::reject) return "409 at once";
  return "waits " + seconds(policy.wait_default) + ", then 409";
}

}  // namespace

TEST_CASE("docs/policies.md has the presets as they are") {
  struct Row {
    std::string knob;
    std::string (*cell)(const Policy& server, const Policy& proxy);
  };

  const std::vector<Row> rows{
      {"another request under the same key",
       [](const Policy& p, const Policy&) { return std::to_string(p.mismatch_status); }},
      {"a duplicate while the first is at work",
       [](const Policy& p, const Policy&) { return in_flight(p); }},
      {"answers that are stored",
       [](const Policy& p, const Policy&) { return in_words(p.stored); }},
      {"what is compared", [](const Policy& p, const Policy&) { return in_words(p.compared); }},
      {"a key belongs to",
       [](const Policy& p, const Policy&) -> std::string {
         return p.per_endpoint ? "method and path" : "all endpoints";
       }},
      {"scope \\*", [](const Policy& p, const Policy&) { return in_words(p.scope); }},
      {"methods \\*", [](const Policy& p, const Policy&) { return listed(p.methods); }},
      {"lifetime, from completion \\*",
       [](const Policy& p, const Policy&) { return hours(p.lifetime); }},
      {"lease \\*", [](const Policy& p, const Policy&) { return seconds(p.lease); }},
      {"abandoned work, in a server",
       [](const Policy& p, const Policy&) { return in_words(p.on_abandoned); }},
      {"abandoned work, in a proxy",
       [](const Policy&, const Policy& proxy) { return in_words(proxy.on_abandoned); }},
  };
  std::ifstream in(SEMEL_SOURCE_DIR "/docs/policies.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};

  CHECK(page.find("| knob | `default` | `ietf` | `beignet` | `codecourier` | `stripe` |\n") !=
        std::string::npos);
  for (const Row& row : rows) {
    std::string line = "| " + row.knob + " |";
    for (const char* name : {"default", "ietf", "beignet", "codecourier", "stripe"})
      line += " " + row.cell(preset(name).value(), proxy_preset(name).value()) + " |";
    CHECK_MESSAGE(page.find(line + "\n") != std::string::npos, "the page lacks\n" << line);
  }
}

}  // namespace semel::idempotency
