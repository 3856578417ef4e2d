#include "idempotency/policy.hpp"

#include "base/assert.hpp"

#include <algorithm>

namespace semel::idempotency {

namespace {

StatusSet statuses(const std::vector<std::string>& patterns) {
  auto parsed = StatusSet::parse(patterns);
  SEMEL_ASSERT(parsed.has_value());
  return *parsed;
}

const StatusSet& every_status() {
  static const StatusSet all = statuses({"1xx", "2xx", "3xx", "4xx", "5xx"});
  return all;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

base::Result<StatusSet> StatusSet::parse(const std::vector<std::string>& patterns) {
  StatusSet parsed;
  for (const std::string& pattern : patterns) {
    const bool is_added = !pattern.starts_with('!');
    const std::string_view digits = std::string_view{pattern}.substr(is_added ? 0 : 1);
    const bool is_class = digits.size() == 3 && digits.substr(1) == "xx";
    const bool is_known = digits.size() == 3 && digits[0] >= '1' && digits[0] <= '5' &&
                          (is_class || (is_digit(digits[1]) && is_digit(digits[2])));
    if (!is_known) {
      return base::Fault{base::Errc::refused, "\"" + pattern +
                                                  "\" is no status pattern: they read 2xx, 404, "
                                                  "!4xx or !409"};
    }
    const auto hundreds = static_cast<std::size_t>(digits[0] - '0') * 100;
    if (is_class) {
      for (std::size_t status = hundreds; status < hundreds + 100; ++status)
        parsed.set_[status] = is_added;
    } else {
      parsed.set_[hundreds + static_cast<std::size_t>(digits[1] - '0') * 10 +
                  static_cast<std::size_t>(digits[2] - '0')] = is_added;
    }
  }
  return parsed;
}

StatusSet Policy::default_stored() {
  static const StatusSet stored = statuses({"2xx", "3xx", "4xx", "!401", "!403", "!407", "!408",
                                            "!409", "!421", "!423", "!425", "!429"});
  return stored;
}

bool Policy::applies_to(std::string_view method) const {
  return std::ranges::find(methods, method) != methods.end();
}

std::optional<Policy> preset(std::string_view name) {
  Policy policy;
  if (name == "default") return policy;
  if (name == "ietf") {
    policy.mismatch_status = 422;
    policy.in_flight = InFlight::reject;
    return policy;
  }
  if (name == "beignet") {
    policy.in_flight = InFlight::reject;
    policy.stored = statuses({"2xx"});
    policy.compared.method = false;
    policy.compared.media_type = false;
    return policy;
  }
  if (name == "codecourier") {
    policy.wait_default = policy.wait_max;
    policy.stored = every_status();
    policy.scope = Scope::tenant;
    policy.compared = {.query = false, .media_type = false, .body = BodyComparison::raw};
    return policy;
  }
  if (name == "stripe") {
    policy.methods = {"POST"};
    policy.mismatch_status = 400;
    policy.in_flight = InFlight::reject;
    policy.stored = statuses({"1xx", "2xx", "3xx", "4xx", "5xx", "!401", "!429"});
    policy.scope = Scope::tenant;
    // Method and path are compared, not looked up: a key used on another endpoint is a mismatch.
    policy.per_endpoint = false;
    policy.compared.media_type = false;
    return policy;
  }
  return std::nullopt;
}

std::optional<Policy> proxy_preset(std::string_view name) {
  auto policy = preset(name);
  const bool may_run_again = name == "beignet" || name == "codecourier";
  if (policy && !may_run_again) policy->on_abandoned = store::OnAbandoned::unknown;
  return policy;
}

std::string endpoint_namespace(const Policy& policy, std::string_view method,
                               std::string_view path) {
  if (!policy.per_endpoint) return {};
  std::string ns{method};
  ns += ' ';
  ns += path;
  return ns;
}

}  // namespace semel::idempotency
