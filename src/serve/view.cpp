#include "serve/view.hpp"

#include "journal/state.hpp"
#include "serve/text.hpp"

#include <semel/value.hpp>

#include <boost/json.hpp>

#include <algorithm>

namespace semel::serve {

namespace {

namespace json = boost::json;
using journal::Operation;
using journal::RequestKind;
using store::Status;

/// Looking through more than this for what a run waits for would hold up whoever else wants to read.
constexpr std::uint64_t entries_max = 2000;
constexpr std::size_t page = 1000;

json::object view_of(const detail::Failure& failure) {
  json::object error{{"code", failure.code}, {"message", failure.message}};
  if (!failure.details.empty()) error["details"] = value::from_text(failure.details);
  return error;
}

/// When the entry was written that asked for `op`.
std::optional<TimePoint> asked_at(const std::vector<journal::Record>& records, const Beside& beside,
                                  std::string_view op) {
  for (std::size_t i = records.size(); i-- > 0;) {
    if (i >= beside.times.size()) continue;
    const auto& requests = records[i].entry.requests;
    if (std::ranges::find(requests, op, &journal::Request::op) != requests.end())
      return beside.times[i];
  }
  return std::nullopt;
}

std::optional<json::object> wait_of(const Operation& operation, const journal::RunState& state) {
  switch (operation.kind) {
    case RequestKind::step: {
      json::object step{{"kind", "step"}, {"name", operation.name}, {"attempt", operation.attempt}};
      if (operation.phase == Operation::Phase::backoff) step["until"] = time_text(operation.at);
      return step;
    }
    case RequestKind::sleep:
      return json::object{{"kind", "timer"}, {"until", time_text(operation.at)}};
    case RequestKind::hook_next: {
      const journal::OpenHook* hook = state.find_hook(operation.name);
      if (hook == nullptr) return std::nullopt;
      return json::object{{"kind", "hook"}, {"token", hook->token}};
    }
    case RequestKind::child:
    case RequestKind::result_of:
      if (operation.run_id.empty()) return std::nullopt;
      return json::object{{"kind", "run"}, {"runId", operation.run_id}};
    default:
      return std::nullopt;
  }
}

json::array waits_of(const journal::RunState& state, const std::vector<journal::Record>& records,
                     const Beside& beside) {
  json::array waits;
  for (const Operation& operation : state.pending) {
    auto wait = operation.abandoned ? std::nullopt : wait_of(operation, state);
    if (!wait) continue;
    if (const auto since = asked_at(records, beside, operation.op))
      (*wait)["since"] = time_text(*since);
    waits.emplace_back(*std::move(wait));
  }
  return waits;
}

bool goes_on(Status status) {
  return status == Status::pending || status == Status::running || status == Status::waiting;
}

}  // namespace

json::object view(const store::RunRecord& run, const Beside& beside,
                  const engine::Registry& registry) {
  json::object object{{"id", run.id},
                      {"workflow", run.workflow},
                      {"status", to_string(static_cast<RunStatus>(run.status))},
                      {"version", run.version.value_or(0)},
                      {"workspace", run.workspace},
                      {"input", value::from_text(run.input)}};
  if (run.status == Status::completed)
    object["output"] = run.output.empty() ? Json{} : value::from_text(run.output);
  if (run.failure) object["error"] = view_of(*run.failure);
  if (run.idempotency_key) object["idempotencyKey"] = *run.idempotency_key;
  object["createdAt"] = time_text(run.created_at);
  if (beside.started_at) object["startedAt"] = time_text(*beside.started_at);
  if (run.ended_at) object["completedAt"] = time_text(*run.ended_at);
  json::array waits;
  const auto records =
      beside.entries ? journal::read_journal(*beside.entries)
                     : base::Result<std::vector<journal::Record>>(std::vector<journal::Record>{});
  if (records && beside.entries) {
    if (goes_on(run.status))
      waits = waits_of(journal::fold(*records, run.first_seq), *records, beside);
    object["attempts"] = 1 + std::ranges::count_if(*records, [](const journal::Record& record) {
                           return record.entry.arrival.kind == journal::ArrivalKind::reopened;
                         });
  }
  if (run.status == Status::pending && beside.starts_at)
    waits.push_back({{"kind", "timer"}, {"until", time_text(*beside.starts_at)}});
  const detail::WorkflowType* type = registry.find(run.workflow);
  const bool has_worker = beside.owner ? beside.owner->has_worker
                                       : type != nullptr && type->version >= run.code_version;
  if (beside.owner && !beside.owner->node.empty()) object["node"] = beside.owner->node;
  if (goes_on(run.status) && !has_worker)
    waits.push_back({{"kind", "worker"}, {"name", run.workflow}});
  object["waitingFor"] = std::move(waits);
  json::object attributes;
  for (const auto& [name, text] : run.attributes) attributes[name] = text;
  object["attributes"] = std::move(attributes);
  return object;
}

std::string_view word_of(store::ReservationState state) {
  switch (state) {
    case store::ReservationState::in_progress:
      return "inProgress";
    case store::ReservationState::completed:
      return "completed";
    case store::ReservationState::not_retained:
      return "notRetained";
    default:
      return "unknown";
  }
}

json::object result_view(const detail::RunEnd& end) {
  json::object object{{"status", to_string(end.status)}};
  if (end.status == RunStatus::completed) {
    object["output"] = end.output.empty() ? Json{} : value::from_text(end.output);
  } else {
    object["error"] = view_of(end.failure);
  }
  return object;
}

json::object view(const store::HookRecord& hook) {
  return {{"token", hook.token},     {"hookId", hook.id},
          {"runId", hook.run_id},    {"since", time_text(hook.since)},
          {"waiting", hook.waiting}, {"webhook", hook.webhook}};
}

json::object view(const store::NodeList& nodes) {
  json::array items;
  for (const store::NodeRecord& node : nodes.nodes) {
    json::object item{{"name", node.name},
                      {"number", node.number},
                      {"since", time_text(node.since)},
                      {"lastHeardOf", time_text(node.kept_at)},
                      {"works", node.works},
                      {"partitions", node.partitions},
                      {"isThis", node.is_this}};
    if (node.lease > std::chrono::nanoseconds{0}) item["lease"] = duration_text(node.lease);
    json::array workflows;
    for (const store::WorkflowVersion& each : node.workflows)
      workflows.push_back({{"name", each.name}, {"version", each.version}});
    item["workflows"] = std::move(workflows);
    items.push_back(std::move(item));
  }
  return {{"items", std::move(items)}, {"unownedPartitions", nodes.unowned}};
}

json::object view(const Entry& entry) {
  return {{"seq", entry.seq},
          {"at", time_text(entry.at)},
          {"kind", entry.kind},
          {"name", entry.name},
          {"value", entry.value}};
}

store::RunRecord find_run(store::Reader& reader, const std::string& workspace,
                          const std::string& id) {
  auto found = value_or_throw(reader.find(workspace, id));
  if (!found) throw RunNotFoundError("RUN_NOT_FOUND", "there is no run " + id);
  return *std::move(found);
}

Beside read_beside(store::Reader& reader, const store::RunRecord& run) {
  Beside beside;
  if (goes_on(run.status)) beside.owner = value_or_throw(reader.owner(run));
  if (!run.version) {
    beside.entries.emplace();
    for (const store::Timer& timer : value_or_throw(reader.timers(run.key))) {
      if (timer.kind == store::TimerKind::start) beside.starts_at = timer.due;
    }
    return beside;
  }
  const auto first = value_or_throw(reader.journal(run.key, 0, 1));
  if (!first.empty()) beside.started_at = first.front().at;
  if (*run.version - run.first_seq >= entries_max) return beside;
  beside.entries.emplace();
  for (store::Seq from = run.first_seq;;) {
    auto entries = value_or_throw(reader.journal(run.key, from, page));
    for (store::StoredEntry& entry : entries) {
      // What was written since the row was read belongs to a later version.
      if (entry.seq > *run.version) return beside;
      beside.times.push_back(entry.at);
      beside.entries->push_back(std::move(entry.bytes));
    }
    if (entries.size() < page) return beside;
    from += page;
  }
}

http::Response json_answer(int status, const json::object& body) {
  return {status, {{"content-type", "application/json"}}, value::to_text(body)};
}

}  // namespace semel::serve
