#include "app/cli_commands.hpp"

#include "app/cli_runs.hpp"
#include "app/cli_store.hpp"
#include "app/cli_table.hpp"
#include "engine/entry_view.hpp"

#include <semel/engine.hpp>
#include <semel/error.hpp>
#include <semel/value.hpp>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ostream.h>

namespace semel::app {

namespace {

namespace json = boost::json;

constexpr std::size_t journal_page = 1000;
constexpr std::size_t value_width = 100;

/// As values of workflows have it, for scripts.
json::value time_json(TimePoint time) { return value::from_text(value::encode(time)); }

json::object json_of(const store::RunRecord& run) {
  json::object object{{"id", run.id},
                      {"workspace", run.workspace},
                      {"workflow", run.workflow},
                      {"status", status_word(run.status)},
                      {"createdAt", time_json(run.created_at)},
                      {"input", value::from_text(run.input)}};
  if (run.version) object["version"] = *run.version;
  if (run.ended_at) object["completedAt"] = time_json(*run.ended_at);
  if (run.idempotency_key) object["idempotencyKey"] = *run.idempotency_key;
  if (!run.output.empty()) object["output"] = value::from_text(run.output);
  if (run.failure) {
    object["error"] = {{"code", run.failure->code}, {"message", run.failure->message}};
  }
  if (!run.attributes.empty()) object["attributes"] = json::value_from(run.attributes);
  return object;
}

json::object json_of(const Entry& entry) {
  return {{"seq", entry.seq},
          {"at", time_json(entry.at)},
          {"kind", entry.kind},
          {"name", entry.name},
          {"value", entry.value}};
}

/// What was asked for, in few words: "step charge, sleep".
std::string requests_text(const json::object& value) {
  const json::value* requests = value.if_contains("requests");
  std::string text;
  if (requests == nullptr) return text;
  for (const json::value& request : requests->as_array()) {
    const json::object& object = request.as_object();
    if (!text.empty()) text += ", ";
    text += std::string_view(object.at("kind").as_string());
    if (const json::value* name = object.if_contains("name")) {
      text += " " + std::string(std::string_view(name->as_string()));
    }
  }
  return text;
}

std::string arrival_text(const json::object& value) {
  for (const char* member : {"failure", "value"}) {
    if (const json::value* found = value.if_contains(member)) {
      return shortened(value::to_text(*found), value_width / 2);
    }
  }
  return "";
}

}  // namespace

// ------------------------------------------------------------------------------------------------ doctor

int doctor(const DoctorOptions& options, std::ostream& out) {
  const StoreSummary summary = summarise(options.store);
  const auto offenders =
      value_or_throw(open_for_reading(options.store).reader->orphans(options.limit));
  if (options.json) {
    json::object runs;
    for (const auto& [status, count] : summary.runs) runs[status_word(status)] = count;
    json::array orphans;
    for (const store::Orphan& orphan : offenders) {
      orphans.push_back({{"workspace", orphan.workspace},
                         {"id", orphan.id},
                         {"status", status_word(orphan.status)}});
    }
    out << json::serialize(json::object{{"schema_version", summary.schema_version},
                                        {"runs", std::move(runs)},
                                        {"entries", summary.entries},
                                        {"timers", summary.timers},
                                        {"inbox", summary.inbox_items},
                                        {"orphans", std::move(orphans)},
                                        {"well", offenders.empty()}})
        << '\n';
    return offenders.empty() ? 0 : 1;
  }

  fmt::print(out, "schema version {}, {} journal entries, {} timers, {} inbox items\n\n",
             summary.schema_version, summary.entries, summary.timers, summary.inbox_items);
  Table counts({"STATUS", "RUNS"});
  for (const auto& [status, count] : summary.runs) {
    counts.add({status_word(status), std::to_string(count)});
  }
  counts.print(out);
  if (offenders.empty()) {
    fmt::print(out, "\nEvery unfinished run has a reason to wake.\n");
    return 0;
  }
  fmt::print(out, "\nUnfinished runs that nothing will wake:\n");
  Table table({"WORKSPACE", "RUN", "STATUS"});
  for (const store::Orphan& orphan : offenders) {
    table.add({orphan.workspace, orphan.id, status_word(orphan.status)});
  }
  table.print(out);
  fmt::print(out,
             "\nThis should not happen: please report it with `semel journal dump` of one of them. "
             "Cancel them and"
             " start anew.\n");
  return 1;
}

// ------------------------------------------------------------------------------------------------ migrate

int migrate(const MigrateOptions& options, std::ostream& out) {
  const int before = summarise(options.store).schema_version;
  // Opening it is what migrates; nothing runs without workers.
  {
    const Engine engine{options.store};
  }
  const int after = summarise(options.store).schema_version;
  if (options.json) {
    out << json::serialize(json::object{{"from", before}, {"to", after}}) << '\n';
  } else if (before == after) {
    fmt::print(out, "schema version {}: nothing to do\n", after);
  } else {
    fmt::print(out, "schema version {}, was {}\n", after, before);
  }
  return 0;
}

// ------------------------------------------------------------------------------------------------ runs

namespace {

Json runs_of_store(const RunsOptions& options) {
  store::ListFilter filter;
  filter.workspace = options.workspace;
  filter.workflow = options.workflow;
  filter.limit = options.limit + 1;  // whether there are more
  if (options.status) {
    filter.status = status_of(*options.status);
    if (!filter.status) {
      throw Error("VALIDATION_ERROR", "--status " + *options.status +
                                          ": there are pending, running, waiting, completed, "
                                          "failed, cancelled, dead and diverged");
    }
  }
  const auto runs = value_or_throw(open_for_reading(options.store).reader->list(filter));
  json::array items;
  for (const store::RunRecord& run : runs) {
    if (items.size() < options.limit) items.push_back(json_of(run));
  }
  return json::object{{"items", std::move(items)}, {"more", runs.size() > options.limit}};
}

/// Page by page, as many as were asked for.
Json runs_of_server(const RunsOptions& options) {
  constexpr std::size_t page_max = 200;
  Remote remote = options.where.connect();
  Parameters query;
  if (options.status) query["status"] = *options.status;
  if (options.workflow) query["workflow"] = *options.workflow;
  json::array items;
  for (;;) {
    query["limit"] = std::to_string(std::min(page_max, options.limit - items.size()));
    const Json page = remote.get("/api/v1/runs", {}, query);
    for (const Json& run : page.as_object().at("items").as_array()) items.push_back(run);
    const std::string next = text_of(page, "nextCursor");
    if (next.empty() || items.size() >= options.limit)
      return json::object{{"items", std::move(items)}, {"more", !next.empty()}};
    query["cursor"] = next;
  }
}

}  // namespace

int list_runs(const RunsOptions& options, Output output) {
  if (options.limit == 0) throw Error("VALIDATION_ERROR", "--limit 0 shows nothing");
  const Json page = options.store.empty() ? runs_of_server(options) : runs_of_store(options);
  if (options.where.json) {
    print_json(page, output.out);
  } else {
    print_runs(page, output);
  }
  return 0;
}

// ------------------------------------------------------------------------------------------------ journal

namespace {

/// {"run", "entries"}, from either.
Json journal_of_store(const JournalOptions& options) {
  const OpenedReader opened = open_for_reading(options.store);
  const auto run = value_or_throw(opened.reader->find(options.workspace, options.run_id));
  if (!run) {
    throw Error("RUN_NOT_FOUND", "there is no run " + options.run_id + " in workspace " +
                                     options.workspace + ": `semel runs list --store " +
                                     options.store + "` lists them");
  }
  json::array entries;
  for (;;) {
    const auto page =
        value_or_throw(opened.reader->journal(run->key, entries.size(), journal_page));
    for (const store::StoredEntry& stored : page) entries.push_back(json_of(engine::view(stored)));
    if (page.size() < journal_page) break;
  }
  return json::object{{"run", json_of(*run)}, {"entries", std::move(entries)}};
}

Json journal_of_server(const JournalOptions& options) {
  Remote remote = options.where.connect();
  const Parameters place{{"id", options.run_id}};
  const Json run = remote.get("/api/v1/runs/{id}", place);
  json::array entries;
  Parameters query{{"limit", "200"}};
  for (;;) {
    const Json page = remote.get("/api/v1/runs/{id}/journal", place, query);
    for (const Json& entry : page.as_object().at("items").as_array()) entries.push_back(entry);
    const std::string next = text_of(page, "nextCursor");
    if (next.empty()) return json::object{{"run", run}, {"entries", std::move(entries)}};
    query["cursor"] = next;
  }
}

}  // namespace

int show_journal(const JournalOptions& options, std::ostream& out) {
  const Json journal =
      options.store.empty() ? journal_of_server(options) : journal_of_store(options);
  if (options.where.json) {
    print_json(journal, out);
    return 0;
  }
  const Json& run = journal.as_object().at("run");
  fmt::print(out, "{} {}: {}\n", text_of(run, "workflow"), text_of(run, "id"),
             text_of(run, "status"));
  const std::string error = error_text(run);
  if (!error.empty()) fmt::print(out, "{}\n", error);
  fmt::print(out, "input {}\n\n", shortened(text_of(run, "input"), value_width));
  Table table({"SEQ", "AT (UTC)", "ARRIVED", "NAME", "VALUE", "THEN ASKED FOR"});
  for (const Json& entry : journal.as_object().at("entries").as_array()) {
    const json::object none;
    const json::value& value = entry.as_object().at("value");
    const json::object& object = value.is_object() ? value.as_object() : none;
    table.add({text_of(entry, "seq"), time_for_people(text_of(entry, "at")), text_of(entry, "kind"),
               text_of(entry, "name"), arrival_text(object), requests_text(object)});
  }
  table.print(out);
  return 0;
}

}  // namespace semel::app
