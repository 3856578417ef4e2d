#include "http/router.hpp"

#include "http/characters.hpp"
#include "http/target.hpp"

#include <semel/error.hpp>

#include <algorithm>

namespace semel::http {

struct Router::Node {
  struct Method {
    std::string name;
    std::size_t endpoint = 0;
    std::vector<std::string> parameters;  ///< their names, first to last
  };

  std::map<std::string, std::unique_ptr<Node>, std::less<>> fixed;
  std::unique_ptr<Node> parameter;
  std::vector<Method> methods;

  /// The node of `path`, which begins with a slash; `values` gets what parameters matched.
  const Node* find(std::string_view path, std::vector<std::string_view>& values) const {
    if (path.empty()) return methods.empty() ? nullptr : this;
    path.remove_prefix(1);
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(part.size());
    if (const auto next = fixed.find(part); next != fixed.end()) {
      if (const Node* found = next->second->find(path, values)) return found;
    }
    if (parameter == nullptr || part.empty()) return nullptr;
    values.push_back(part);
    if (const Node* found = parameter->find(path, values)) return found;
    values.pop_back();
    return nullptr;
  }

  const Method* method(std::string_view name) const {
    const auto found = std::ranges::find(methods, name, &Method::name);
    return found == methods.end() ? nullptr : &*found;
  }

  std::string allow() const {
    std::vector<std::string> names{"OPTIONS"};
    for (const Method& each : methods) names.push_back(each.name);
    if (method("GET") != nullptr && method("HEAD") == nullptr) names.emplace_back("HEAD");
    std::ranges::sort(names);
    names.erase(std::ranges::unique(names).begin(), names.end());
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return list;
  }
};

Router::Router() : root_(std::make_unique<Node>()) {}

Router::~Router() = default;

void Router::add(std::string_view method, std::string_view path, std::size_t endpoint) {
  const auto refuse = [&](const char* why) {
    throw Error("VALIDATION_ERROR", "the path \"" + std::string(path) + "\" " + why);
  };
  if (!path.starts_with('/')) refuse("does not begin with /");
  Node* node = root_.get();
  Node::Method added{std::string(method), endpoint, {}};
  for (std::string_view rest = path; !rest.empty();) {
    rest.remove_prefix(1);
    const std::string_view part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(part.size());
    std::unique_ptr<Node>* next = nullptr;
    if (part.starts_with('{') && part.ends_with('}') && part.size() > 2) {
      std::string name{part.substr(1, part.size() - 2)};
      if (name.find_first_of("{}") != std::string::npos) refuse("has a parameter with a bad name");
      if (std::ranges::find(added.parameters, name) != added.parameters.end())
        refuse("names a parameter twice");
      added.parameters.push_back(std::move(name));
      next = &node->parameter;
    } else {
      if (part.find_first_of("{}?") != std::string_view::npos ||
          !std::ranges::all_of(part, is_target_character))
        refuse("has a part that is neither fixed nor a parameter");
      next = &node->fixed[std::string(part)];
    }
    if (*next == nullptr) *next = std::make_unique<Node>();
    node = next->get();
  }
  if (node->method(method) != nullptr) refuse("has a handler for this method already");
  node->methods.push_back(std::move(added));
}

std::variant<Router::Found, Router::NoRoute, Router::NoMethod, Router::BadPath> Router::find(
    std::string_view method, std::string_view path) const {
  std::vector<std::string_view> values;
  const Node* node = path.starts_with('/') ? root_->find(path, values) : nullptr;
  if (node == nullptr) return NoRoute{};
  const Node::Method* wanted = node->method(method);
  if (wanted == nullptr && method == "HEAD") wanted = node->method("GET");
  if (wanted == nullptr) return NoMethod{node->allow()};
  Found found{wanted->endpoint, {}};
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto decoded = percent_decoded(values[i]);
    if (!decoded) return BadPath{};
    found.parameters.emplace(wanted->parameters[i], std::move(*decoded));
  }
  return found;
}

}  // namespace semel::http
