// The idempotency kernel for services in any language: reserve, complete, release, renew; look and forget.
#include "base/sha256.hpp"
#include "http/problem.hpp"
#include "idempotency/scope.hpp"
#include "serve/reservation_list.hpp"
#include "serve/route.hpp"
#include "serve/text.hpp"
#include "serve/view.hpp"
#include "serve/wire.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>

namespace semel::serve {

namespace {

namespace json = boost::json;

using Client = std::shared_ptr<http::Responder>;

constexpr std::size_t name_bytes_max = 255;

/// Members as `request_shape` has them: name, whether it must be there, of which kind.
struct Member {
  std::string_view name;
  bool is_required;
  std::string_view shape;
};

constexpr std::string_view text_shape = R"({"is":"string"})";
constexpr std::string_view map_shape = R"({"is":"map","of":{"is":"string"}})";
constexpr std::string_view any_shape = R"({"is":"any"})";

constexpr auto reserve_members = std::to_array<Member>({{"namespace", true, text_shape},
                                                        {"key", true, text_shape},
                                                        {"scope", false, map_shape},
                                                        {"fingerprint", false, text_shape},
                                                        {"ttl", false, text_shape},
                                                        {"lease", false, text_shape}});
constexpr auto complete_members = std::to_array<Member>({{"namespace", true, text_shape},
                                                         {"key", true, text_shape},
                                                         {"scope", false, map_shape},
                                                         {"fence", true, text_shape},
                                                         {"response", true, any_shape}});
constexpr auto release_members = std::to_array<Member>({{"namespace", true, text_shape},
                                                        {"key", true, text_shape},
                                                        {"scope", false, map_shape},
                                                        {"fence", true, text_shape}});
constexpr auto renew_members = std::to_array<Member>({{"namespace", true, text_shape},
                                                      {"key", true, text_shape},
                                                      {"scope", false, map_shape},
                                                      {"fence", true, text_shape},
                                                      {"lease", false, text_shape}});

/// "namespace" is a word of C++'s and no member's name there, so these bodies have no type; their shape is put together.
std::string shape_of(std::span<const Member> members) {
  std::string list;
  for (const Member& member : members) {
    list += std::string(list.empty() ? "" : ",") + "[\"" + std::string(member.name) + "\"," +
            (member.is_required ? "true," : "false,") + std::string(member.shape) + "]";
  }
  return R"({"types":[[)" + list + R"(]],"shape":{"is":"type","number":0}})";
}

void check_members(const Json& body, std::span<const Member> members) {
  if (!body.is_object()) throw ValidationError("", "expected an object");
  for (const auto& given : body.get_object()) {
    const auto known = std::ranges::find(members, std::string_view(given.key()), &Member::name);
    const std::string pointer = "/" + std::string(given.key());
    if (known == members.end()) throw ValidationError(pointer, "is not known");
    if (known->shape == text_shape && !given.value().is_string())
      throw ValidationError(pointer, "expected a string");
    if (known->shape == map_shape && !given.value().is_object())
      throw ValidationError(pointer, "expected an object of strings");
  }
  for (const Member& member : members) {
    if (member.is_required && !body.get_object().contains(member.name))
      throw ValidationError("/" + std::string(member.name), "is missing");
  }
}

std::string text_at(const Json& body, std::string_view name) {
  const Json* given = body.get_object().if_contains(name);
  return given == nullptr ? "" : std::string(given->as_string());
}

/// Namespaces of our own routes begin so: nobody else stores answers for them.
bool is_ours(std::string_view ns) {
  return ns.starts_with("POST /") || ns.starts_with("PUT /") || ns.starts_with("PATCH /");
}

store::ReservationId id_in(const std::string& workspace, const Json& body) {
  store::ReservationId id{.workspace = workspace,
                          .ns = text_at(body, "namespace"),
                          .scope = {},
                          .key = text_at(body, "key")};
  if (id.ns.empty() || id.ns.size() > name_bytes_max)
    throw ValidationError("/namespace", "expected 1 to 255 bytes");
  if (is_ours(id.ns)) throw ValidationError("/namespace", "is one of this server's own routes");
  if (id.key.empty() || id.key.size() > name_bytes_max)
    throw ValidationError("/key", "expected 1 to 255 bytes");
  std::map<std::string, std::string> scope;
  if (const Json* given = body.get_object().if_contains("scope")) {
    for (const auto& part : given->get_object()) {
      if (!part.value().is_string())
        throw ValidationError("/scope/" + std::string(part.key()), "expected a string");
      scope.emplace(part.key(), part.value().get_string());
    }
  }
  id.scope = idempotency::scope_text(scope);
  return id;
}

store::Fence fence_in(const Json& body) {
  const auto fence = read_whole_number(text_at(body, "fence"));
  if (!fence) throw ValidationError("/fence", "expected the text that reserve gave");
  return static_cast<store::Fence>(*fence);
}

std::chrono::nanoseconds duration_in(const Json& body, const char* name,
                                     std::chrono::nanoseconds otherwise) {
  if (!body.get_object().contains(name)) return otherwise;
  return base::bounded(duration_at("/" + std::string(name), text_at(body, name)));
}

Json response_of(const std::string& bytes) {
  Json response;
  // What was stored elsewhere, as by a server in C++, may be anything.
  if (value::try_decode(bytes, response, value::Mode::journal)) return nullptr;
  return response;
}

http::Response outcome_of(const base::Result<idempotency::Found>& found) {
  if (!found) return http::problem("STORE_UNAVAILABLE", "the store is not available");
  json::object body;
  if (const auto* acquired = std::get_if<store::Acquired>(&*found)) {
    body["outcome"] = "acquired";
    body["fence"] = std::to_string(acquired->fence);
  } else if (const auto* finished = std::get_if<idempotency::FinishedAnswer>(&*found)) {
    body["outcome"] = "replay";
    body["response"] = response_of(*finished->bytes);
  } else if (std::holds_alternative<store::KeyReused>(*found)) {
    body["outcome"] = "conflict";
  } else {
    body["outcome"] = "inProgress";
  }
  return json_answer(200, body);
}

http::Response done_or_lost(const base::Result<store::Answer>& answer) {
  if (!answer) return http::problem("STORE_UNAVAILABLE", "the store is not available");
  if (std::holds_alternative<store::FenceLost>(*answer))
    return http::problem("FENCE_LOST", "the reservation is somebody else's by now");
  return {204, {}, ""};
}

/// By the query: namespace, key, scope.NAME.
store::ReservationId id_by_query(const http::Call& call) {
  constexpr std::string_view part = "scope.";
  std::map<std::string, std::string> scope;
  for (const auto& [name, text] : call.query) {
    if (name.starts_with(part)) scope.emplace(name.substr(part.size()), text);
  }
  const auto at = [&](const char* name) {
    const auto given = call.query.find(name);
    if (given == call.query.end() || given->second.empty())
      throw ValidationError(name, "must be given");
    return given->second;
  };
  return {.workspace = call.tenant,
          .ns = at("namespace"),
          .scope = idempotency::scope_text(scope),
          .key = at("key")};
}

ReservationQuery list_query(const http::Call& call) {
  check_query(call, {"namespace", "limit", "cursor"});
  ReservationQuery query{.workspace = call.tenant, .ns = {}, .limit = limit_of(call), .before = {}};
  if (const auto ns = call.query.find("namespace"); ns != call.query.end()) query.ns = ns->second;
  if (const auto cursor = call.query.find("cursor"); cursor != call.query.end())
    query.before = read_number_cursor(cursor->second);
  return query;
}

http::Response found_or_not(const base::Result<store::Answer>& answer) {
  if (!answer) return http::problem("STORE_UNAVAILABLE", "the store is not available");
  if (const auto* found = std::get_if<store::ReservationFound>(&*answer)) {
    const store::ReservationRecord& record = found->reservation;
    json::object body{{"state", word_of(record.state)}, {"fence", std::to_string(record.fence)}};
    if (record.state == store::ReservationState::in_progress)
      body["leaseUntil"] = time_text(record.lease_until);
    body["expiresAt"] = time_text(record.expires_at);
    return json_answer(200, body);
  }
  if (std::holds_alternative<store::InProgress>(*answer)) {
    return http::problem("IDEMPOTENCY_IN_PROGRESS",
                         "somebody is at work on it; force=true takes it away from them");
  }
  if (std::holds_alternative<store::ReservationMissing>(*answer))
    return http::problem("RESERVATION_NOT_FOUND", "nothing is reserved under this key");
  return {204, {}, ""};
}

}  // namespace

void Api::add_kernel() {
  const auto add = [this](const std::string& method, const std::string& path,
                          const std::string& name, std::span<const Member> members,
                          std::vector<std::string> query, std::string answer_shape, Needs needs,
                          std::function<void(const http::Call&, const Json&, const Client&)> then) {
    http::detail::Endpoint endpoint;
    endpoint.spec = {.method = method, .path = path, .name = name};
    endpoint.spec.response_shape = std::move(answer_shape);
    endpoint.spec.query = query;
    if (!members.empty()) {
      endpoint.spec.request_shape = shape_of(members);
      endpoint.decode = decode_body<Json>;
    }
    needs_[name] = needs;
    core_.add_whole(std::move(endpoint), false,
                    [members, query = std::move(query), then = std::move(then)](
                        const http::Request&, const http::Call& call,
                        const std::shared_ptr<const void>& body, http::Responder responder) {
                      const auto client = std::make_shared<http::Responder>(std::move(responder));
                      try {
                        check_query(call, query);
                        static const Json none;
                        const Json& given = body ? *static_cast<const Json*>(body.get()) : none;
                        if (!members.empty()) check_members(given, members);
                        then(call, given, client);
                      } catch (...) {
                        client->answer(http::detail::answer_to(std::current_exception()));
                      }
                    });
  };
  const auto answering = [](const Client& client, auto render) {
    return [client, render](const auto& answer) { client->answer(render(answer)); };
  };
  const std::string any = http::detail::shape_of<Json>();

  add("POST", "/api/v1/idempotency/reserve", "idempotency.reserve", reserve_members, {}, any,
      Needs::write, [this, answering](const http::Call& call, const Json& body, const Client& to) {
        store::Reserve ask;
        ask.id = id_in(call.tenant, body);
        ask.fingerprint = base::sha256(text_at(body, "fingerprint"));
        ask.lease = duration_in(body, "lease", ask.lease);
        ask.ttl = duration_in(body, "ttl", ask.ttl);
        parts_.kernel->reserve(std::move(ask), {}, answering(to, outcome_of));
      });
  add("POST", "/api/v1/idempotency/complete", "idempotency.complete", complete_members, {}, "",
      Needs::write, [this, answering](const http::Call& call, const Json& body, const Client& to) {
        std::string answer = value::to_text(body.at("response"));
        if (answer.size() > parts_.limits.payload_bytes_max)
          throw Error("PAYLOAD_TOO_LARGE", "the response is too large to keep");
        store::Complete complete{.id = id_in(call.tenant, body), .fence = fence_in(body)};
        complete.answer = std::move(answer);
        parts_.kernel->execute(std::move(complete), answering(to, done_or_lost));
      });
  add("POST", "/api/v1/idempotency/release", "idempotency.release", release_members, {}, "",
      Needs::write, [this, answering](const http::Call& call, const Json& body, const Client& to) {
        parts_.kernel->execute(
            store::Release{.id = id_in(call.tenant, body), .fence = fence_in(body)},
            answering(to, done_or_lost));
      });
  add("POST", "/api/v1/idempotency/renew", "idempotency.renew", renew_members, {}, "", Needs::write,
      [this, answering](const http::Call& call, const Json& body, const Client& to) {
        store::Renew renew{.id = id_in(call.tenant, body), .fence = fence_in(body)};
        renew.lease = duration_in(body, "lease", renew.lease);
        parts_.kernel->execute(std::move(renew), answering(to, done_or_lost));
      });
  add("GET", "/api/v1/idempotency", "idempotency.get", {},
      {"namespace", "key", "scope.*", "limit", "cursor"}, any, Needs::read,
      [this, answering](const http::Call& call, const Json&, const Client& to) {
        // Without a key: those that are there.
        if (!call.query.contains("key")) {
          list_reservations(*parts_.driver, list_query(call), to);
          return;
        }
        check_query(call, {"namespace", "key", "scope.*"});
        parts_.kernel->execute(store::FindReservation{.id = id_by_query(call)},
                               answering(to, found_or_not));
      });
  add("DELETE", "/api/v1/idempotency", "idempotency.forget", {},
      {"namespace", "key", "scope.*", "force"}, "", Needs::write,
      [this, answering](const http::Call& call, const Json&, const Client& to) {
        const auto force = call.query.find("force");
        const bool is_forced = force != call.query.end() && force->second == "true";
        if (force != call.query.end() && !is_forced && force->second != "false")
          throw ValidationError("force", "expected true or false");
        parts_.kernel->execute(store::Forget{.id = id_by_query(call), .force = is_forced},
                               answering(to, found_or_not));
      });
}

}  // namespace semel::serve
