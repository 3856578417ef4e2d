#include "base/shape.hpp"

#include <boost/json.hpp>

#include <set>
#include <vector>

namespace semel::base {

namespace {

namespace json = boost::json;
using value::Reader;

/// Programs use few types; a limit only keeps tokens made up per request from filling the memory.
constexpr std::size_t shapes_max = 1024;

enum class Kind {
  boolean,
  integer,
  unsigned_integer,
  number,
  single,
  string,
  bytes,
  any,
  null,
  time,
  enumeration,
  optional,
  variant,
  tuple,
  array,
  map,
  pairs,
  set,
  type,
};

const std::map<std::string_view, Kind>& kinds() {
  static const std::map<std::string_view, Kind> known{
      {"bool", Kind::boolean},    {"integer", Kind::integer},  {"unsigned", Kind::unsigned_integer},
      {"number", Kind::number},   {"float", Kind::single},     {"string", Kind::string},
      {"bytes", Kind::bytes},     {"any", Kind::any},          {"null", Kind::null},
      {"time", Kind::time},       {"enum", Kind::enumeration}, {"optional", Kind::optional},
      {"variant", Kind::variant}, {"tuple", Kind::tuple},      {"array", Kind::array},
      {"map", Kind::map},         {"pairs", Kind::pairs},      {"set", Kind::set},
      {"type", Kind::type}};
  return known;
}

struct Node {
  Kind kind = Kind::any;
  int bits = 64;
  bool tagged = false;
  std::optional<std::size_t> length;
  std::size_t number = 0;  ///< of a struct
  std::vector<std::string> names;
  std::vector<Node> of;
};

struct Member {
  std::string name;
  bool is_required = true;
  Node node;
};

}  // namespace

struct Shape {
  Node root;
  std::vector<std::vector<Member>> types;
};

namespace {

// ------------------------------------------------------------------------------------------------ reading a shape

Node node_of(const Json& text) {
  const json::object& object = text.as_object();
  Node node;
  node.kind = kinds().at(std::string_view{object.at("is").as_string()});
  if (const auto* bits = object.if_contains("bits")) node.bits = static_cast<int>(bits->as_int64());
  if (const auto* tagged = object.if_contains("tagged")) node.tagged = tagged->as_bool();
  if (const auto* length = object.if_contains("length"))
    node.length = static_cast<std::size_t>(length->as_int64());
  if (const auto* number = object.if_contains("number"))
    node.number = static_cast<std::size_t>(number->as_int64());
  if (const auto* names = object.if_contains("names")) {
    for (const Json& name : names->as_array()) node.names.emplace_back(name.as_string());
  }
  if (const auto* of = object.if_contains("of")) {
    if (of->is_array()) {
      for (const Json& each : of->as_array()) node.of.push_back(node_of(each));
    } else {
      node.of.push_back(node_of(*of));
    }
  }
  return node;
}

std::vector<Member> members_of(const Json& text) {
  std::vector<Member> members;
  for (const Json& each : text.as_array()) {
    const json::array& member = each.as_array();
    members.push_back(
        {std::string(member.at(0).as_string()), member.at(1).as_bool(), node_of(member.at(2))});
  }
  return members;
}

std::unique_ptr<const Shape> read_shape(const std::string& text) {
  try {
    const Json parsed = value::from_text(text);
    const json::object& object = parsed.as_object();
    auto shape = std::make_unique<Shape>();
    if (const auto* types = object.if_contains("types")) {
      for (const Json& type : types->as_array()) shape->types.push_back(members_of(type));
    }
    shape->root = node_of(object.at("shape"));
    return shape;
  } catch (const std::exception&) {
    return nullptr;
  }
}

// ------------------------------------------------------------------------------------------------ checking

class Check {
 public:
  Check(const Shape& shape, Reader& reader) : shape_(shape), reader_(reader) {}

  bool fits(const Node& node) {
    switch (node.kind) {
      case Kind::boolean: {
        bool out = false;
        return reader_.boolean(out);
      }
      case Kind::integer: {
        std::int64_t out = 0;
        return reader_.integer(out, node.bits);
      }
      case Kind::unsigned_integer: {
        std::uint64_t out = 0;
        return reader_.integer(out, node.bits);
      }
      case Kind::number: {
        double out = 0;
        return reader_.number(out);
      }
      case Kind::single: {
        float out = 0;
        return reader_.number(out);
      }
      case Kind::string: {
        std::string_view out;
        return reader_.string_view(out);
      }
      case Kind::bytes: {
        Bytes out;
        return reader_.bytes(out);
      }
      case Kind::any: {
        Json out;
        return reader_.json(out);
      }
      case Kind::null:
        return reader_.null();
      case Kind::time: {
        TimePoint out;
        return value::detail::Codec<TimePoint>::read(reader_, out);
      }
      case Kind::enumeration: {
        std::string_view name;
        if (!reader_.string_view(name)) return false;
        return std::ranges::find(node.names, name) != node.names.end() ||
               value::detail::fail_unknown(reader_, name);
      }
      case Kind::optional:
        return fits_optional(node);
      case Kind::variant:
        return fits_variant(node);
      case Kind::tuple:
        return fits_tuple(node);
      case Kind::array:
        return node.length ? fits_fixed(node) : fits_elements(node, false);
      case Kind::set:
        return fits_elements(node, true);
      case Kind::map:
        return fits_map(node);
      case Kind::pairs:
        return fits_pairs(node);
      case Kind::type:
        return fits_struct(shape_.types.at(node.number));
    }
    return false;
  }

 private:
  bool fits_tagged(const Node& node) {
    return fits(node) ? reader_.leave_alternative() : reader_.in_member("value");
  }

  bool fits_optional(const Node& node) {
    if (node.tagged) {
      if (const auto index = reader_.enter_alternative()) {
        return *index == 1 ? fits_tagged(node.of.front())
                           : value::detail::fail_alternative(reader_, *index);
      }
    }
    if (reader_.is_null()) return reader_.null();
    return fits(node.of.front());
  }

  bool fits_variant(const Node& node) {
    if (const auto index = reader_.enter_alternative()) {
      return *index < node.of.size() ? fits_tagged(node.of[*index])
                                     : value::detail::fail_alternative(reader_, *index);
    }
    const Reader::Mark start = reader_.mark();
    value::detail::Failure best;
    for (const Node& alternative : node.of) {
      if (fits(alternative)) return true;
      if (!reader_.back_to(start, best)) return false;
    }
    return reader_.give_up(start, std::move(best));
  }

  bool fits_tuple(const Node& node) {
    if (!reader_.enter_array()) return false;
    for (std::size_t i = 0; i < node.of.size(); ++i) {
      if (!fits_element(node.of[i], i, node.of.size())) return false;
    }
    return value::detail::read_end(reader_, node.of.size());
  }

  bool fits_fixed(const Node& node) {
    if (!reader_.enter_array()) return false;
    for (std::size_t i = 0; i < *node.length; ++i) {
      if (!fits_element(node.of.front(), i, *node.length)) return false;
    }
    return value::detail::read_end(reader_, *node.length);
  }

  bool fits_element(const Node& node, std::size_t index, std::size_t length) {
    if (!reader_.next_element(index))
      return reader_.ok() && value::detail::fail_length(reader_, length);
    return fits(node) || reader_.in_element(index);
  }

  bool fits_elements(const Node& node, bool distinct) {
    if (!reader_.enter_array()) return false;
    std::set<std::string> seen;
    for (std::size_t index = 0; reader_.next_element(index); ++index) {
      const Reader::Mark start = reader_.mark();
      if (!fits(node.of.front())) return reader_.in_element(index);
      if (distinct && !seen.insert(text_since(start)).second)
        return reader_.fail("repeated") || reader_.in_element(index);
    }
    return reader_.ok();
  }

  bool fits_pairs(const Node& node) {
    if (!reader_.enter_array()) return false;
    std::set<std::string> seen;
    for (std::size_t index = 0; reader_.next_element(index); ++index) {
      std::string key;
      if (!fits_pair(node, key)) return reader_.in_element(index);
      if (!seen.insert(std::move(key)).second)
        return reader_.fail("repeated") || reader_.in_element(index);
    }
    return reader_.ok();
  }

  bool fits_pair(const Node& node, std::string& key) {
    if (!reader_.enter_array()) return false;
    if (!reader_.next_element(0)) return reader_.ok() && value::detail::fail_length(reader_, 2);
    const Reader::Mark start = reader_.mark();
    if (!fits(node.of[0])) return reader_.in_element(0);
    key = text_since(start);
    return fits_element(node.of[1], 1, 2) && value::detail::read_end(reader_, 2);
  }

  bool fits_map(const Node& node) {
    if (!reader_.enter_object()) return false;
    std::set<std::string, std::less<>> seen;
    std::string_view view;
    for (std::size_t index = 0; reader_.next_member(index, view); ++index) {
      const std::string name{view};
      if (!fits(node.of.front())) return reader_.in_member(name);
      if (!seen.insert(name).second)
        return reader_.fail("member repeated") || reader_.in_member(name);
    }
    return reader_.ok();
  }

  bool fits_struct(const std::vector<Member>& members) {
    if (!reader_.enter_object()) return false;
    std::vector<bool> seen(members.size());
    std::string_view name;
    for (std::size_t index = 0; reader_.next_member(index, name); ++index) {
      const auto found = std::ranges::find(members, name, &Member::name);
      if (found == members.end()) return reader_.fail_unexpected(name);
      const auto number = static_cast<std::size_t>(found - members.begin());
      if (seen[number]) return reader_.fail("member repeated") || reader_.in_member(found->name);
      seen[number] = true;
      if (!fits(found->node)) return reader_.in_member(found->name);
    }
    if (!reader_.ok()) return false;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i].is_required && !seen[i])
        return reader_.fail("required") || reader_.in_member(members[i].name);
    }
    return true;
  }

  /// In the one form that all texts of a value have.
  std::string text_since(const Reader::Mark& start) {
    const char* end = reader_.mark().at;
    return value::canonical({start.at, static_cast<std::size_t>(end - start.at)});
  }

  const Shape& shape_;
  Reader& reader_;
};

}  // namespace

ShapeChecker::ShapeChecker() = default;

ShapeChecker::~ShapeChecker() = default;

std::optional<value::Misfit> ShapeChecker::check(const std::string& shape, std::string_view json) {
  if (shape.empty()) return std::nullopt;
  auto known = known_.find(shape);
  if (known == known_.end()) {
    if (known_.size() == shapes_max) known_.clear();
    known = known_.emplace(shape, read_shape(shape)).first;
  }
  if (known->second == nullptr) return std::nullopt;
  Reader reader{json, value::Mode::boundary};
  if (Check{*known->second, reader}.fits(known->second->root) && reader.finish())
    return std::nullopt;
  return reader.misfit();
}

}  // namespace semel::base
