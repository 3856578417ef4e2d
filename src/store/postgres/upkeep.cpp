#include "store/postgres/upkeep.hpp"

#include <algorithm>
#include <set>

namespace semel::store::postgres {

namespace {

constexpr const char* take_keys =
    "UPDATE semel.counter SET next = next + $1::bigint WHERE name = 'run'"
    " RETURNING next - $1::bigint";

constexpr const char* timers_due =
    "SELECT t.due, t.run, t.kind, t.op FROM semel.timer t JOIN semel.run r ON r.run = t.run"
    " WHERE r.status < 3 AND ($2::bigint = 0"
    "  OR r.partition IN (SELECT partition FROM semel.partition WHERE node = $2::bigint))"
    " ORDER BY t.due, t.run, t.kind, t.op LIMIT $1::bigint";
constexpr const char* runs_with_work =
    "SELECT w.run FROM (SELECT run FROM semel.run WHERE status = 1 AND status < 3 AND run > "
    "$1::bigint"
    " UNION SELECT run FROM semel.inbox WHERE run > $1::bigint"
    " UNION SELECT run FROM semel.payload WHERE run > $1::bigint) w"
    " JOIN semel.run r ON r.run = w.run WHERE r.status < 3 AND ($3::bigint = 0"
    "  OR r.partition IN (SELECT partition FROM semel.partition WHERE node = $3::bigint))"
    " ORDER BY 1 LIMIT $2::bigint";
constexpr const char* runs_not_ended =
    "SELECT run FROM semel.run WHERE run = ANY($1::bigint[]) AND status < 3";

// What another node has in hand is left for the next sweep. What is to go is chosen once, in an array: a
// subquery that skips what is locked may be executed again and again by a join, and then takes more than its limit.
constexpr const char* forget_keys =
    "UPDATE semel.run SET holds_key = 0, key_until = NULL WHERE run = ANY (ARRAY(SELECT run"
    " FROM semel.run WHERE key_until <= $1::bigint ORDER BY key_until, run LIMIT $2::bigint"
    " FOR UPDATE SKIP LOCKED))";
constexpr const char* remove_runs =
    "WITH gone AS (DELETE FROM semel.run WHERE run = ANY (ARRAY(SELECT run FROM semel.run"
    " WHERE keep_until <= $1::bigint ORDER BY keep_until, run LIMIT $2::bigint"
    " FOR UPDATE SKIP LOCKED)) RETURNING run),"
    " attributes AS (DELETE FROM semel.attribute WHERE run IN (SELECT run FROM gone)),"
    " hooks AS (DELETE FROM semel.hook WHERE run IN (SELECT run FROM gone)),"
    " payloads AS (DELETE FROM semel.payload WHERE run IN (SELECT run FROM gone))"
    " INSERT INTO semel.garbage (run) SELECT run FROM gone";
// By their places: to join them by their three names PostgreSQL would read the whole table.
constexpr const char* forget_resumes =
    "DELETE FROM semel.resume WHERE ctid = ANY (ARRAY(SELECT ctid FROM semel.resume"
    " WHERE until <= $1::bigint ORDER BY until LIMIT $2::bigint FOR UPDATE SKIP LOCKED))";
constexpr const char* forget_reservations =
    "DELETE FROM semel.reservation WHERE digest = ANY (ARRAY(SELECT digest"
    " FROM semel.reservation WHERE sweep_at <= $1::bigint ORDER BY sweep_at, fence LIMIT $2::bigint"
    " FOR UPDATE SKIP LOCKED))";
// Run by run: a plan for both tables at once depends on what PostgreSQL takes their sizes to be.
constexpr const char* remove_entries =
    "DELETE FROM semel.journal WHERE (run, seq) IN (SELECT j.run, j.seq FROM"
    " (SELECT run FROM semel.garbage ORDER BY run LIMIT $1::bigint) g, LATERAL (SELECT e.run, e.seq"
    "  FROM semel.journal e WHERE e.run = g.run ORDER BY e.seq LIMIT $1::bigint) j"
    " LIMIT $1::bigint)";
constexpr const char* forget_garbage =
    "DELETE FROM semel.garbage WHERE run IN (SELECT run FROM semel.garbage ORDER BY run"
    " LIMIT $1::bigint) AND NOT EXISTS (SELECT 1 FROM semel.journal j WHERE j.run = garbage.run)";

std::int64_t changed_by(Connection& connection, const char* sql, const Parameters& parameters) {
  std::int64_t changed = 0;
  Pipeline pipeline{connection};
  pipeline.add(sql, parameters, [&](const Rows& rows) { changed = rows.changed(); });
  pipeline.run();
  return changed;
}

}  // namespace

KeysReserved reserve_keys(Connection& connection, const ReserveKeys& command) {
  KeysReserved answer;
  Pipeline pipeline{connection};
  pipeline.add(take_keys, Parameters::of(command.keys_count),
               [&](const Rows& rows) { answer.first_key = rows.integer(0, 0); });
  pipeline.run();
  return answer;
}

TimersDue find_due(Connection& connection, const FindDue& command, std::int64_t node) {
  TimersDue found;
  Pipeline pipeline{connection};
  // One more than asked for: that one, or the first that is not due yet, says when to ask again.
  pipeline.add(timers_due, Parameters::of(command.limit + 1, node), [&](const Rows& rows) {
    for (int i = 0; i < rows.size(); ++i) {
      Timer timer{.run = rows.integer(i, 1),
                  .kind = static_cast<TimerKind>(rows.integer(i, 2)),
                  .op = rows.text(i, 3),
                  .due = rows.time(i, 0)};
      if (timer.due > command.now || std::ssize(found.timers) == command.limit) {
        found.next = timer.due;
        return;
      }
      found.timers.push_back(std::move(timer));
    }
  });
  pipeline.run();
  return found;
}

RunsFound find_work(Connection& connection, const FindWork& command, std::int64_t node) {
  RunsFound found;
  Pipeline pipeline{connection};
  pipeline.add(runs_with_work, Parameters::of(command.after, command.limit, node),
               [&](const Rows& rows) {
                 for (int i = 0; i < rows.size(); ++i) found.runs.push_back(rows.integer(i, 0));
               });
  pipeline.run();
  return found;
}

RunsFound find_ended(Connection& connection, const FindEnded& command) {
  Array runs = Array::of_integers();
  for (const RunKey run : command.runs) runs.add(run);
  Parameters parameters;
  parameters.add(runs);
  std::set<RunKey> going_on;
  Pipeline pipeline{connection};
  pipeline.add(runs_not_ended, parameters, [&](const Rows& rows) {
    for (int i = 0; i < rows.size(); ++i) going_on.insert(rows.integer(i, 0));
  });
  pipeline.run();
  RunsFound found;
  std::ranges::copy_if(command.runs, std::back_inserter(found.runs),
                       [&](RunKey run) { return !going_on.contains(run); });
  return found;
}

Swept sweep(Connection& connection, const Sweep& command) {
  Swept answer;
  std::int64_t left = command.limit;
  const auto take = [&](std::int64_t& count, const char* sql) {
    count = changed_by(connection, sql, Parameters::of(command.now, left));
    left -= count;
  };
  take(answer.runs, remove_runs);  // before the keys: most go with their runs
  take(answer.keys, forget_keys);
  take(answer.resume_ids, forget_resumes);
  take(answer.reservations, forget_reservations);
  answer.entries = changed_by(connection, remove_entries, Parameters::of(left));
  changed_by(connection, forget_garbage, Parameters::of(command.limit));
  answer.more = answer.entries == left;
  return answer;
}

}  // namespace semel::store::postgres
