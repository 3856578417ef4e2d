#include "tests/crash/stage.hpp"

#include "tests/crash/stores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace semel::crash {

using journal::ArrivalKind;
using journal::RequestKind;

namespace {

class CrashingStore final : public store::Store {
 public:
  CrashingStore(std::unique_ptr<store::Store> inner, std::shared_ptr<Fate> fate)
      : inner_(std::move(inner)), fate_(std::move(fate)) {}

  base::Result<std::vector<store::Answer>> execute(std::span<const store::Command> batch) override {
    if (fate_->is_dead) throw Crash{};
    ++fate_->calls;
    const bool dies = fate_->death && fate_->death->call == fate_->calls;
    if (!dies) return inner_->execute(batch);
    fate_->is_dead = true;
    if (fate_->death->moment == Moment::after) static_cast<void>(inner_->execute(batch));
    throw Crash{};
  }

 private:
  std::unique_ptr<store::Store> inner_;
  std::shared_ptr<Fate> fate_;
};

std::unique_ptr<detail::EngineCore> make_core(const std::shared_ptr<Fate>& fate) {
  engine::StoreFactory stores = [fate,
                                 open = fresh_stores()]() -> base::Result<engine::OpenedStore> {
    auto opened = open();
    if (!opened) return opened.error();
    return engine::OpenedStore{std::make_unique<CrashingStore>(std::move(opened->store), fate),
                               std::move(opened->reader)};
  };
  engine::LoopOptions options;
  options.check_replay = true;
  options.sweep_every = std::chrono::hours{1};
  return std::make_unique<detail::EngineCore>(
      EngineOptions{}, [&](const engine::Registry& registry, engine::StepClientFactory clients) {
        return std::make_unique<engine::InlineDriver>(registry, stores, std::move(clients),
                                                      options);
      });
}

journal::Entry decoded(const store::StoredEntry& entry) { return *journal::decode(entry.bytes); }

/// "<instance>-0-<operation>"
std::string operation_of(const std::string& step_id) {
  return step_id.substr(step_id.rfind('-') + 1);
}

/// The step has a result that no retry of its run has voided.
bool is_settled(const std::vector<store::StoredEntry>& entries, const std::string& op) {
  bool settled = false;
  for (const store::StoredEntry& stored : entries) {
    const journal::Arrival arrival = decoded(stored).arrival;
    const bool is_voided =
        arrival.kind == ArrivalKind::reopened &&
        std::ranges::any_of(arrival.ops, [&](const journal::Lost& lost) { return lost.op == op; });
    if (is_voided) settled = false;
    if (arrival.op != op) continue;
    if (arrival.kind == ArrivalKind::step_completed || arrival.kind == ArrivalKind::step_failed)
      settled = true;
  }
  return settled;
}

/// The lines of a run's text.
class Lines {
 public:
  void take(const journal::Entry& entry) {
    for (const journal::Request& request : entry.requests) {
      if (request.at_most_once) once_.insert(request.op);
    }
    arrived(entry.arrival);
    for (const journal::Request& request : entry.requests) asked(request);
  }

  std::string text() {
    std::ranges::sort(lines_);
    return fmt::format("{}", fmt::join(lines_, "\n  "));
  }

 private:
  void arrived(const journal::Arrival& arrival) {
    const std::string failure = arrival.failure ? arrival.failure->code : "";
    switch (arrival.kind) {
      case ArrivalKind::step_completed:
      case ArrivalKind::step_failed:
        // Whether it is known what became of it depends on the crash, that it is over does not.
        if (once_.contains(arrival.op)) return add(arrival.op + " is over");
        return add(fmt::format("{} {} gave {}{}", arrival.op, arrival.name, arrival.value,
                               arrival.failure ? arrival.failure->message : ""));
      case ArrivalKind::recovered:
        for (const journal::Lost& lost : arrival.ops) {
          if (lost.attempt == 0) add(lost.op + " is over");
        }
        return;
      case ArrivalKind::attempt_failed:
      case ArrivalKind::retry_due:
      case ArrivalKind::begun:
      case ArrivalKind::continued:
        return;
      case ArrivalKind::cancel_requested:
        // A caller who was not answered cancels again.
        if (!std::exchange(cancel_asked_, true)) add("cancel requested");
        return;
      case ArrivalKind::forked:
        return add("forked");
      default:
        add(fmt::format("{} {} {} {}", to_string(arrival.kind), arrival.op,
                        arrival.kind == ArrivalKind::outcome ? "" : arrival.value, failure));
        for (const journal::Lost& each : arrival.ops)
          add(fmt::format("{} {}", to_string(arrival.kind), each.op));
    }
  }

  void asked(const journal::Request& request) {
    const bool is_chance = request.kind == RequestKind::uuid || request.kind == RequestKind::random;
    // The id in it was made by the store's owner of the time.
    const bool has_id = request.kind == RequestKind::result_of;
    add(fmt::format("{} asks {} {} {} {} {}", request.op, to_string(request.kind),
                    has_id ? "" : request.name, is_chance ? "" : request.value,
                    request.kind == RequestKind::version ? request.attempt : 0,
                    request.failure ? request.failure->code : ""));
  }

  void add(std::string line) { lines_.push_back(std::move(line)); }

  std::vector<std::string> lines_;
  std::set<std::string> once_;
  bool cancel_asked_ = false;
};

/// Ids that were made differ from play to play.
std::string without_ids(std::string text, const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    for (std::size_t at = text.find(id); at != std::string::npos; at = text.find(id))
      text.replace(at, id.size(), "(id)");
  }
  return text;
}

std::string label_of(const store::RunRecord& row) {
  return fmt::format("{}/{}{}", row.workspace, row.workflow, row.input);
}

}  // namespace

CrashingEngine::CrashingEngine(const std::shared_ptr<Fate>& fate)
    : semel::Engine(make_core(fate)) {}

void CrashingEngine::advance_to(TimePoint until) {
  driver().advance(std::max(until - now(), TimePoint::duration::zero()));
}

Stage::Stage(std::deque<Death> deaths)
    : deaths_(std::move(deaths)), engine(fate_), began(engine.now()) {
  if (deaths_.empty()) return;
  fate_->death = deaths_.front();
  deaths_.pop_front();
}

void Stage::until(std::chrono::nanoseconds since_begin) {
  act([&] { engine.advance_to(began + since_begin); });
}

bool Stage::exists(const std::string& run_id) {
  return engine.reader()->find("default", run_id)->has_value();
}

std::vector<Stage::Known> Stage::all_runs() {
  std::vector<Known> found;
  for (const char* workspace : {"default", "other"}) {
    store::ListFilter filter;
    filter.workspace = workspace;
    auto rows = engine.reader()->list(filter);
    for (store::RunRecord& row : *rows) {
      auto entries = *engine.reader()->journal(row.key, 0, 10'000);
      found.push_back({std::move(row), std::move(entries)});
    }
  }
  return found;
}

void Stage::restart() {
  ++crashes_;
  check_kept();
  check_reasons();
  *fate_ = {};
  if (!deaths_.empty()) {
    fate_->death = deaths_.front();
    deaths_.pop_front();
  }
  engine.restart();
}

/// What is committed has a reason to go on.
void Stage::check_reasons() {
  const auto orphans = engine.reader()->orphans(10);
  for (const store::Orphan& orphan : *orphans)
    complain(fmt::format("nothing will ever wake run {}", orphan.id));
}

/// Whatever was committed at the last crash is there, and as it was.
void Stage::check_kept() {
  std::map<store::RunKey, std::vector<std::string>> there;
  for (const Known& run : all_runs()) {
    for (const store::StoredEntry& entry : run.entries) there[run.row.key].push_back(entry.bytes);
  }
  for (const auto& [key, entries] : committed_) {
    const auto& now = there[key];
    const bool kept =
        entries.size() <= now.size() && std::equal(entries.begin(), entries.end(), now.begin());
    if (!kept) complain(fmt::format("entries of run key {} are gone or changed", key));
  }
  committed_ = std::move(there);
}

void Stage::begun(const StepContext& step) {
  const std::string op = operation_of(step.id);
  for (const Known& run : all_runs()) {
    if (run.row.id != step.run_id) continue;
    if (is_settled(run.entries, op))
      complain(fmt::format("{}: step {} has a result and runs again", label_of(run.row), op));
    Bodies& bodies = bodies_[step.id];
    const std::string label = label_of(run.row) + " " + op;
    if (!bodies.label.empty() && bodies.label != label)
      complain(fmt::format("{} and {} share an id", bodies.label, label));
    if (step.attempt <= bodies.last_attempt)
      complain(fmt::format("{}: attempt {} begins twice", label, step.attempt));
    bodies.label = label;
    bodies.last_attempt = step.attempt;
    ++bodies.count;
    return;
  }
  complain("a body of a run that is not there: " + step.run_id);
}

Observed Stage::observed() {
  check_kept();
  check_reasons();
  Observed observed;
  const std::vector<Known> runs = all_runs();
  std::vector<std::string> ids;
  for (const Known& run : runs) {
    if (run.row.id == run.row.instance) ids.push_back(run.row.id);
  }
  for (const Known& run : runs) {
    Lines lines;
    for (const store::StoredEntry& entry : run.entries) lines.take(decoded(entry));
    std::string attributes;
    for (const auto& [name, value] : run.row.attributes) attributes += " " + name + "=" + value;
    observed.runs.push_back(fmt::format(
        "{} {} {} {}{}\n  {}", label_of(run.row), to_string(static_cast<RunStatus>(run.row.status)),
        run.row.output, run.row.failure ? run.row.failure->code : "", attributes,
        without_ids(lines.text(), ids)));
  }
  std::ranges::sort(observed.runs);
  for (const auto& [id, bodies] : bodies_) observed.bodies[bodies.label] += bodies.count;
  return observed;
}

}  // namespace semel::crash
