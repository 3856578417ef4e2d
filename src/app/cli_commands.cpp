#include "app/cli_commands.hpp"

#include "app/cli_store.hpp"
#include "app/cli_table.hpp"
#include "engine/entry_view.hpp"

#include <semel/error.hpp>
#include <semel/value.hpp>

#include <boost/json.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ostream.h>

namespace semel::app {

namespace {

namespace json = boost::json;

constexpr std::size_t journal_page = 1000;
constexpr std::size_t value_width = 100;

template <class T>
T value_or_throw(base::Result<T> result) {
  if (!result) throw Error("STORE_UNAVAILABLE", result.error().message);
  return std::move(*result);
}

/// To the second, for people.
std::string time_text(TimePoint time) {
  return fmt::format("{:%F %T}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

/// As values of workflows have it, for scripts.
json::value time_json(TimePoint time) { return value::from_text(value::encode(time)); }

json::object json_of(const store::RunRecord& run) {
  json::object object{{"id", run.id},
                      {"workspace", run.workspace},
                      {"workflow", run.workflow},
                      {"status", status_word(run.status)},
                      {"created_at", time_json(run.created_at)},
                      {"input", value::from_text(run.input)}};
  if (run.version) object["version"] = *run.version;
  if (run.ended_at) object["ended_at"] = time_json(*run.ended_at);
  if (run.idempotency_key) object["key"] = *run.idempotency_key;
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

std::string error_text(const store::RunRecord& run) {
  return run.failure ? shortened(run.failure->code + ": " + run.failure->message, value_width) : "";
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
             "\nThis should not happen: please report it with `semel journal` of one of them. "
             "Cancel them and"
             " start anew.\n");
  return 1;
}

// ------------------------------------------------------------------------------------------------ runs

int list_runs(const RunsOptions& options, std::ostream& out) {
  store::ListFilter filter;
  filter.workspace = options.workspace;
  filter.workflow = options.workflow;
  filter.limit = options.limit;
  if (options.status) {
    filter.status = status_of(*options.status);
    if (!filter.status) {
      throw Error("VALIDATION_ERROR", "--status " + *options.status +
                                          ": there are pending, running, waiting, completed, "
                                          "failed, cancelled, dead and diverged");
    }
  }
  const auto runs = value_or_throw(open_for_reading(options.store).reader->list(filter));
  if (options.json) {
    json::array array;
    for (const store::RunRecord& run : runs) array.push_back(json_of(run));
    out << json::serialize(array) << '\n';
    return 0;
  }
  if (runs.empty()) {
    fmt::print(out, "no runs\n");
    return 0;
  }
  Table table({"RUN", "WORKFLOW", "STATUS", "STARTED (UTC)", "ENTRIES", "ERROR"});
  for (const store::RunRecord& run : runs) {
    table.add({run.id, run.workflow, status_word(run.status), time_text(run.created_at),
               std::to_string(run.version ? *run.version + 1 : 0), error_text(run)});
  }
  table.print(out);
  if (runs.size() == options.limit) {
    fmt::print(out, "the {} newest; --limit shows more\n", options.limit);
  }
  return 0;
}

// ------------------------------------------------------------------------------------------------ journal

int show_journal(const JournalOptions& options, std::ostream& out) {
  const OpenedReader opened = open_for_reading(options.store);
  const auto run = value_or_throw(opened.reader->find(options.workspace, options.run_id));
  if (!run) {
    throw Error("RUN_NOT_FOUND", "there is no run " + options.run_id + " in workspace " +
                                     options.workspace + ": `semel runs --store " + options.store +
                                     "` lists them");
  }
  std::vector<Entry> entries;
  for (;;) {
    const auto page =
        value_or_throw(opened.reader->journal(run->key, entries.size(), journal_page));
    for (const store::StoredEntry& stored : page) entries.push_back(engine::view(stored));
    if (page.size() < journal_page) break;
  }
  if (options.json) {
    json::array array;
    for (const Entry& entry : entries) array.push_back(json_of(entry));
    out << json::serialize(json::object{{"run", json_of(*run)}, {"entries", std::move(array)}})
        << '\n';
    return 0;
  }
  fmt::print(out, "{} {}: {}\n", run->workflow, run->id, status_word(run->status));
  if (run->failure) fmt::print(out, "{}: {}\n", run->failure->code, run->failure->message);
  fmt::print(out, "input {}\n\n", shortened(run->input, value_width));
  Table table({"SEQ", "AT (UTC)", "ARRIVED", "NAME", "VALUE", "THEN ASKED FOR"});
  for (const Entry& entry : entries) {
    const json::object none;
    const json::object& value = entry.value.is_object() ? entry.value.as_object() : none;
    table.add({std::to_string(entry.seq), time_text(entry.at), entry.kind, entry.name,
               arrival_text(value), requests_text(value)});
  }
  table.print(out);
  return 0;
}

}  // namespace semel::app
