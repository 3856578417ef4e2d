#include "store/starting.hpp"

#include "base/assert.hpp"
#include "store/changing.hpp"
#include "store/ending.hpp"

namespace semel::store {

namespace {

constexpr const char* superseded = "superseded by another run with the same key or token";

/// Whether cancelling `top` would reach `run`: cancels go down through unfinished children.
bool is_above(Tables& tables, RunKey top, RunKey run) {
  for (std::optional<RunKey> at = run; at;) {
    if (*at == top) return true;
    const auto place = tables.runs.place(*at);
    at = place ? place->parent : std::nullopt;
    const auto status = at ? tables.runs.status(*at) : std::nullopt;
    if (!status || is_end(*status)) return false;
  }
  return false;
}

StartDecision ask_holders(Tables& tables, const NewRun& run, std::int64_t workspace,
                          std::optional<RunKey> asker) {
  const auto by_key = run.idempotency_key
                          ? tables.runs.holder_of_key(workspace, *run.idempotency_key)
                          : std::nullopt;
  const auto by_id = tables.runs.holder_of_id(workspace, run.id);
  // Otherwise the run's own number was taken: two processes use the same range.
  SEMEL_ASSERT(by_key || by_id);
  StartDecision decision = decide_start(run, by_key, by_id);
  const Create* create = std::get_if<Create>(&decision);
  if (create != nullptr && create->cancel && asker && is_above(tables, *create->cancel, *asker)) {
    const Holder& holder = by_key && by_key->run == *create->cancel ? *by_key : *by_id;
    return StartRefused{StartRefused::Why::run_active, holder.id};
  }
  return decision;
}

/// The claims of a newcomer that other runs have, and who they are.
using TokenHolders = std::vector<std::pair<const HookClaim*, RunKey>>;

/// Takes the tokens that are free. Where one is not, the newcomer is refused, or may supersede its holder.
std::optional<StartRefused> claim_tokens(Tables& tables, const NewRun& run, std::int64_t workspace,
                                         std::optional<RunKey> asker, TokenHolders& in_the_way) {
  for (const HookClaim& claim : run.hooks) {
    if (tables.hooks.insert(workspace, run.key, claim, run.created_at)) continue;
    const RunKey holder = tables.hooks.active(workspace, claim.token)->run;
    const auto refused = [&](StartRefused::Why why) {
      return StartRefused{why, tables.runs.place(holder)->id};
    };
    if (run.on_running != OnRunning::supersede) return refused(StartRefused::Why::hook_conflict);
    if (asker && is_above(tables, holder, *asker)) return refused(StartRefused::Why::run_active);
    in_the_way.emplace_back(&claim, holder);
  }
  return std::nullopt;
}

void supersede(Tables& tables, const NewRun& run, std::int64_t workspace,
               const TokenHolders& in_the_way, Effects& effects) {
  for (const auto& [claim, holder] : in_the_way) {
    // It may have had the key, too, or be a child of one before it: then it is cancelled already.
    const auto status = tables.runs.status(holder);
    if (status && !is_end(*status)) {
      cancel_tree(tables, holder, std::nullopt, superseded, run.created_at, effects);
    }
    const bool is_free =
        tables.hooks.insert(workspace, run.key, *claim, run.created_at).has_value();
    SEMEL_ASSERT(is_free);
  }
}

void free_claims(Tables& tables, const Create& create, TimePoint now, Effects& effects) {
  if (create.cancel) cancel_tree(tables, *create.cancel, std::nullopt, superseded, now, effects);
  if (create.remove) remove_run(tables, *create.remove);
  if (create.release) tables.runs.release_key(*create.release);
}

void set_first_timers(Tables& tables, const NewRun& run) {
  if (run.start_at) tables.wakeups.set_timer(run.key, TimerKind::start, "", *run.start_at);
  if (run.deadline) tables.wakeups.set_timer(run.key, TimerKind::deadline, "", *run.deadline);
}

}  // namespace

Claim create_run(Tables& tables, const NewRun& run, Status status, std::optional<RunKey> asker,
                 Effects& effects) {
  const std::int64_t workspace = tables.runs.workspace_or_create(run.workspace);
  const bool inserted = tables.runs.insert(run, workspace, status);
  Create create;
  if (!inserted) {
    ++tables.counters.claims_held;
    const StartDecision decision = ask_holders(tables, run, workspace, asker);
    if (const auto* holder = std::get_if<HandBack>(&decision)) return *holder;
    if (const auto* refused = std::get_if<StartRefused>(&decision)) {
      ++tables.counters.starts_refused;
      return *refused;
    }
    create = std::get<Create>(decision);
  }
  tables.open_runs.created(run.key);
  TokenHolders in_the_way;
  if (auto refused = claim_tokens(tables, run, workspace, asker, in_the_way)) {
    tables.hooks.remove(run.key);
    tables.open_runs.closed(run.key);
    if (inserted) tables.runs.remove(run.key);
    ++tables.counters.starts_refused;
    return *std::move(refused);
  }
  if (!inserted || !in_the_way.empty()) {
    // Not there while others are cancelled: it may have been made as a child of one of them.
    if (inserted) tables.runs.remove(run.key);
    free_claims(tables, create, run.created_at, effects);
    supersede(tables, run, workspace, in_the_way, effects);
    const bool is_free = tables.runs.insert(run, workspace, status);
    SEMEL_ASSERT(is_free);
  }
  set_first_timers(tables, run);
  for (const auto& [name, value] : run.attributes) tables.runs.set_attribute(run.key, name, value);
  return Created{};
}

void remove_run(Tables& tables, RunKey run) {
  tables.runs.remove(run);
  tables.open_runs.closed(run);
  tables.hooks.remove(run);
  tables.journal.discard(run);
}

Answer start_run(Tables& tables, const StartRun& command) {
  const NewRun& run = command.run;
  const Status status =
      command.changes.status.value_or(run.start_at ? Status::pending : Status::running);
  RunStarted answer;
  const Claim claim = create_run(tables, run, status, std::nullopt, answer.effects);
  if (const auto* refused = std::get_if<StartRefused>(&claim)) return *refused;
  if (const auto* holder = std::get_if<HandBack>(&claim))
    return RunExists{*tables.runs.record(holder->run)};

  if (!command.first_entry.empty())
    tables.journal.append(run.key, 0, run.created_at, command.first_entry);
  const Seq next = command.first_entry.empty() ? 0 : 1;
  apply(tables, run.key, next, command.changes, run.created_at, answer.effects);
  return answer;
}

}  // namespace semel::store
