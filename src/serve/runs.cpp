// Runs: starting them, looking at them, waiting for them.
#include "engine/calls.hpp"
#include "engine/entry_view.hpp"
#include "engine/steering.hpp"
#include "http/problem.hpp"
#include "serve/route.hpp"
#include "serve/start_body.hpp"
#include "serve/text.hpp"
#include "serve/view.hpp"
#include "serve/wire.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>

namespace semel::serve {

namespace {

namespace json = boost::json;

constexpr Millis wait_max{std::chrono::seconds{60}};
constexpr std::uint64_t entries_shown_max = 1000;
constexpr auto statuses = std::to_array<RunStatus>(
    {RunStatus::pending, RunStatus::running, RunStatus::waiting, RunStatus::completed,
     RunStatus::failed, RunStatus::cancelled, RunStatus::dead, RunStatus::diverged});

store::Status status_named(const std::string& word) {
  const auto* found =
      std::ranges::find_if(statuses, [&](RunStatus status) { return to_string(status) == word; });
  if (found == statuses.end()) throw ValidationError("status", "there is no such status");
  return static_cast<store::Status>(*found);
}

TimePoint time_in(const std::string& name, const std::string& text) {
  const auto time = read_time(text);
  if (!time) throw ValidationError(name, "expected a time such as 2026-01-31T12:00:00Z");
  return *time;
}

store::ListFilter filter_of(const http::Call& call) {
  constexpr std::string_view attribute = "attribute.";
  store::ListFilter filter;
  filter.workspace = call.tenant;
  filter.limit = limit_of(call) + 1;  // to see whether there are more
  for (const auto& [name, value] : call.query) {
    if (name == "workflow") filter.workflow = value;
    if (name == "status") filter.status = status_named(value);
    if (name == "key") filter.idempotency_key = value;
    if (name == "since") filter.since = time_in(name, value);
    if (name == "until") filter.until = time_in(name, value);
    if (name == "cursor") filter.before = read_run_cursor(value);
    if (name.starts_with(attribute)) filter.attributes[name.substr(attribute.size())] = value;
  }
  return filter;
}

http::Response result_now(store::Reader& reader, const std::string& workspace,
                          const std::string& id) {
  const store::RunRecord run = find_run(reader, workspace, id);
  if (const auto end = engine::end_of(run)) return json_answer(200, result_view(*end));
  http::Response answer =
      json_answer(202, {{"status", to_string(static_cast<RunStatus>(run.status))}});
  answer.headers.push_back({"retry-after", "1"});
  return answer;
}

Millis wait_of(const http::Call& call) {
  const auto asked = call.query.find("wait");
  if (asked == call.query.end()) return Millis{0};
  const auto wait = read_duration(asked->second);
  if (!wait || *wait > wait_max)
    throw ValidationError("wait", "expected a duration of at most 60s, such as 30s");
  return *wait;
}

/// The entry behind the last one that the client has. Throws ProblemError, 400.
store::Seq place_of(const http::Request& request, const store::RunRecord& run) {
  const auto last = request.header("last-event-id");
  if (!last) return 0;
  const auto seq = read_whole_number(*last);
  if (!seq || !run.version || *seq > *run.version) {
    throw http::ProblemError(400, "MALFORMED",
                             "Last-Event-ID is the number of an entry that was sent");
  }
  return *seq + 1;
}

json::object journal_page(store::Reader& reader, const http::Call& call) {
  const store::RunRecord run = find_run(reader, call.tenant, call.path.at("id"));
  const std::size_t limit = limit_of(call);
  const auto cursor = call.query.find("cursor");
  const store::Seq from =
      cursor == call.query.end() ? 0 : static_cast<store::Seq>(read_number_cursor(cursor->second));
  auto entries = value_or_throw(reader.journal(run.key, from, limit + 1));
  json::object page;
  json::array items;
  if (entries.size() > limit) {
    entries.pop_back();
    page["nextCursor"] = cursor_text(static_cast<std::int64_t>(entries.back().seq + 1));
  }
  for (const store::StoredEntry& stored : entries) items.emplace_back(view(engine::view(stored)));
  page["items"] = std::move(items);
  return page;
}

bool wants_events(const http::Request& request) {
  const auto accepted = request.header("accept");
  return accepted && accepted->find("text/event-stream") != std::string_view::npos;
}

}  // namespace

json::object Api::run_in(store::UnitOfWork& unit, const store::RunRecord& run) const {
  Beside beside;
  if (run.version.value_or(0) - run.first_seq < entries_shown_max) {
    store::Answer answer = unit.execute(store::LoadRun{run.key});
    if (auto* loaded = std::get_if<store::RunLoaded>(&answer)) {
      beside.entries = std::move(loaded->entries);
      beside.starts_at = loaded->starts_at;
    }
  }
  return view(run, beside, *parts_.registry);
}

http::Response Api::start(Unit& inside, engine::StartInput input) {
  store::UnitOfWork& unit = inside.store;
  thread_local base::SystemRandom random;
  thread_local base::IdSource ids(random);
  const TimePoint now = unit.now();
  const store::StartRun command{
      .run = engine::new_run(std::move(input), *parts_.registry, unit.new_run_key(), ids.next(now),
                             now, parts_.retention),
      .first_entry = {},
      .changes = {}};
  store::Answer answer;
  within_limits(inside, command.run.workspace, command.run.input.size(), [&] {
    answer = unit.execute(command);
    return std::holds_alternative<store::RunStarted>(answer);
  });
  if (const auto* refusal = std::get_if<store::StartRefused>(&answer))
    return refused(engine::refusal_of(*refusal));
  if (const auto* exists = std::get_if<store::RunExists>(&answer)) {
    return json_answer(200, {{"run", run_in(unit, exists->run)}, {"created", false}});
  }
  const store::Answer made = unit.execute(store::FindRun{command.run.workspace, command.run.id});
  const auto& run = std::get<store::RunLoaded>(made).run;
  return json_answer(201, {{"run", run_in(unit, run)}, {"created", true}});
}

void Api::add_runs() {
  act<wire::StartRun, wire::Started>(
      "/api/v1/runs", "runs.start", Needs::write,
      [this](const http::Request& request, const http::Call& call, const wire::StartRun& body) {
        const auto input = start_input(parts_, call.tenant, body.workflow, body,
                                       given_input(request.body, {}), "");
        return [this, input](Unit& unit) { return start(unit, input); };
      });

  look<wire::RunList>(
      "/api/v1/runs", "runs.list", Needs::read,
      {"workflow", "status", "key", "attribute.*", "since", "until", "limit", "cursor"},
      [this](http::Call& call) {
        const auto reader = parts_.driver->reader();
        const store::ListFilter filter = filter_of(call);
        auto runs = value_or_throw(reader->list(filter));
        json::object page;
        if (runs.size() == filter.limit) {
          runs.pop_back();
          page["nextCursor"] = cursor_text(runs.back().created_at, runs.back().id);
        }
        json::array items;
        for (const store::RunRecord& run : runs)
          items.emplace_back(view(run, read_beside(*reader, run), *parts_.registry));
        page["items"] = std::move(items);
        return page;
      });

  look<wire::Run>("/api/v1/runs/{id}", "runs.get", Needs::read, {}, [this](http::Call& call) {
    const auto reader = parts_.driver->reader();
    const store::RunRecord run = find_run(*reader, call.tenant, call.path.at("id"));
    call.answer_headers.push_back({"etag", version_text(run.version.value_or(0))});
    return view(run, read_beside(*reader, run), *parts_.registry);
  });

  http::detail::Endpoint result;
  result.spec = http::get<wire::Result>("/api/v1/runs/{id}/result").named("runs.result").spec();
  result.spec.query = {"wait"};
  needs_["runs.result"] = Needs::read;
  core_.add_whole(std::move(result), false,
                  [this](const http::Request&, const http::Call& call,
                         const std::shared_ptr<const void>&, http::Responder responder) {
                    const std::string workspace = call.tenant;
                    const std::string id = call.path.at("id");
                    Millis wait{0};
                    try {
                      check_query(call, {"wait"});
                      wait = wait_of(call);
                    } catch (...) {
                      responder.answer(http::detail::answer_to(std::current_exception()));
                      return;
                    }
                    const auto look_now = [driver = parts_.driver, workspace, id] {
                      try {
                        return result_now(*driver->reader(), workspace, id);
                      } catch (...) {
                        return http::detail::answer_to(std::current_exception());
                      }
                    };
                    const auto client = std::make_shared<http::Responder>(std::move(responder));
                    core_.submit([this, client, wait, workspace, id, look_now] {
                      http::Response answer = look_now();
                      if (answer.status != 202 || wait == Millis{0}) {
                        client->answer(std::move(answer));
                        return;
                      }
                      waits_->add(workspace, id, wait, std::move(*client),
                                  [this, look_now](http::Responder waiting) {
                                    const auto late =
                                        std::make_shared<http::Responder>(std::move(waiting));
                                    core_.submit([late, look_now] { late->answer(look_now()); });
                                  });
                    });
                  });

  http::detail::Endpoint journal;
  journal.spec =
      http::get<wire::EntryList>("/api/v1/runs/{id}/journal").named("runs.journal").spec();
  journal.spec.query = {"limit", "cursor"};
  needs_["runs.journal"] = Needs::read;
  core_.add_whole(std::move(journal), false,
                  [this](const http::Request& request, const http::Call& call,
                         const std::shared_ptr<const void>&, http::Responder responder) {
                    const auto client = std::make_shared<http::Responder>(std::move(responder));
                    core_.submit([this, &request, call, client] {
                      try {
                        const auto reader = parts_.driver->reader();
                        if (!wants_events(request) || request.method == "HEAD") {
                          check_query(call, {"limit", "cursor"});
                          client->answer(json_answer(200, journal_page(*reader, call)));
                          return;
                        }
                        check_query(call, {});
                        const store::RunRecord run =
                            find_run(*reader, call.tenant, call.path.at("id"));
                        const store::Seq from = place_of(request, run);
                        tails_->add(call.tenant, run.id, from, std::move(*client));
                      } catch (...) {
                        client->answer(http::detail::answer_to(std::current_exception()));
                      }
                    });
                  });
}

}  // namespace semel::serve
