#include "store/postgres/nodes.hpp"

#include "store/postgres/held.hpp"
#include "store/postgres/schema.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace semel::store::postgres {

namespace {

constexpr const char* add_node =
    "INSERT INTO semel.node (opened_at, kept_at, lease, works, backend, backend_start, name)"
    " SELECT $1::bigint, $1::bigint, $2::bigint, $3::bigint, pg_backend_pid(),"
    " (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()), $4::bytea"
    " RETURNING node";
constexpr const char* remove_node = "DELETE FROM semel.node WHERE node = $1::bigint";

constexpr const char* tell_workflows =
    "UPDATE semel.node SET workflows = $2::bytea[], versions = $3::bigint[]"
    " WHERE node = $1::bigint";

/// A node whose connection is gone is given a third of its lease to come back by itself, unless it is its successor that
/// asks. One that is just writing is alive, whatever its row says.
#define SEMEL_DEAD                                                              \
  "n.node <> $1::bigint AND (n.kept_at + n.lease < $2::bigint"                  \
  "  OR (n.name = $3::bytea OR n.kept_at + n.lease / 3 < $2::bigint)"           \
  "   AND NOT EXISTS (SELECT 1 FROM pg_stat_activity a WHERE a.pid = n.backend" \
  "    AND (a.backend_start IS NULL OR a.backend_start = n.backend_start)))"
/// Of a process that was stopped in the middle of sending a batch PostgreSQL awaits the rest, without a limit: for it the
/// transaction is not idle. Its locks keep others from its runs, and its node's row from being removed. (Whose sessions these
/// are not, and who may not end them, does not try.)
constexpr const char* end_silent_backends =
    "SELECT pg_terminate_backend(a.pid) FROM semel.node n JOIN pg_stat_activity a"
    " ON a.pid = n.backend AND a.backend_start = n.backend_start"
    " WHERE a.usename = current_user AND a.xact_start IS NOT NULL AND a.wait_event = 'ClientRead'"
    " AND a.state_change < clock_timestamp() - make_interval(secs => n.lease / 1e9)";
constexpr const char* remove_dead =
    "DELETE FROM semel.node WHERE node IN (SELECT n.node FROM semel.node n WHERE " SEMEL_DEAD
    " FOR UPDATE OF n SKIP LOCKED)";

#define SEMEL_FREE \
  "(q.node IS NULL OR NOT EXISTS (SELECT 1 FROM semel.node n WHERE n.node = q.node))"

/// What others are just taking is theirs.
constexpr const char* take =
    "UPDATE semel.partition p SET node = $1::bigint, epoch = p.epoch + 1, open = 1, well = 0,"
    " crashes = CASE WHEN p.open = 1 AND p.well = 0 THEN p.crashes + 1 ELSE 0 END"
    " FROM (SELECT q.partition, q.open FROM semel.partition q WHERE " SEMEL_FREE
    "  ORDER BY q.partition LIMIT (SELECT greatest(0, (SELECT"
    "   (count(*) + w.nodes - 1) / w.nodes FROM semel.partition)"
    "   - (SELECT count(*) FROM semel.partition WHERE node = $1::bigint))"
    "   FROM (SELECT count(*) AS nodes FROM semel.node WHERE works = 1) w WHERE w.nodes > 0)"
    "  FOR UPDATE OF q SKIP LOCKED) old"
    " WHERE p.partition = old.partition RETURNING p.partition, old.open, p.crashes";

#define SEMEL_SURPLUS                                                                             \
  "(SELECT count(*) FROM semel.partition WHERE node = $1::bigint)"                                \
  " - CASE WHEN $4::bigint = 0 THEN 0 ELSE"                                                       \
  " (SELECT (count(*) + w.nodes - 1) / w.nodes FROM semel.partition,"                             \
  "  (SELECT greatest(1, count(*)) AS nodes FROM semel.node WHERE works = 1) w GROUP BY w.nodes)" \
  " END"
/// With the other's parameters.
constexpr const char* count_surplus = "SELECT " SEMEL_SURPLUS
                                      ", (SELECT count(*) FROM semel.node)"
                                      " WHERE $2::bigint IS NOT NULL AND $3::bytea IS NOT NULL";

/// Renews the lease and says, as of before: how many others are dead, how many partitions are free, what it has too many,
/// whether it worked; what time it is; how many nodes there are. Where all is as it should be that was all there is to do.
constexpr const char* keep =
    "UPDATE semel.node SET kept_at = $2::bigint, works = $4::bigint WHERE node = $1::bigint"
    " RETURNING (SELECT count(*) FROM semel.node n WHERE " SEMEL_DEAD
    "), (SELECT count(*) FROM semel.partition q WHERE " SEMEL_FREE "), " SEMEL_SURPLUS
    ", (SELECT m.works FROM semel.node m WHERE m.node = $1::bigint),"
    " (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint,"
    " (SELECT count(*) FROM semel.node)";

#undef SEMEL_DEAD
#undef SEMEL_FREE
#undef SEMEL_SURPLUS

constexpr const char* leave =
    "UPDATE semel.partition SET node = NULL, open = 0 WHERE node = $1::bigint"
    " AND partition = ANY($2::bigint[])";
constexpr const char* leave_all =
    "UPDATE semel.partition SET node = NULL, open = 0, well = 1, crashes = 0"
    " WHERE node = $1::bigint";
/// Locked first: nobody gives a run something that its new owner does not hear of.
constexpr const char* lock_stranded =
    "SELECT r.run FROM semel.run r JOIN semel.partition p ON p.partition = r.partition"
    " WHERE r.run = ANY($1::bigint[]) AND r.status < 3"
    " AND ($2::bigint = 0 OR p.node = $2::bigint) ORDER BY r.run FOR UPDATE OF r";
/// Spread over what the nodes have that can. One that was not heard of for its lease is no help.
constexpr const char* move_stranded =
    "WITH stranded AS (SELECT run, workflow, code_version FROM semel.run"
    "  WHERE run = ANY($1::bigint[])),"
    " able AS (SELECT w.name, w.version, p.partition FROM semel.node n"
    "  CROSS JOIN LATERAL unnest(n.workflows, n.versions) AS w(name, version)"
    "  JOIN semel.partition p ON p.node = n.node"
    "  WHERE n.node <> $2::bigint AND n.works = 1 AND n.kept_at + n.lease >= $3::bigint"
    "  AND w.name IN (SELECT workflow FROM stranded)),"
    " chosen AS (SELECT s.run, (SELECT (array_agg(a.partition ORDER BY a.partition))"
    "  [(1 + s.run % count(*))::int] FROM able a WHERE a.name = s.workflow"
    "  AND a.version >= s.code_version HAVING count(*) > 0) AS partition FROM stranded s),"
    " moved AS (UPDATE semel.run r SET partition = c.partition FROM chosen c"
    "  WHERE r.run = c.run AND c.partition IS NOT NULL RETURNING r.run, r.partition)"
    " INSERT INTO semel.hint (run, partition, kind) SELECT run, partition, $4::bigint FROM moved"
    " RETURNING run, partition";
constexpr const char* get_well =
    "UPDATE semel.partition SET well = 1, crashes = 0 WHERE node = $1::bigint";
constexpr const char* take_keys =
    "UPDATE semel.counter SET next = next + $1::bigint WHERE name = 'run'"
    " RETURNING next - $1::bigint";

void add_taking(Pipeline& pipeline, std::int64_t node, std::vector<Gained>& gained) {
  pipeline.add(take, Parameters::of(node), [&gained](const Rows& rows) {
    for (int i = 0; i < rows.size(); ++i) {
      gained.push_back({.partition = static_cast<std::int32_t>(rows.integer(i, 0)),
                        .clean = !rows.flag(i, 1),
                        .crashes = static_cast<std::int32_t>(rows.integer(i, 2))});
    }
  });
}

void add_telling(Pipeline& pipeline, std::int64_t node,
                 const std::vector<WorkflowVersion>& workflows) {
  Array names = Array::of_bytes();
  Array versions = Array::of_integers();
  for (const WorkflowVersion& each : workflows) {
    names.add(each.name);
    versions.add(each.version);
  }
  Parameters parameters = Parameters::of(node);
  parameters.add(names);
  parameters.add(versions);
  pipeline.add(tell_workflows, parameters);
}

}  // namespace

void Membership::gain(const std::vector<Gained>& gained) {
  for (const Gained& each : gained) owned.partitions.push_back(each.partition);
  std::ranges::sort(owned.partitions);
}

NodeOpened open_node(Connection& connection, const OpenNode& command, const NodeIdentity& identity,
                     Membership& membership) {
  NodeOpened answer{.lease = identity.lease};
  Pipeline first{connection};
  if (membership.node != 0) first.add(remove_node, Parameters::of(membership.node));
  first.add(add_node,
            Parameters::of(command.now, identity.lease.count(), command.works ? 1 : 0,
                           std::string_view{identity.name}),
            [&](const Rows& rows) { membership.node = rows.integer(0, 0); });
  first.run();
  membership.is_open = true;
  membership.owned = {.is_all = false, .partitions = {}};
  Pipeline second{connection};
  second.add(end_silent_backends);
  second.add(remove_dead,
             Parameters::of(membership.node, command.now, std::string_view{identity.name}));
  if (command.works) add_taking(second, membership.node, answer.gained);
  second.add(take_keys, Parameters::of(command.keys_count),
             [&](const Rows& rows) { answer.first_key = rows.integer(0, 0); });
  second.run();
  membership.gain(answer.gained);
  return answer;
}

std::optional<NodeKept> keep_settled_node(Connection& connection, const KeepNode& command,
                                          const NodeIdentity& identity,
                                          const Membership& membership,
                                          const std::function<void(std::int64_t)>& see_clock) {
  NodeKept answer;
  const int works = command.works ? 1 : 0;
  const Parameters about_it =
      Parameters::of(membership.node, command.now, std::string_view{identity.name}, works);
  bool is_settled = true;  // without a row it has lost its lease, and nothing to say
  Pipeline looking{connection};
  looking.add(keep, about_it, [&](const Rows& rows) {
    if (rows.size() != 1) return;
    see_clock(rows.integer(0, 4));
    const bool has_dead = rows.flag(0, 0);
    const bool has_free = command.works && rows.flag(0, 1);
    is_settled = !has_dead && !has_free && rows.integer(0, 3) == works;
    answer.surplus = std::max<std::int64_t>(0, rows.integer(0, 2));
    answer.nodes = rows.integer(0, 5);
  });
  if (command.workflows) add_telling(looking, membership.node, *command.workflows);
  looking.run();
  return is_settled ? std::optional{answer} : std::nullopt;
}

NodeKept keep_node(Connection& connection, const KeepNode& command, const NodeIdentity& identity,
                   Membership& membership, const std::function<void(std::int64_t)>& see_clock) {
  if (auto settled = keep_settled_node(connection, command, identity, membership, see_clock))
    return *std::move(settled);
  NodeKept answer;
  const int works = command.works ? 1 : 0;
  const Parameters about_it =
      Parameters::of(membership.node, command.now, std::string_view{identity.name}, works);
  Pipeline pipeline{connection};
  pipeline.add(end_silent_backends);
  pipeline.add(remove_dead,
               Parameters::of(membership.node, command.now, std::string_view{identity.name}));
  if (command.works) add_taking(pipeline, membership.node, answer.gained);
  pipeline.add(count_surplus, about_it, [&](const Rows& rows) {
    answer.surplus = std::max<std::int64_t>(0, rows.integer(0, 0));
    answer.nodes = rows.integer(0, 1);
  });
  pipeline.run();
  membership.gain(answer.gained);
  return answer;
}

Done give_up(Connection& connection, const GiveUp& command, Membership& membership) {
  Array partitions = Array::of_integers();
  for (const std::int32_t partition : command.partitions) partitions.add(partition);
  Parameters parameters = Parameters::of(membership.node);
  parameters.add(partitions);
  Pipeline pipeline{connection};
  pipeline.add(leave, parameters);
  pipeline.run();
  std::erase_if(membership.owned.partitions, [&](std::int32_t each) {
    return std::ranges::find(command.partitions, each) != command.partitions.end();
  });
  return {};
}

RunsFound move_runs(Connection& connection, const MoveRuns& command, const Membership& membership,
                    std::set<std::int32_t>& hinted) {
  const auto with_runs = [](const std::vector<RunKey>& runs) {
    Array array = Array::of_integers();
    for (const RunKey run : runs) array.add(run);
    Parameters parameters;
    parameters.add(array);
    return parameters;
  };
  RunsFound answer;
  Parameters asked = with_runs(command.runs);
  asked.add(membership.seeker());
  Pipeline locking{connection};
  locking.add(lock_stranded, asked, [&](const Rows& rows) {
    for (int i = 0; i < rows.size(); ++i) answer.runs.push_back(rows.integer(i, 0));
  });
  locking.run();
  // Whoever is no node has all runs, and nobody beside it.
  if (answer.runs.empty() || !membership.is_open) return answer;
  Parameters stranded = with_runs(answer.runs);
  stranded.add(membership.node);
  stranded.add(command.now);
  stranded.add(static_cast<std::int64_t>(HintKind::is_new));
  std::set<RunKey> moved;
  Pipeline moving{connection};
  moving.add(move_stranded, stranded, [&](const Rows& rows) {
    for (int i = 0; i < rows.size(); ++i) {
      moved.insert(rows.integer(i, 0));
      hinted.insert(static_cast<std::int32_t>(rows.integer(i, 1)));
    }
  });
  moving.run();
  std::erase_if(answer.runs, [&](RunKey run) { return moved.contains(run); });
  return answer;
}

Done node_well(Connection& connection, const NodeWell& command, Membership& membership) {
  Pipeline pipeline{connection};
  if (command.closed) {
    pipeline.add(leave_all, Parameters::of(membership.node));
    pipeline.add(remove_node, Parameters::of(membership.node));
    membership = {};
  } else {
    pipeline.add(get_well, Parameters::of(membership.node));
  }
  pipeline.run();
  return {};
}

void end_silent(Connection& connection) {
  Pipeline pipeline{connection};
  pipeline.add(end_silent_backends);
  pipeline.run();
}

std::string channel_of(std::int64_t node) { return fmt::format("semel_node_{}", node); }

}  // namespace semel::store::postgres
