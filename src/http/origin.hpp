// Where a server is.
#pragma once

#include <string>
#include <string_view>

namespace semel::http {

/// A server, as a URL names it.
struct Origin {
  bool is_tls = false;
  std::string host;  ///< without brackets
  std::string port;
  std::string authority;  ///< for the Host header
  std::string base;       ///< of all paths; no slash at its end
};

/// Throws Error, VALIDATION_ERROR, for what is not "http[s]://host[:port][/base]".
Origin read_origin(std::string_view url);

}  // namespace semel::http
