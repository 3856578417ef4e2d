// An HTTP request as it was sent, and an answer to one.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace semel::http {

/// ASCII only, as HTTP's names are.
constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

constexpr bool same_name(std::string_view left, std::string_view right) {
  return left.size() == right.size() &&
         std::equal(left.begin(), left.end(), right.begin(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

struct HeaderView {
  std::string_view name;  ///< as sent; compare with `same_name`
  std::string_view value;
};

/// A request; everything in it is a view of what was read and valid until the request is answered.
struct Request {
  std::string_view method;
  std::string_view target;          ///< as sent
  std::string_view path;            ///< of the target, not decoded; "*" for the whole server
  std::string_view query;           ///< of the target, without the question mark, not decoded
  std::string_view host;            ///< whom the client believes to talk to, with the port
  std::string_view peer;            ///< the client's address, without the port
  std::vector<HeaderView> headers;  ///< in the order sent
  std::string_view body;            ///< without its framing
  bool has_body = false;            ///< one was announced, be it empty

  /// The value of the first header of that name; nothing if there is none.
  std::optional<std::string_view> header(std::string_view name) const {
    for (const HeaderView& each : headers) {
      if (same_name(each.name, name)) return each.value;
    }
    return std::nullopt;
  }
};

struct Header {
  std::string name;
  std::string value;

  friend bool operator==(const Header&, const Header&) = default;
};

/// A whole answer. How it is framed (its length, whether the connection stays) and its date are not part of it.
struct Response {
  int status = 200;
  std::vector<Header> headers;
  std::string body;

  friend bool operator==(const Response&, const Response&) = default;
};

}  // namespace semel::http
