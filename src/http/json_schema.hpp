// The shape of a type (semel/shape.hpp) as JSON Schema 2020-12, for those who read OpenAPI.
#pragma once

#include <semel/error.hpp>

#include <boost/json/object.hpp>

#include <string>
#include <string_view>

namespace semel::http {

/// Whether what nobody knows is refused, as in a request, or may come later, as in an answer.
enum class Strictness { closed, open };

/// The schema of `shape`. Structs go into `schemas` as "NAME", "NAME.1" and so on, and are referred to there by
/// `"#/components/schemas/…"`, or `place` instead.
Json schema_of(std::string_view shape, std::string_view name, Strictness strictness,
               boost::json::object& schemas, std::string_view place = "#/components/schemas/");

}  // namespace semel::http
