#include "store/postgres/presumed.hpp"

#include <numeric>
#include <set>

namespace semel::store::postgres {

namespace {

constexpr std::size_t open_max = 1U << 16U;
/// They take two statements each, and all of a batch with BEGIN and COMMIT five.
constexpr std::size_t few_entries_max = 2;

// `status + 0`: rows are to be found by their number. Where few runs are open PostgreSQL would rather go through the index of
// those, which is full of entries of runs that have ended.
constexpr const char* end_open_runs =
    "WITH ended AS (UPDATE semel.run r SET ended_at = x.at, status = x.status,"
    " failure = x.failure, output = x.output,"
    " key_until = CASE WHEN r.holds_key = 1 THEN x.at + r.key_ttl END,"
    " keep_until = x.at + CASE WHEN r.holds_key = 1 THEN greatest(r.key_ttl, r.retention)"
    "  ELSE r.retention END"
    " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[])"
    " AS x(run, at, status, failure, output) WHERE r.run = x.run AND r.status + 0 < 3 RETURNING 1)"
    " SELECT 1 / (count(*) = $6::bigint)::int FROM ended";
constexpr const char* are_open =
    "SELECT 1 / (count(*) = $2::bigint)::int FROM unnest($1::bigint[]) AS x(run)"
    " JOIN semel.run r ON r.run = x.run WHERE r.status + 0 < 3";
/// By ranges of one run, as in loading.cpp; in order, so that no plan reads the table in the hope of the first row.
constexpr const char* are_alone =
    "SELECT 1 / (NOT EXISTS (SELECT FROM unnest($1::bigint[]) AS x(run), LATERAL (SELECT 1"
    "  FROM semel.waiter w WHERE w.target BETWEEN x.run AND x.run ORDER BY w.target LIMIT 1) y)"
    " AND NOT EXISTS (SELECT FROM unnest($1::bigint[]) AS x(run), LATERAL (SELECT 1"
    "  FROM semel.inbox i WHERE i.run BETWEEN x.run AND x.run ORDER BY i.run LIMIT 1) y))::int";

/// As `assert_node` does: the row is locked where it is there, and the statement fails where it is not. Of one entry: for
/// arrays of one the server would take half as long again as for the entry.
constexpr const char* append_as_node =
    "INSERT INTO semel.journal (run, seq, at, entry)"
    " SELECT $1::bigint, $2::bigint, $3::bigint, $4::bytea"
    " WHERE 1 / (SELECT count(*) FROM (SELECT node FROM semel.node WHERE node = $5::bigint"
    "  FOR KEY SHARE) n) = 1";
constexpr const char* is_open_run =
    "SELECT 1 / count(*) FROM semel.run WHERE run = $1::bigint AND status + 0 < 3";

Parameters with_count(Parameters parameters, std::size_t count) {
  parameters.add(count);
  return parameters;
}

template <class Table, class Key>
bool has_any(const Table& table, const Key& first, RunKey run) {
  const auto found = table.from(first);
  return found != table.slots().end() && std::get<0>(found->first) == run;
}

/// Of a run that this batch made.
bool is_alone(const Held& held, RunKey run) {
  return !has_any(held.timers, TimerName{run, TimerKind::sleep, ""}, run) &&
         !has_any(held.waits, Operation{run, ""}, run) &&
         !has_any(held.progress, Operation{run, ""}, run) && !held.hooks_by_run.contains(run);
}

bool is_open(Status status) { return status <= Status::waiting; }

/// None: it is over, or not the writer's.
std::optional<OpenRun> as_left(const Held& held, RunKey run, const std::optional<Seq>& end) {
  const Seq next = end ? *end + 1 : 0;
  const auto row = held.runs.slots().find(run);
  if (row == held.runs.slots().end()) {
    const auto before = held.known.open.find(run);
    if (held.presumed_ends.find(run) != nullptr || before == held.known.open.end())
      return std::nullopt;
    return OpenRun{.next = next, .is_alone = before->second.is_alone};
  }
  const auto& slot = row->second;
  if (!slot.now || !is_open(slot.now->status) || !held.known.owned.has(slot.now->partition))
    return std::nullopt;
  return OpenRun{.next = next, .is_alone = !slot.is_stored && is_alone(held, run)};
}

}  // namespace

bool is_only_entries(const Changes& changes) {
  return !changes.status && changes.code_version == 0 && changes.timers_set.empty() &&
         changes.timers_cleared.empty() && changes.inbox_consumed.empty() &&
         changes.payloads_consumed.empty() && changes.attributes.empty() &&
         changes.children.empty() && changes.waits.empty() && changes.waits_dropped.empty() &&
         changes.hooks.empty() && !changes.continue_as_new;
}

bool can_presume(const AdvanceRun& command, const Known& known) {
  const auto open = known.open.find(command.run);
  return open != known.open.end() && !command.entries.empty() && is_only_entries(command.changes) &&
         (!command.changes.end || open->second.is_alone);
}

void write_presumed_ends(Pipeline& pipeline, const Held& held) {
  Columns ends{"iiibb"};
  std::size_t count = 0;
  for (const auto& [run, slot] : held.presumed_ends.slots()) {
    const PresumedEnd& end = *slot.now;
    ends.add(run, end.at, end.status, end.failure, end.output);
    ++count;
  }
  if (count > 0) pipeline.add(end_open_runs, with_count(ends.parameters(), count));
}

bool is_few_entries(const Held& held) {
  const auto changes = held.mark().ledgers;
  const std::size_t entries = held.journal.mark();
  return entries > 0 && entries <= few_entries_max && held.runs.slots().empty() &&
         held.hints.empty() &&
         std::accumulate(changes.begin(), changes.end(), std::size_t{0}) ==
             entries + held.ends.mark();
}

void write_few_entries(Pipeline& pipeline, const Held& held, std::int64_t node) {
  std::set<RunKey> runs;
  for (const auto& [position, slot] : held.journal.slots()) {
    const auto& [run, seq] = position;
    pipeline.add(append_as_node, Parameters::of(run, seq, slot.now->at, slot.now->bytes, node));
    runs.insert(run);
  }
  for (const RunKey run : runs) pipeline.add(is_open_run, Parameters::of(run));
}

void bear_out(Pipeline& pipeline, const Held& held) {
  Columns open{"i"};
  std::size_t count = 0;
  for (const auto& [run, slot] : held.ends.slots()) {
    if (!slot.is_changed || held.runs.slots().contains(run) ||
        held.presumed_ends.find(run) != nullptr)
      continue;
    open.add(run);
    ++count;
  }
  if (count > 0) pipeline.add(are_open, with_count(open.parameters(), count));
  Columns alone{"i"};
  for (const auto& [run, slot] : held.presumed_ends.slots()) alone.add(run);
  if (!alone.empty()) pipeline.add(are_alone, alone.parameters());
}

void remember(const Held& held) {
  auto& open = held.known.open;
  for (const auto& [run, slot] : held.runs.slots()) {
    const auto known = open.find(run);
    if (known == open.end()) continue;
    if (!slot.now || !is_open(slot.now->status)) {
      open.erase(known);
    } else {
      known->second.is_alone = false;  // whatever it was read for
    }
  }
  for (const auto& [run, slot] : held.ends.slots()) {
    if (!slot.is_changed) continue;
    const auto left = slot.now ? as_left(held, run, *slot.now) : std::nullopt;
    if (!left) {
      open.erase(run);
      continue;
    }
    if (open.size() >= open_max) open.clear();
    open.insert_or_assign(run, *left);
  }
}

}  // namespace semel::store::postgres
