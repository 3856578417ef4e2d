#include "http/proxy_config.hpp"

#include "http/characters.hpp"
#include "http/duration_text.hpp"
#include "http/origin.hpp"

#include <semel/detail/http_message.hpp>
#include <semel/error.hpp>
#include <semel/value.hpp>

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

namespace semel::http {

namespace {

using std::chrono::nanoseconds;

/// A value of the file, and where it stands.
struct Setting {
  std::string pointer;
  const Json& value;

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error("VALIDATION_ERROR", (pointer.empty() ? "/" : pointer) + ": " + why);
  }

  std::string text() const {
    if (!value.is_string()) refuse("must be a text");
    return std::string(std::string_view(value.get_string()));
  }

  bool flag() const {
    if (!value.is_bool()) refuse("must be true or false");
    return value.get_bool();
  }

  std::size_t number(std::int64_t from, std::int64_t to) const {
    const std::int64_t* number = value.if_int64();
    if (number == nullptr || *number < from || *number > to) {
      refuse("must be a whole number from " + std::to_string(from) + " to " + std::to_string(to));
    }
    return static_cast<std::size_t>(*number);
  }

  nanoseconds duration(nanoseconds at_least) const {
    const auto duration = read_duration(text());
    if (!duration) refuse(R"(is no duration: they read "500ms", "30s", "24h" or "30d")");
    if (*duration < at_least) refuse("is too short");
    return *duration;
  }

  std::vector<std::string> texts() const {
    if (!value.is_array()) refuse("must be a list of texts");
    std::vector<std::string> texts;
    texts.reserve(value.get_array().size());
    for (std::size_t i = 0; i < value.get_array().size(); ++i) {
      texts.push_back(Setting{pointer + "/" + std::to_string(i), value.get_array()[i]}.text());
    }
    return texts;
  }

  /// One of the names, as its number.
  template <class T, std::size_t N>
  T one_of(const std::array<std::pair<std::string_view, T>, N>& names) const {
    const std::string name = text();
    std::string all;
    for (const auto& [known, meaning] : names) {
      if (known == name) return meaning;
      all += (all.empty() ? "" : ", ") + std::string(known);
    }
    refuse("must be one of " + all);
  }
};

constexpr std::int64_t bytes_max = std::int64_t{1} << 30U;
constexpr nanoseconds shortest = std::chrono::milliseconds{1};

/// What frames a message or belongs to a connection cannot also be a key or a tenant.
bool is_header_name(std::string_view name) {
  constexpr auto taken = std::to_array<std::string_view>(
      {"connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te",
       "trailer", "transfer-encoding", "upgrade"});
  return !name.empty() && std::ranges::all_of(name, is_token_character) &&
         std::ranges::none_of(taken, [&](std::string_view each) { return same_name(each, name); });
}

// ------------------------------------------------------------------------------------------------ the settings

void read_header(const Setting& setting, ProxyRules& rules) {
  rules.policy.header = setting.text();
  // Nor is a credential a key: it would be one for all that a caller asks for.
  constexpr auto taken = std::to_array<std::string_view>(
      {"authorization", "cookie", "content-type", "idempotency-replayed"});
  const bool is_taken = std::ranges::any_of(
      taken, [&](std::string_view each) { return same_name(each, rules.policy.header); });
  if (is_taken || !is_header_name(rules.policy.header))
    setting.refuse("is no header that can hold a key");
}

void read_methods(const Setting& setting, ProxyRules& rules) {
  constexpr auto writing = std::to_array<std::string_view>({"POST", "PATCH", "PUT", "DELETE"});
  rules.policy.methods = setting.texts();
  for (std::size_t i = 0; i < rules.policy.methods.size(); ++i) {
    if (std::ranges::find(writing, rules.policy.methods[i]) != writing.end()) continue;
    throw Error("VALIDATION_ERROR", setting.pointer + "/" + std::to_string(i) +
                                        ": must be one of POST, PATCH, PUT, DELETE");
  }
}

void read_required(const Setting& setting, ProxyRules& rules) {
  rules.policy.required = setting.flag();
}

void read_scope(const Setting& setting, ProxyRules& rules) {
  constexpr std::string_view by_header = "header:";
  const std::string scope = setting.text();
  if (scope == "authorization") {
    rules.scope = {};
  } else if (scope == "none") {
    rules.scope = {.kind = ProxyScope::Kind::none};
  } else if (scope.starts_with(by_header) && is_header_name(scope.substr(by_header.size()))) {
    rules.scope = {.kind = ProxyScope::Kind::header, .header = scope.substr(by_header.size())};
  } else {
    setting.refuse("must be authorization, none or header:NAME");
  }
}

void read_lifetime(const Setting& setting, ProxyRules& rules) {
  rules.policy.lifetime =
      std::chrono::duration_cast<Millis>(setting.duration(std::chrono::seconds{1}));
}

void read_lease(const Setting& setting, ProxyRules& rules) {
  rules.policy.lease =
      std::chrono::duration_cast<Millis>(setting.duration(std::chrono::seconds{1}));
}

void read_on_abandoned(const Setting& setting, ProxyRules& rules) {
  constexpr auto names = std::to_array<std::pair<std::string_view, store::OnAbandoned>>(
      {{"run", store::OnAbandoned::run}, {"unknown", store::OnAbandoned::unknown}});
  rules.policy.on_abandoned = setting.one_of(names);
}

void read_in_flight(const Setting& setting, ProxyRules& rules) {
  constexpr auto names = std::to_array<std::pair<std::string_view, idempotency::InFlight>>(
      {{"wait", idempotency::InFlight::wait}, {"reject", idempotency::InFlight::reject}});
  rules.policy.in_flight = setting.one_of(names);
}

void read_wait_default(const Setting& setting, ProxyRules& rules) {
  rules.policy.wait_default = std::chrono::duration_cast<Millis>(setting.duration({}));
}

void read_wait_max(const Setting& setting, ProxyRules& rules) {
  rules.policy.wait_max = std::chrono::duration_cast<Millis>(setting.duration({}));
}

void read_waiters(const Setting& setting, ProxyRules& rules) {
  rules.policy.waiters_max = setting.number(0, 1'000'000);
}

void read_mismatch_status(const Setting& setting, ProxyRules& rules) {
  rules.policy.mismatch_status = static_cast<int>(setting.number(400, 499));
}

void read_store(const Setting& setting, ProxyRules& rules) {
  const auto stored = idempotency::StatusSet::parse(setting.texts());
  if (!stored) setting.refuse(stored.error().message);
  rules.policy.stored = *stored;
}

void read_fingerprint(const Setting& setting, ProxyRules& rules) {
  using idempotency::BodyComparison;
  constexpr auto names =
      std::to_array<std::pair<std::string_view, BodyComparison>>({{"json", BodyComparison::json},
                                                                  {"raw", BodyComparison::raw},
                                                                  {"none", BodyComparison::none}});
  idempotency::Compared& compared = rules.policy.compared;
  const BodyComparison body = setting.one_of(names);
  if (body == BodyComparison::none) {
    compared = idempotency::Compared::nothing();
  } else if (compared.body == BodyComparison::none) {
    compared = {.body = body};
  } else {
    compared.body = body;
  }
}

void read_ignore_query(const Setting& setting, ProxyRules& rules) {
  rules.policy.compared.query = !setting.flag();
}

void read_max_body(const Setting& setting, ProxyRules& rules) {
  rules.body_bytes_max = setting.number(1, bytes_max);
}

void read_max_answer(const Setting& setting, ProxyRules& rules) {
  rules.policy.answer_bytes_max = setting.number(1, bytes_max);
}

void read_upstream_timeout(const Setting& setting, ProxyRules& rules) {
  rules.upstream_timeout = setting.duration(shortest);
}

void read_auth_check(const Setting& setting, ProxyRules& rules) {
  rules.auth_check = setting.text();
  try {
    if (read_origin(rules.auth_check).is_tls) setting.refuse("https is not spoken here: use http");
  } catch (const Error& error) {
    setting.refuse(error.what());
  }
}

struct Name {
  std::string_view name;
  void (*read)(const Setting&, ProxyRules&);
};

constexpr auto names = std::to_array<Name>({{"header", read_header},
                                            {"methods", read_methods},
                                            {"required", read_required},
                                            {"scope", read_scope},
                                            {"lifetime", read_lifetime},
                                            {"lease", read_lease},
                                            {"onAbandoned", read_on_abandoned},
                                            {"inFlight", read_in_flight},
                                            {"waitDefault", read_wait_default},
                                            {"waitMax", read_wait_max},
                                            {"waiters", read_waiters},
                                            {"mismatchStatus", read_mismatch_status},
                                            {"store", read_store},
                                            {"fingerprint", read_fingerprint},
                                            {"ignoreQuery", read_ignore_query},
                                            {"maxBody", read_max_body},
                                            {"maxAnswer", read_max_answer},
                                            {"upstreamTimeout", read_upstream_timeout},
                                            {"authCheck", read_auth_check}});

std::string escaped(std::string_view name) {
  std::string pointer;
  for (const char c : name) {
    if (c == '~') {
      pointer += "~0";
    } else if (c == '/') {
      pointer += "~1";
    } else {
      pointer += c;
    }
  }
  return pointer;
}

using Others = std::function<bool(std::string_view name, const Setting& setting)>;

/// Reads all members of an object; `others` takes those that are not for every request, and says whether it knew them.
void read_object(const Setting& object, ProxyRules& rules, const Others& others) {
  if (!object.value.is_object()) object.refuse("must be an object");
  // In the order of `names`, whatever that of the file: a setting may build on an earlier one.
  for (const Name& each : names) {
    if (const Json* value = object.value.get_object().if_contains(each.name))
      each.read({object.pointer + "/" + std::string(each.name), *value}, rules);
  }
  for (const auto& member : object.value.get_object()) {
    const Setting setting{object.pointer + "/" + escaped(member.key()), member.value()};
    if (std::ranges::find(names, std::string_view(member.key()), &Name::name) == names.end() &&
        !others(member.key(), setting))
      setting.refuse("there is no such setting");
  }
  if (rules.policy.wait_default > rules.policy.wait_max) {
    const bool is_max = object.value.get_object().contains("waitMax");
    throw Error("VALIDATION_ERROR", object.pointer + (is_max ? "/waitMax" : "/waitDefault") +
                                        ": waitDefault is longer than waitMax");
  }
}

ProxyRoute read_route(const Setting& setting, const ProxyRules& rules) {
  ProxyRoute route{.path = {}, .rules = rules};
  read_object(setting, route.rules, [&](std::string_view name, const Setting& member) {
    if (name == "headerTimeout" || name == "idleTimeout" || name == "routes")
      member.refuse("holds for all requests and cannot be set for a route");
    if (name != "path") return false;
    route.path = member.text();
    if (!route.path.starts_with('/')) member.refuse("must begin with a slash");
    return true;
  });
  if (route.path.empty()) setting.refuse("has no path");
  return route;
}

Json parsed(std::string_view text) {
  value::Reader reader{text, value::Mode::boundary};
  Json json;
  if (!reader.json(json) || !reader.finish()) {
    const value::Misfit misfit = reader.misfit();
    throw Error("VALIDATION_ERROR",
                (misfit.path.empty() ? "/" : misfit.path) + ": " + misfit.message);
  }
  return json;
}

/// Follows all ways a glob can be read at once: a path is anybody's, and trying one way after the other could take for ever.
bool glob_matches(std::string_view pattern, std::string_view path) {
  std::vector<bool> reached(path.size() +
                            1);  ///< how far into the path the pattern so far may reach
  reached[0] = true;
  while (!pattern.empty()) {
    const char first = pattern.front();
    const bool crosses = pattern.starts_with("**");
    pattern.remove_prefix(crosses ? 2 : 1);
    std::vector<bool> next(path.size() + 1);
    if (first == '*') next[0] = reached[0];
    for (std::size_t i = 0; i < path.size(); ++i) {
      next[i + 1] = first == '*' ? reached[i + 1] || (next[i] && (crosses || path[i] != '/'))
                                 : reached[i] && path[i] == first;
    }
    reached.swap(next);
  }
  return reached.back();
}

}  // namespace

bool path_matches(std::string_view pattern, std::string_view path) {
  if (pattern.find('*') != std::string_view::npos) return glob_matches(pattern, path);
  if (!path.starts_with(pattern)) return false;
  return pattern.ends_with('/') || path.size() == pattern.size() || path[pattern.size()] == '/';
}

const ProxyRules& ProxyConfig::rules_for(std::string_view path) const {
  for (const ProxyRoute& route : routes) {
    if (path_matches(route.path, path)) return route.rules;
  }
  return rules;
}

ProxyConfig read_proxy_config(std::string_view preset, std::string_view json) {
  auto policy = idempotency::proxy_preset(preset);
  if (!policy) {
    throw Error("VALIDATION_ERROR", "there is no preset \"" + std::string(preset) +
                                        "\": default, ietf, beignet, codecourier, stripe");
  }
  ProxyConfig config;
  config.rules.policy = *std::move(policy);
  const Json file = parsed(json);
  const Json* routes = nullptr;
  read_object({"", file}, config.rules, [&](std::string_view name, const Setting& setting) {
    if (name == "routes") {
      if (!setting.value.is_array()) setting.refuse("must be a list of routes");
      routes = &setting.value;
    } else if (name == "headerTimeout") {
      config.header_timeout = setting.duration(shortest);
    } else if (name == "idleTimeout") {
      config.idle_timeout = setting.duration(shortest);
    } else {
      return false;
    }
    return true;
  });
  if (routes != nullptr) {
    for (std::size_t i = 0; i < routes->get_array().size(); ++i) {
      const Setting setting{"/routes/" + std::to_string(i), routes->get_array()[i]};
      ProxyRoute route = read_route(setting, config.rules);
      if (std::ranges::find(config.routes, route.path, &ProxyRoute::path) != config.routes.end())
        setting.refuse("there is one with this path already");
      config.routes.push_back(std::move(route));
    }
  }
  return config;
}

}  // namespace semel::http
