#include "engine/entry_view.hpp"

namespace semel::engine {

namespace {

namespace json = boost::json;

Json parsed(const std::string& text) { return text.empty() ? Json{} : value::from_text(text); }

Json view_of(const journal::Failure& failure) {
  json::object object{{"code", failure.code}, {"message", failure.message}};
  if (!failure.details.empty()) object["details"] = parsed(failure.details);
  return object;
}

void add_time(json::object& object, const char* name, TimePoint at) {
  if (at != TimePoint{}) object[name] = value::from_text(value::encode(at));
}

Json view_of(const journal::Request& request) {
  json::object object{{"kind", to_string(request.kind)}};
  if (!request.op.empty()) object["op"] = request.op;
  if (!request.name.empty()) object["name"] = request.name;
  if (request.attempt != 0 && request.kind != journal::RequestKind::hook)
    object["attempt"] = request.attempt;
  if (request.kind == journal::RequestKind::uuid) {
    object["value"] = request.value;
  } else if (!request.value.empty()) {
    object["value"] = parsed(request.value);
  }
  add_time(object, "at", request.at);
  if (request.failure) object["failure"] = view_of(*request.failure);
  return object;
}

}  // namespace

Entry view(const store::StoredEntry& stored) {
  Entry entry;
  entry.seq = stored.seq;
  entry.at = stored.at;
  const auto decoded = journal::decode(stored.bytes);
  if (!decoded) {
    entry.kind = "unreadable";
    return entry;
  }
  const journal::Arrival& arrival = decoded->arrival;
  entry.kind = to_string(arrival.kind);
  entry.name = arrival.name;
  json::object object;
  if (!arrival.op.empty()) object["op"] = arrival.op;
  if (arrival.attempt != 0) object["attempt"] = arrival.attempt;
  if (!arrival.value.empty()) object["value"] = parsed(arrival.value);
  if (arrival.failure) object["failure"] = view_of(*arrival.failure);
  add_time(object, "at", arrival.at);
  if (!arrival.ops.empty()) {
    json::array ops;
    for (const journal::Lost& lost : arrival.ops)
      ops.push_back({{"op", lost.op}, {"attempt", lost.attempt}});
    object["ops"] = std::move(ops);
  }
  if (!decoded->requests.empty()) {
    json::array requests;
    for (const journal::Request& request : decoded->requests) requests.push_back(view_of(request));
    object["requests"] = std::move(requests);
  }
  entry.value = std::move(object);
  return entry;
}

}  // namespace semel::engine
