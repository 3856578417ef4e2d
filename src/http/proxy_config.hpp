// What `semel proxy` is told: a preset, and a file of settings on top of it.
//
//   {"lifetime": "7d", "routes": [{"path": "/payments", "required": true}, {"path": "/files/*/parts", "methods": ["PUT"]}]}
#pragma once

#include "idempotency/policy.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace semel::http {

/// Whose a key is. A proxy does not know who asks: it goes by what callers send along.
struct ProxyScope {
  enum class Kind : std::uint8_t {
    authorization,  ///< whoever has the same Authorization; who has none is nobody in particular
    header,         ///< whoever sends the same value of a header, which has to be there
    none,           ///< everybody's
  };

  Kind kind = Kind::authorization;
  std::string header{};

  bool operator==(const ProxyScope&) const = default;
};

/// What holds for a request.
struct ProxyRules {
  idempotency::Policy policy{};  ///< but for its scope
  ProxyScope scope{};
  std::size_t body_bytes_max = std::size_t{1} << 20U;                    ///< of a keyed request
  std::chrono::nanoseconds upstream_timeout = std::chrono::seconds{60};  ///< without any byte
  std::string auth_check{};  ///< a URL that says whether the caller may; empty: nobody is asked
};

struct ProxyRoute {
  std::string path;  ///< a prefix or a glob, see `path_matches`
  ProxyRules rules;
};

struct ProxyConfig {
  ProxyRules rules;
  std::vector<ProxyRoute> routes;
  std::chrono::nanoseconds header_timeout = std::chrono::seconds{10};
  std::chrono::nanoseconds idle_timeout = std::chrono::seconds{60};

  /// Those of the first route that matches, else those for all.
  const ProxyRules& rules_for(std::string_view path) const;
};

/// A pattern without `*` matches itself and what is below it: "/a" matches "/a" and "/a/b", not "/ab"; "/a/" all below.
/// With `*` it matches whole paths: `*` is any part of one segment, `**` also more than one.
bool path_matches(std::string_view pattern, std::string_view path);

/// `json`: the text of the file, an object; settings that are not in it are the preset's. Throws Error, VALIDATION_ERROR,
/// for a preset or a setting that does not exist and for values that make no sense, with their JSON pointer.
ProxyConfig read_proxy_config(std::string_view preset, std::string_view json = "{}");

}  // namespace semel::http
