#include "http/origin.hpp"

#include "http/characters.hpp"

#include <semel/detail/http_message.hpp>
#include <semel/error.hpp>

#include <algorithm>

namespace semel::http {

Origin read_origin(std::string_view url) {
  const auto refuse = [] {
    throw Error("VALIDATION_ERROR", "a server's URL is http[s]://host[:port][/base]");
  };
  Origin origin;
  const std::size_t scheme = std::min(url.find("://"), url.size());
  origin.is_tls = same_name(url.substr(0, scheme), "https");
  if (!origin.is_tls && !same_name(url.substr(0, scheme), "http")) refuse();
  std::string_view rest = url.substr(std::min(scheme + 3, url.size()));
  if (rest.find_first_of("?#@ ") != std::string_view::npos) refuse();

  const std::string_view authority = rest.substr(0, rest.find('/'));
  rest.remove_prefix(authority.size());
  while (rest.ends_with('/')) rest.remove_suffix(1);
  origin.base = rest;
  origin.authority = authority;
  const std::size_t bracket = authority.find(']');
  const std::size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  std::string_view host = authority.substr(0, colon);
  origin.port = origin.is_tls ? "443" : "80";
  if (colon != std::string_view::npos) origin.port = authority.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  origin.host = host;
  const bool is_port =
      !origin.port.empty() && origin.port.size() <= 5 && std::ranges::all_of(origin.port, is_digit);
  if (origin.host.empty() || !is_port) refuse();
  return origin;
}

}  // namespace semel::http
