#include "http/json_schema.hpp"

#include <semel/value.hpp>

#include <boost/json.hpp>

#include <limits>

namespace semel::http {

namespace {

namespace json = boost::json;

class SchemaWriter {
 public:
  SchemaWriter(std::string_view name, Strictness strictness, std::string_view place)
      : name_(name), strictness_(strictness), place_(place) {}

  std::string name_of(std::int64_t number) const {
    return number == 0 ? name_ : name_ + "." + std::to_string(number);
  }

  json::object struct_schema(const json::array& members) const {
    json::object properties;
    json::array required;
    for (const Json& each : members) {
      const json::array& member = each.as_array();
      const json::string& name = member.at(0).as_string();
      properties[name] = schema(member.at(2).as_object());
      if (member.at(1).as_bool()) required.push_back(name);
    }
    json::object object{{"type", "object"}, {"properties", std::move(properties)}};
    if (!required.empty()) object["required"] = std::move(required);
    if (strictness_ == Strictness::closed) object["additionalProperties"] = false;
    return object;
  }

  json::object schema(const json::object& shape) const {
    const std::string_view is = shape.at("is").as_string();
    if (is == "bool") return {{"type", "boolean"}};
    if (is == "integer" || is == "unsigned") return integer(shape, is == "integer");
    if (is == "number") return {{"type", "number"}, {"format", "double"}};
    if (is == "float") return {{"type", "number"}, {"format", "float"}};
    if (is == "string") return {{"type", "string"}};
    if (is == "bytes") return {{"type", "string"}, {"contentEncoding", "base64"}};
    if (is == "null") return {{"type", "null"}};
    if (is == "time") return {{"type", "string"}, {"format", "date-time"}};
    if (is == "enum") return {{"type", "string"}, {"enum", shape.at("names")}};
    if (is == "type") return reference(shape.at("number").as_int64());
    if (is == "optional" || is == "variant") return alternatives(shape, is == "optional");
    if (is == "tuple") return tuple(shape.at("of").as_array());
    if (is == "map")
      return {{"type", "object"}, {"additionalProperties", schema(shape.at("of").as_object())}};
    if (is == "pairs") return {{"type", "array"}, {"items", tuple(shape.at("of").as_array())}};
    if (is == "array" || is == "set") return array(shape, is == "set");
    return {};  // anything
  }

 private:
  json::object reference(std::int64_t number) const { return {{"$ref", place_ + name_of(number)}}; }

  static json::object integer(const json::object& shape, bool is_signed) {
    const std::int64_t bits = shape.at("bits").as_int64();
    json::object schema{{"type", "integer"}};
    if (bits == 64) {
      schema["format"] = is_signed ? "int64" : "uint64";
      if (!is_signed) schema["minimum"] = 0;
      return schema;
    }
    const std::int64_t values = std::int64_t{1} << bits;
    schema["minimum"] = is_signed ? -(values / 2) : 0;
    schema["maximum"] = is_signed ? values / 2 - 1 : values - 1;
    return schema;
  }

  json::object alternatives(const json::object& shape, bool is_optional) const {
    json::array any;
    if (is_optional) {
      any.emplace_back(schema(shape.at("of").as_object()));
      any.emplace_back(json::object{{"type", "null"}});
      if (!shape.at("tagged").as_bool()) return {{"anyOf", std::move(any)}};
    } else {
      for (const Json& each : shape.at("of").as_array()) any.emplace_back(schema(each.as_object()));
    }
    // Where one alternative could be taken for another its place is said (semel/value.hpp).
    any.emplace_back(json::object{
        {"type", "object"},
        {"properties", {{"$alternative", {{"type", "integer"}}}, {"value", json::object{}}}},
        {"required", {"$alternative", "value"}}});
    return {{"anyOf", std::move(any)}};
  }

  json::object tuple(const json::array& of) const {
    json::array items;
    for (const Json& each : of) items.emplace_back(schema(each.as_object()));
    return {{"type", "array"},
            {"prefixItems", std::move(items)},
            {"items", false},
            {"minItems", of.size()}};
  }

  json::object array(const json::object& shape, bool is_set) const {
    json::object schema_of_array{{"type", "array"}, {"items", schema(shape.at("of").as_object())}};
    if (is_set) schema_of_array["uniqueItems"] = true;
    if (const Json* length = shape.if_contains("length")) {
      schema_of_array["minItems"] = *length;
      schema_of_array["maxItems"] = *length;
    }
    return schema_of_array;
  }

  std::string name_;
  Strictness strictness_;
  std::string place_;
};

}  // namespace

Json schema_of(std::string_view shape, std::string_view name, Strictness strictness,
               json::object& schemas, std::string_view place) {
  const Json parsed = value::from_text(shape);
  const SchemaWriter writer{name, strictness, place};
  if (const Json* types = parsed.as_object().if_contains("types")) {
    std::int64_t number = 0;
    for (const Json& type : types->as_array())
      schemas[writer.name_of(number++)] = writer.struct_schema(type.as_array());
  }
  return writer.schema(parsed.at("shape").as_object());
}

}  // namespace semel::http
