// Checks a text against the shape of a type (semel/shape.hpp): accepts what decoding it as that type at a boundary would.
#pragma once

#include <semel/value.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace semel::base {

struct Shape;

/// Remembers the shapes it was asked about. One thread at a time.
class ShapeChecker {
 public:
  ShapeChecker();
  ~ShapeChecker();
  ShapeChecker(const ShapeChecker&) = delete;
  ShapeChecker& operator=(const ShapeChecker&) = delete;

  /// What is wrong with `json`; nothing if it fits, or if `shape` is empty. A shape that cannot be read (a newer program
  /// wrote it) lets everything pass: what does not fit is then found where it is used.
  std::optional<value::Misfit> check(const std::string& shape, std::string_view json);

 private:
  std::map<std::string, std::unique_ptr<const Shape>, std::less<>> known_;
};

}  // namespace semel::base
