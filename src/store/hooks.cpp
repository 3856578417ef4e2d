#include "store/hooks.hpp"

#include "base/assert.hpp"
#include "store/changing.hpp"
#include "store/outcome.hpp"
#include "store/start_text.hpp"
#include "store/starting.hpp"

namespace semel::store {

namespace {

std::string id_of(Tables& tables, RunKey run) { return tables.runs.place(run)->id; }

std::optional<value::Misfit> check(Tables& tables, const HookRow& hook,
                                   const PayloadItem& payload) {
  if (payload.checked) return std::nullopt;
  return tables.shapes.check(hook.shape, payload.value);
}

/// In place of a start: the payload's run was started by it.
const std::string started_its_run;

/// What the resume id says, if it was used before.
std::optional<Answer> repeated(Tables& tables, std::int64_t workspace, const Deliver& deliver) {
  if (!deliver.resume_id) return std::nullopt;
  const auto receipt = tables.hooks.receipt(workspace, deliver);
  if (!receipt) return std::nullopt;
  ++tables.counters.resumes_repeated;
  if (receipt->fingerprint != deliver.fingerprint) return ResumeIdReused{receipt->run_id};
  return Delivered{.run_id = receipt->run_id,
                   .hook_id = std::to_string(receipt->hook),
                   .started = receipt->started};
}

/// The receipt for a payload that `hook` gets.
Delivered receipt(Tables& tables, const HookRow& hook, const Deliver& deliver, bool started) {
  Delivered answer{
      .run_id = id_of(tables, hook.run), .hook_id = std::to_string(hook.key), .started = started};
  if (deliver.resume_id) {
    tables.hooks.remember(hook.workspace, deliver,
                          {deliver.fingerprint, answer.run_id, hook.key, started});
  }
  return answer;
}

/// The run goes on with the payload at once, if all is as it was thought to be.
bool read_at_once(Tables& tables, const HookRow& hook, const Deliver& deliver, Effects& effects) {
  if (!deliver.reading) return false;
  const auto& [op, step] = *deliver.reading;
  const bool is_first_in_line = !hook.fed && !tables.hooks.has_payload(hook.key);
  return hook.run == step.run && hook.op == op && is_first_in_line &&
         advance_if_next(tables, step, effects);
}

std::optional<PayloadRefused> misfit(Tables& tables, const std::string& shape,
                                     const Deliver& deliver) {
  auto found = tables.shapes.check(shape, deliver.payload);
  if (!found) return std::nullopt;
  ++tables.counters.payloads_refused;
  return PayloadRefused{std::move(found->path), std::move(found->message)};
}

/// For an active hook.
Answer deliver_to(Tables& tables, const HookRow& hook, const Deliver& deliver,
                  const std::optional<std::string>& start) {
  if (deliver.expected_version) {
    const auto version = tables.journal.last(hook.run);
    if (version.value_or(0) != *deliver.expected_version) {
      ++tables.counters.versions_moved;
      return VersionMoved{version};
    }
  }
  if (auto refused = misfit(tables, hook.shape, deliver)) return *std::move(refused);
  // First of all: the run may go with what it does next.
  Delivered answer = receipt(tables, hook, deliver, false);
  answer.read = read_at_once(tables, hook, deliver, answer.effects);
  if (answer.read) return answer;
  tables.hooks.put(hook, deliver, start);
  answer.effects.wake.push_back(hook.run);
  return answer;
}

}  // namespace

std::optional<std::string> open_hook(Tables& tables, std::int64_t workspace, RunKey run,
                                     const HookClaim& claim, TimePoint now) {
  if (tables.hooks.insert(workspace, run, claim, now)) return std::nullopt;
  const auto holder = tables.hooks.active(workspace, claim.token);
  SEMEL_ASSERT(holder);
  const bool is_mine = holder->run == run && (holder->op.empty() || holder->op == claim.op);
  if (!is_mine) {
    ++tables.counters.hooks_in_conflict;
    return id_of(tables, holder->run);
  }
  if (holder->op.empty()) tables.hooks.adopt(*holder, claim);
  return std::nullopt;
}

void HookChanges::apply(const HookChange& change) {
  switch (change.kind) {
    case HookChange::Kind::open:
      return open(change);
    case HookChange::Kind::next:
    case HookChange::Kind::try_next:
      return next(change);
    case HookChange::Kind::close:
      return close(change);
    case HookChange::Kind::release:
      if (const auto hook = tables_.hooks.active_of(run_, change.hook)) release(*hook);
      return;
  }
}

void HookChanges::open(const HookChange& change) {
  SEMEL_ASSERT(change.claim.op == change.op);
  const auto owner = open_hook(tables_, workspace_, run_, change.claim, now_);
  if (owner) {
    conflicts_[change.op] = {change.claim.token, *owner};
    answer_(conflict_outcome(change.op, change.claim.token, *owner));
  } else if (change.awaited) {
    answer_(hook_outcome(change.op));
  }
}

bool HookChanges::answered_conflict(const HookChange& change) {
  const auto conflict = conflicts_.find(change.hook);
  if (conflict == conflicts_.end()) return false;
  const auto& [token, owner] = conflict->second;
  // An await hears of it with the hook itself.
  if (change.kind != HookChange::Kind::next) answer_(conflict_outcome(change.op, token, owner));
  return true;
}

void HookChanges::next(const HookChange& change) {
  if (answered_conflict(change)) return;
  const auto hook = tables_.hooks.active_of(run_, change.hook);
  const auto payload = hook ? tables_.hooks.oldest(*hook) : std::nullopt;
  if (!payload && change.kind == HookChange::Kind::next) return;
  const auto wrong = payload ? check(tables_, *hook, *payload) : std::nullopt;
  if (payload) tables_.hooks.consume(run_, payload->id);
  answer_(payload_outcome(change.op, payload, wrong));
}

void HookChanges::close(const HookChange& change) {
  if (answered_conflict(change)) return;
  const auto hook = tables_.hooks.active_of(run_, change.hook);
  const bool is_free = !hook || !tables_.hooks.has_payload(hook->key);
  if (hook && is_free) release(*hook);
  answer_(close_outcome(change.op, is_free));
}

void HookChanges::release(const HookRow& hook) {
  tables_.hooks.release(hook.key, false);
  if (tables_.hooks.has_payload(hook.key)) released_.push_back(hook);
}

void release_at_end(Tables& tables, RunKey run, Status status, TimePoint now, Effects& effects) {
  const std::vector<HookRow> hooks = tables.hooks.active_of(run);
  for (const HookRow& hook : hooks) tables.hooks.release(hook.key, status == Status::failed);
  if (status == Status::cancelled) return;
  for (const HookRow& hook : hooks) pass_on(tables, hook, now, effects);
}

void pass_on(Tables& tables, const HookRow& gone, TimePoint now, Effects& effects) {
  if (const auto taken = tables.hooks.active(gone.workspace, gone.token)) {
    tables.hooks.move(gone.key, *taken, taken->shape == gone.shape);
    if (gone.fed) tables.hooks.set_fed(taken->key, true);
    effects.wake.push_back(taken->run);
    return;
  }
  // A run that was started for these payloads and read none has no successor: that would do no better.
  const auto starter = gone.fed ? std::nullopt : tables.hooks.oldest_starter(gone.key);
  if (!starter) return;
  auto run =
      decode_start(starter->start, tables.runs.place(gone.run)->workspace_name, gone.token, now);
  if (!run) throw_corrupt(run.error().message);
  const Status status = run->start_at ? Status::pending : Status::running;
  const Claim claim = create_run(tables, *run, status, std::nullopt, effects);
  // Somebody holds its key or its id: the payloads stay where they are, to be looked at.
  if (!std::holds_alternative<Created>(claim)) return;
  if (status == Status::running) effects.created.push_back(run->key);
  const auto hook = tables.hooks.active(gone.workspace, gone.token);
  SEMEL_ASSERT(hook && hook->run == run->key);
  tables.hooks.move(gone.key, *hook, hook->shape == gone.shape);
  tables.hooks.spend(starter->payload);
  tables.hooks.set_fed(hook->key, true);
  ++tables.counters.successors;
}

Answer deliver(Tables& tables, const Deliver& command) {
  const auto workspace = tables.runs.workspace(command.workspace);
  if (!workspace) return HookMissing{};
  if (auto answer = repeated(tables, *workspace, command)) return *std::move(answer);
  const auto hook = tables.hooks.active(*workspace, command.token);
  if (!hook) return HookMissing{};
  return deliver_to(tables, *hook, command, std::nullopt);
}

Answer resume_or_start(Tables& tables, const ResumeOrStart& command) {
  const Deliver& payload = command.deliver;
  const NewRun& run = command.run;
  SEMEL_ASSERT(run.workspace == payload.workspace && run.hooks.size() == 1 &&
               run.hooks.front().token == payload.token);
  const std::int64_t workspace = tables.runs.workspace_or_create(payload.workspace);
  if (auto answer = repeated(tables, workspace, payload)) return *std::move(answer);
  if (const auto hook = tables.hooks.active(workspace, payload.token))
    return deliver_to(tables, *hook, payload, encode_start(run));

  if (auto refused = misfit(tables, run.hooks.front().shape, payload)) return *std::move(refused);
  Effects effects;
  const Status status = run.start_at ? Status::pending : Status::running;
  const Claim claim = create_run(tables, run, status, std::nullopt, effects);
  if (const auto* refused = std::get_if<StartRefused>(&claim)) return *refused;
  if (const auto* holder = std::get_if<HandBack>(&claim)) {
    ++tables.counters.starts_refused;
    const bool is_over = is_end(*tables.runs.status(holder->run));
    return StartRefused{is_over ? StartRefused::Why::run_finished : StartRefused::Why::run_active,
                        id_of(tables, holder->run)};
  }
  const auto hook = tables.hooks.active(workspace, payload.token);
  SEMEL_ASSERT(hook && hook->run == run.key);
  tables.hooks.set_fed(hook->key, true);
  tables.hooks.put(*hook, payload, started_its_run);
  Delivered answer = receipt(tables, *hook, payload, true);
  answer.effects = std::move(effects);
  if (status == Status::running) answer.effects.created.push_back(run.key);
  return answer;
}

}  // namespace semel::store
