#include "store/ending.hpp"

#include "base/assert.hpp"
#include "store/hooks.hpp"
#include "store/outcome.hpp"

#include <unordered_set>

namespace semel::store {

namespace {

/// As waiters see it: a cancelled run fails them under one code, whatever ended it.
InboxItem result_of(const RunTable::Outcome& outcome, const std::string& op) {
  InboxItem item{.kind = InboxItem::Kind::result, .op = op};
  if (outcome.status == Status::completed) {
    item.value = outcome.output;
    return item;
  }
  item.failure = outcome.failure.value_or(journal::Failure{});
  if (outcome.status == Status::cancelled) item.failure->code = "RUN_CANCELLED";
  if (item.failure->code.empty()) item.failure->code = "RUN_FAILED";
  return item;
}

/// Nobody drives it yet or any more, so nobody would read its inbox.
bool is_driven(Status status) { return status == Status::running || status == Status::waiting; }

void cancel_one(Tables& tables, RunKey run, const std::string& reason, TimePoint now,
                Effects& effects) {
  const journal::Entry entry = cancelled_entry(reason);
  tables.journal.append(run, tables.journal.next(run), now, journal::encode(entry));
  const End end{.status = Status::cancelled, .failure = entry.arrival.failure};
  end_run(tables, run, end, now, effects);
  effects.ended.push_back(run);
}

/// `run` and the unfinished runs below it, each before its children. A run has one parent and is older than its children,
/// so this ends.
std::vector<RunKey> tree_of(Tables& tables, RunKey run) {
  std::vector<RunKey> found;
  std::vector<RunKey> open{run};
  while (!open.empty()) {
    const RunKey next = open.back();
    open.pop_back();
    found.push_back(next);
    const std::vector<RunKey> children = tables.runs.unfinished_children(next);
    open.insert(open.end(), children.rbegin(), children.rend());
  }
  return found;
}

}  // namespace

void end_run(Tables& tables, RunKey run, const End& end, TimePoint now, Effects& effects) {
  SEMEL_ASSERT(is_end(end.status));
  const bool is_alone = tables.open_runs.is_alone(run);
  tables.runs.end(run, end, now);
  tables.open_runs.closed(run);
  if (is_alone) return;
  tables.wakeups.clear(run);
  release_at_end(tables, run, end.status, now, effects);
  for (const Wakeups::Waiter& waiter : tables.wakeups.take_waiters(run)) {
    tables.wakeups.put(waiter.run, result_of({end.status, end.output, end.failure}, waiter.op));
    effects.wake.push_back(waiter.run);
  }
}

void deliver_result(Tables& tables, RunKey target, RunKey run, const std::string& op,
                    Effects& effects) {
  tables.wakeups.put(run, result_of(tables.runs.outcome(target), op));
  effects.wake.push_back(run);
}

void cancel_tree(Tables& tables, RunKey run, const std::optional<TimePoint>& grace_until,
                 const std::string& reason, TimePoint now, Effects& effects) {
  for (const RunKey member : tree_of(tables, run)) {
    const auto status = tables.runs.status(member);
    SEMEL_ASSERT(status && !is_end(*status));
    if (grace_until && is_driven(*status)) {
      tables.wakeups.put(member, {.kind = InboxItem::Kind::cancel, .at = *grace_until});
      effects.wake.push_back(member);
    } else {
      cancel_one(tables, member, reason, now, effects);
    }
  }
}

Answer cancel_run(Tables& tables, const CancelRun& command) {
  const auto workspace = tables.runs.workspace(command.workspace);
  const auto run = workspace ? tables.runs.find(*workspace, command.id) : std::nullopt;
  if (!run) return RunMissing{};
  auto record = tables.runs.record(*run);
  // First of all, so that a cancel repeated with the version it was decided by is answered as the first was.
  if (record->status == Status::cancelled) return Cancelled{*std::move(record), {}};
  if (is_end(record->status)) {
    ++tables.counters.not_active;
    return NotActive{*std::move(record)};
  }
  if (command.expected_version && *command.expected_version != record->version.value_or(0)) {
    ++tables.counters.versions_moved;
    return VersionMoved{record->version};
  }

  Cancelled answer;
  cancel_tree(tables, *run, command.grace_until, command.reason, command.now, answer.effects);
  settle(answer.effects);
  std::erase(answer.effects.ended, *run);
  answer.run = *tables.runs.record(*run);
  return answer;
}

void settle(Effects& effects) {
  std::unordered_set<RunKey> seen{effects.ended.begin(), effects.ended.end()};
  std::erase_if(effects.wake, [&](RunKey run) { return !seen.insert(run).second; });
}

}  // namespace semel::store
