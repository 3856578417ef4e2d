#include "tests/simulation/world.hpp"

#include "store/sqlite/sqlite_store.hpp"
#include "tests/simulation/kinds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace semel::sim {

using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t commits_min = 200;
constexpr std::uint64_t faults_min = 5;
constexpr std::uint64_t turns_max = 20'000;
constexpr int crashes_max = 5;
constexpr std::int64_t keys_per_era = 3;  // so that there are several
/// Virtual time in which everything has to finish once the faults have stopped.
constexpr std::chrono::hours calm_max{2};
constexpr std::uint64_t calm_turns_max = 50'000;

/// Workflows that are nobody's child may be unknown to a program for a while.
constexpr std::array may_come_late{"sleeper", "timed", "saga"};

std::uint64_t digest_of(const std::map<RunKey, Known>& runs) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  const auto add = [&hash](std::string_view bytes) {
    for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  };
  for (const auto& [key, run] : runs) {
    add(run.id());
    for (const std::string& entry : run.history.entries()) add(entry);
  }
  return hash;
}

}  // namespace

std::string Report::text() const {
  if (!violation) return fmt::format("seed {}: fine", seed);
  return fmt::format("seed {}, commit {}: {}: {}", seed, at_commit, violation->invariant,
                     violation->message);
}

World::World(std::uint64_t seed, Sabotage* sabotage, bool tracing)
    : seed_(seed),
      sabotage_(sabotage),
      tracing_(tracing),
      random_(seed * 0x9E3779B97F4A7C15ULL),
      profile_(draw_profile(random_)),
      now_(std::chrono::sys_days{std::chrono::year{2030} / 1 / 1}),
      latest_shown_(now_),
      database_(store::make_memory_database()),
      outside_(random_),
      checks_(database_, outside_, crashes_max),
      clients_(checks_, random_, profile_.has_poison,
               [this](const std::string& line) { trace("{}", line); }),
      customers_(checks_, random_) {
  database_->run("CREATE TABLE ledger (line TEXT NOT NULL)");
}

World::~World() {
  flights_.clear();
  loop_.reset();
}

void World::print(const std::string& line) const {
  const auto ms = std::chrono::duration_cast<Millis>(now_.time_since_epoch()).count() % 100'000'000;
  fmt::print("{:>6} {:>9} | {}\n", checks_.commit(), ms, line);
}

Report World::run() {
  open();
  const std::uint64_t commits_wanted = commits_min + random_.below(60);
  while ((commits_ < commits_wanted || faults_.total() < faults_min) && turns_ < turns_max &&
         !checks_.violation()) {
    turn();
  }
  if (!checks_.violation() && turns_ == turns_max) checks_.fail("L1", "the world stands still");
  if (!checks_.violation()) calm_down();
  if (!checks_.violation()) checks_.everything();
  if (!checks_.violation()) judge();

  Report report;
  report.seed = seed_;
  report.violation = checks_.violation();
  report.at_commit = checks_.commit();
  report.commits = commits_;
  report.crashes = crashes_;
  report.turns = turns_;
  report.runs = checks_.runs().size();
  report.bodies = bodies_;
  report.late_bodies = late_bodies_;
  report.digest = digest_of(checks_.runs());
  report.faults = faults_;
  return report;
}

// ---------------------------------------------------------------------------------------------- the process

TimePoint World::shown() { return sabotage_ == nullptr ? now_ : sabotage_->clock(now_); }

void World::set_clock(TimePoint now) {
  now_ = now;
  latest_shown_ = std::max(latest_shown_, now_);
}

void World::register_workflows() {
  missing_workflow_.clear();
  if (chance(profile_.redeploy)) {
    if (random_.one_in(2)) {
      outside_.code_version = 3 - outside_.code_version;
    } else {
      missing_workflow_ = may_come_late[random_.below(may_come_late.size())];
    }
  }
  if (calm_) outside_.code_version = 1;
  workflows_ = std::make_unique<Workflows>(outside_);
  registry_ = std::make_unique<engine::Registry>();
  for (const Kind& kind : kinds()) {
    if (kind.name != missing_workflow_) kind.add(*registry_, *workflows_, std::string(kind.name));
  }
}

void World::open() {
  register_workflows();
  claims_ = std::make_shared<store::KeyClaims>();
  customers_.begin(*claims_);
  open_store();
  engine::LoopOptions options;
  options.frame_bytes_max = profile_.frame_bytes_max;
  options.limits.journal_entries_max = profile_.journal_entries_max;
  options.retention = profile_.retention;
  options.check_replay = profile_.check_replay;
  options.crashes_max = crashes_max;
  process_random_ = std::make_unique<base::SeededRandom>(random_.next());
  loop_ = std::make_unique<engine::Loop>(*registry_, *process_random_,
                                         static_cast<engine::Host&>(*this), options);
  evictions_ = 0;
  trace("open{}", missing_workflow_.empty() ? "" : " without " + missing_workflow_);
  loop_->open(shown());
  loop_->start_workers(shown());
}

void World::open_store() {
  auto opened = store::SqliteStore::open(database_, claims_, keys_per_era);
  store_ = std::move(opened.value());
  if (sabotage_ == nullptr) return;
  store_ = sabotage_->open(std::move(store_), database_);
  sabotage_->opened(*claims_);
}

/// Memory is lost; what was committed is not.
void World::crash() {
  ++crashes_;
  trace("crash with {} bodies under way", flights_.size());
  flights_.clear();
  outside_.forget_paused();
  batch_.reset();
  asides_.clear();
  answering_.clear();
  checks_.heard(checks_.commit());
  loop_.reset();
  store_.reset();
  clients_.disconnect();
  delivered_.clear();
  stalled_until_ = {};
  if (sabotage_ != nullptr) sabotage_->crashed(*database_);
  checks_.everything();
  if (!calm_)
    set_clock(now_ + std::chrono::milliseconds{random_.below(random_.one_in(4) ? 60'000 : 1000)});
  crash_in_.reset();
  if (chance(profile_.crash_again)) crash_in_ = random_.below(16);
  open();
}

/// Leaves in order: waits for bodies, writes their results, closes.
void World::restart() {
  trace("stop");
  loop_->begin_stop();
  const bool was_calm = std::exchange(calm_, true);
  stalled_until_ = {};
  const std::uint64_t crashes = crashes_;
  for (int i = 0; i < 10'000 && !(loop_->is_drained() && !batch_ && answering_.empty()); ++i) {
    if (crashes != crashes_ || checks_.violation()) break;
    if (!settle_one()) pass_time();
  }
  calm_ = was_calm;
  if (crashes != crashes_ || checks_.violation()) return;  // poison: it is open again
  if (!loop_->is_drained()) return checks_.fail("L6", "the engine does not stop");
  loop_->close();
  loop_->dismiss_watchers();
  take_batch();
  execute_batch();
  if (crashes != crashes_) return;
  while (!answering_.empty()) deliver_answers();
  loop_.reset();
  store_.reset();
  clients_.disconnect();
  delivered_.clear();
  checks_.everything();
  open();
}

void World::run_step(engine::StepJob job) {
  std::vector<engine::StepJob> jobs;
  if (sabotage_ == nullptr) {
    jobs.push_back(std::move(job));
  } else {
    jobs = sabotage_->bodies(std::move(job));
  }
  for (engine::StepJob& each : jobs) {
    const bool in_flight = std::ranges::any_of(
        flights_, [&](const auto& flight) { return flight->job().step_id == each.step_id; });
    checks_.body_handed_out(each, in_flight);
    trace("hand out {} {} attempt {}", each.run_id, each.op, each.attempt);
    Outside::Attempt& attempt = outside_.step(each.step_id).attempts[each.attempt];
    attempt.deadline = each.deadline;
    if (each.deadline != TimePoint::max()) attempt.timeout = each.deadline - shown();
    // Most bodies are quick; some take longer than any time-out.
    const Millis duration{random_.below(random_.one_in(3) ? 5000 : 300)};
    flights_.push_back(std::make_unique<Flight>(std::move(each), outside_, now_ + duration));
  }
}

void World::log(const LogEvent& event) { trace("engine: {}: {}", event.name, event.message); }

// ---------------------------------------------------------------------------------------------- the end

/// The faults stop. Poison goes on to kill, until its run is dead.
void World::calm_down() {
  calm_ = true;
  crash_in_.reset();
  stalled_until_ = {};
  trace("calm");
  if (!missing_workflow_.empty() || outside_.code_version != 1) restart();
  TimePoint last = now_ + calm_max;
  for (std::uint64_t i = 0; i < calm_turns_max && !checks_.violation(); ++i) {
    if (settle_one() || operate()) continue;
    const bool all_over = std::ranges::all_of(
        checks_.runs(), [](const auto& run) { return !run.second.row.is_driven(); });
    if (all_over && clients_.open().empty()) return;
    if (now_ > last) break;
    pass_time();
  }
  if (checks_.violation()) return;
  for (const auto& [key, run] : checks_.runs()) {
    if (!run.row.is_driven()) continue;
    return checks_.fail(
        "L1", fmt::format("run {} ({}) is still {} long after the faults stopped", run.id(),
                          run.row.workflow, to_string(static_cast<RunStatus>(run.row.status))));
  }
  if (!clients_.open().empty()) {
    checks_.fail("L1",
                 fmt::format("a call was never answered: {}", clients_.open().begin()->second));
  }
}

/// An operator tries again what was no fault of its own.
bool World::operate() {
  // Whoever waits for a run may wait for one that only the operator can bring on.
  const bool is_busy = std::ranges::any_of(
      clients_.open(), [](const auto& call) { return !call.second.starts_with("watch "); });
  if (is_busy) return false;
  for (const auto& [key, run] : checks_.runs()) {
    const bool is_stuck = run.row.status == Status::dead || run.row.status == Status::diverged;
    if (!is_stuck || run.row.workflow == "poison") continue;
    // Written by the other program: this one will never agree with it.
    const bool stays = run.row.status == Status::diverged && run.history.reopens() > 3;
    if (stays) continue;
    clients_.retry(*loop_, shown(), run);
    return true;
  }
  return false;
}

void World::judge() {
  for (const auto& [key, run] : checks_.runs()) {
    judge_run(run);
    judge_steps(run);
  }
  if (!outside_.complaint.empty()) checks_.fail("S5", outside_.complaint);
}

void World::judge_run(const Known& run) {
  const auto wrong = [&](const std::string& what) {
    checks_.fail("result",
                 fmt::format("run {} ({}{}): {}", run.id(), run.row.workflow, run.row.input, what));
  };
  const Kind* kind = find_kind(run.row.workflow);
  const auto failure = journal::decode_failure(run.row.failure);
  const std::string code = failure ? failure->code : "";
  switch (run.row.status) {
    case Status::completed: {
      const Evidence evidence{.step_failed = run.history.has_step_failed(),
                              .step_unknown = run.history.has_unknown_step(),
                              .other_failed = run.history.has_other_failed(),
                              .first_effect = [&](std::string_view op) {
                                const Outside::Step* step =
                                    outside_.find(step_id(run, std::string(op)));
                                return step == nullptr ? 0 : step->first_effect;
                              }};
      const std::size_t comma = run.row.input.rfind(',');
      const int n = std::stoi(run.row.input.substr(comma == std::string::npos ? 1 : comma + 1));
      if (std::string what = kind->judge(n, run.row.output, evidence); !what.empty()) wrong(what);
      break;
    }
    case Status::failed: {
      const bool by_limit = code == "JOURNAL_TOO_LARGE" && profile_.journal_entries_max < 1000;
      const bool by_deadline = code == "DEADLINE_EXCEEDED" && run.row.deadline;
      // A fork has the failures of the run it was taken from, and a body that knows nothing of them.
      const bool by_step = code == "STEP_FAILED" && (kind->may_fail || run.history.is_fork());
      if (!by_limit && !by_deadline && !by_step)
        wrong("it failed: " + code + " " + failure->message);
      break;
    }
    case Status::cancelled: {
      // A fork is being cancelled where the run it was taken from was.
      const bool by_copy = run.history.is_fork() && run.history.state().grace_until;
      const bool superseded = failure && failure->message.starts_with("superseded");
      const Known* parent = run.row.parent ? checks_.find(*run.row.parent) : nullptr;
      const bool with_parent = parent != nullptr && parent->row.status == Status::cancelled;
      // Made, cancelled and replaced by one batch, its parent was never seen.
      const bool with_unseen_parent =
          run.row.parent && parent == nullptr && run.made_in == run.ended_in;
      if (!run.cancel_asked && !superseded && !with_parent && !with_unseen_parent && !by_copy)
        wrong("nobody cancelled it");
      break;
    }
    case Status::dead:
      if (run.row.workflow != "poison") wrong("it is dead");
      break;
    case Status::diverged: {
      if (run.row.workflow != "drifting") wrong("it diverged");
      break;
    }
    default:
      wrong("it is not over");
  }
}

/// S5: a step with a result was done; no attempt was made that the journal has not asked for.
void World::judge_steps(const Known& run) {
  for (const auto& [op, step] : run.history.steps()) {
    const Outside::Step* outside = outside_.find(step_id(run, op));
    const int begun = outside == nullptr ? 0 : outside->begun;
    if (begun > 1 + static_cast<int>(step.retries)) {
      checks_.fail("S5",
                   fmt::format("run {}: step {} began {} times, the journal knows of {} retries",
                               run.id(), op, begun, step.retries));
    }
  }
}

}  // namespace semel::sim
