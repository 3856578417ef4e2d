// The file of settings of a proxy: it is refused with the place of what is wrong, or it is a configuration whose values make
// sense, for any path that is asked.
#include "http/proxy_config.hpp"
#include "tests/fuzz/require.hpp"

#include <semel/error.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace {

using namespace semel::http;
using semel::fuzz::require;

void check(const ProxyRules& rules) {
  require(rules.upstream_timeout.count() > 0);
  require(rules.policy.lease.count() > 0);
  require(rules.policy.lifetime.count() > 0);
  require(rules.scope.kind != ProxyScope::Kind::header || !rules.scope.header.empty());
}

std::optional<ProxyConfig> read(std::string_view preset, std::string_view json) {
  try {
    return read_proxy_config(preset, json);
  } catch (const semel::Error& error) {
    require(error.code() == "VALIDATION_ERROR");
    require(std::string_view(error.what()).starts_with('/'));
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view json{reinterpret_cast<const char*>(data), size};
  const auto config = read("default", json);

  // What is a configuration is one on top of any preset.
  require(read("stripe", json).has_value() == config.has_value());
  if (!config) return 0;
  check(config->rules);
  require(config->header_timeout.count() > 0 && config->idle_timeout.count() > 0);
  for (const ProxyRoute& route : config->routes) {
    check(route.rules);
    check(config->rules_for(route.path));
    check(config->rules_for(route.path + "/below"));
  }
  return 0;
}
