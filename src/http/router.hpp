// Which endpoint a method and a path belong to.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace semel::http {

/// Templates are matched part by part, a fixed part before a parameter. Fixed parts are compared as sent; what a
/// parameter matched is decoded once and never empty.
class Router {
 public:
  Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;
  ~Router();

  /// `path` is "/orders/{order}". Throws Error, VALIDATION_ERROR, where it is not a template or is there already.
  void add(std::string_view method, std::string_view path, std::size_t endpoint);

  struct Found {
    std::size_t endpoint = 0;
    std::map<std::string, std::string> parameters;
  };

  struct NoRoute {};

  /// The path is known, the method is not its. `allow` is the header's value.
  struct NoMethod {
    std::string allow;
  };

  /// A parameter that cannot be decoded.
  struct BadPath {};

  /// HEAD is served by GET's endpoint where it has none of its own.
  std::variant<Found, NoRoute, NoMethod, BadPath> find(std::string_view method,
                                                       std::string_view path) const;

 private:
  struct Node;
  std::unique_ptr<Node> root_;
};

}  // namespace semel::http
