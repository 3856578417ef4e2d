#include "store/postgres/postgres_store.hpp"

#include "base/clock.hpp"
#include "store/answering.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/decider.hpp"
#include "store/postgres/nodes.hpp"
#include "store/postgres/postgres_reader.hpp"
#include "store/postgres/presumed.hpp"
#include "store/postgres/schema.hpp"
#include "store/postgres/units.hpp"
#include "store/postgres/upkeep.hpp"
#include "store/postgres/writing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

namespace semel::store {

using postgres::Connection;
using postgres::Held;
using postgres::Parameters;
using postgres::Pipeline;
using postgres::Rows;
using postgres::Segment;

namespace {

constexpr int attempts_max = 20;

constexpr const char* begin_writing = "BEGIN ISOLATION LEVEL READ COMMITTED";
constexpr const char* begin_reading = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// Whoever takes over removes this row, and so waits for us or is seen by us. (A plain look would let us commit after.) It fails
/// where the row is gone: COMMIT may stand in the same pipeline.
constexpr const char* assert_node =
    "SELECT 1 / count(*) FROM (SELECT node FROM semel.node WHERE node = $1::bigint FOR KEY SHARE) "
    "n";
constexpr std::chrono::milliseconds clock_patience{20};
constexpr int batches_per_plan = 16;
constexpr std::chrono::nanoseconds plan_kept_first = std::chrono::milliseconds{50};
constexpr std::chrono::nanoseconds plan_kept_max = std::chrono::seconds{5};
constexpr const char* read_clock =
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint";
/// By itself, behind the commit it is about: a transaction that notifies has all others that do wait for it. Who does not
/// hear it looks once a second.
constexpr const char* tell_owners =
    "SELECT pg_notify('semel_node_' || p.node, '') FROM (SELECT DISTINCT node FROM semel.partition"
    " WHERE partition = ANY($1::bigint[]) AND node IS NOT NULL) p";

/// A lease may be long where no clock moves by itself.
constexpr std::chrono::nanoseconds idle_timeout_max = std::chrono::hours{1};

/// A role that is called semel would find our schema first, and put the program's tables there.
constexpr const char* keep_apart =
    "SELECT set_config('search_path', coalesce((SELECT string_agg(quote_ident(s), ', ' ORDER BY n)"
    " FROM unnest(current_schemas(false)) WITH ORDINALITY AS x(s, n) WHERE s <> 'semel'), "
    "'public'),"
    " false) WHERE 'semel' = ANY(current_schemas(false))";

/// Code of the program's has the connection to itself while it runs.
bool wants_sql(const Command& command) {
  const auto* transact = std::get_if<Transact>(&command);
  return transact != nullptr && !transact->work->is_repeatable();
}

}  // namespace

struct PostgresStore::Impl {
  explicit Impl(const PostgresOptions& with)
      : options(with),
        connection({.url = with.url,
                    .patience = with.patience,
                    .lock_timeout = with.lock_timeout,
                    .idle_timeout = std::chrono::ceil<std::chrono::milliseconds>(
                        std::min(with.identity->lease, idle_timeout_max)),
                    .statements = {with.identity, &with.identity->statements}}) {
    postgres::migrate(connection);
    connection.run(keep_apart);
    look_at_clock();
    membership.node = options.identity->number;
  }

  /// What the server's clock said between then and now. As much as an answer takes is not known; half of it is a good guess.
  void note_clock(TimePoint before, std::int64_t there) {
    clock_lead = there - postgres::to_ns(before + (clock.now() - before) / 2);
  }

  void look_at_clock() {
    const TimePoint before = clock.now();
    std::int64_t there = 0;
    Pipeline look{connection};
    look.add(read_clock, {}, [&](const Rows& rows) { there = rows.integer(0, 0); });
    look.run();
    note_clock(before, there);
  }

  // ---------------------------------------------------------------------------------------------- workspaces

  void find_workspaces(std::span<const Command> batch) {
    std::set<std::string> made;
    std::set<std::string> asked;
    for (const Command& command : batch) {
      const auto [name, is_made] = postgres::workspace_of(command);
      if (name == nullptr || known.workspace(*name)) continue;
      asked.insert(*name);
      if (is_made) made.insert(*name);
    }
    if (!asked.empty()) decider.make_workspaces(made, asked);
  }

  // ---------------------------------------------------------------------------------------------- deciding

  /// One try at the batch.
  struct Attempt {
    bool is_writing = false;
    bool is_held = false;  ///< to its node's lease; not where it opens one
    bool has_begun = false;
    bool has_sql = false;             ///< of the program's
    bool is_there = true;             ///< its node
    postgres::Membership membership;  ///< what it is once this is committed
    std::vector<Answer> answers;
  };

  void add_begin(Pipeline& pipeline, Attempt& attempt) {
    if (attempt.has_begun) return;
    attempt.has_begun = true;
    pipeline.add(attempt.is_writing ? begin_writing : begin_reading);
    plan_anew_if_due(pipeline);
    if (!attempt.is_held) return;
    attempt.is_there = false;
    pipeline.add(assert_node, Parameters::of(membership.node),
                 [&attempt](const Rows&) { attempt.is_there = true; });
  }

  /// A plan is kept until somebody analyses its tables, which may take a minute; one that was made while they were empty is
  /// ruinous long before that.
  void plan_anew_if_due(Pipeline& pipeline) {
    const auto now = base::monotonic_now();
    if (++batches_planned < batches_per_plan || now - planned_at < plan_kept) return;
    pipeline.add("DISCARD PLANS");
    planned_at = now;
    batches_planned = 0;
    plan_kept = std::min(plan_kept * 2, plan_kept_max);
  }

  void check_lease(const Attempt& attempt) {
    if (attempt.is_there) return;
    ++counters.fenced;
    ++options.identity->leases_lost;
    connection.run("ROLLBACK");
    throw postgres::Failed{"", {base::Errc::refused, "this node has lost its lease to another"}};
  }

  /// None: there is more to do, in a transaction.
  std::optional<NodeKept> keep(const KeepNode& command, Attempt& attempt) {
    const TimePoint before = clock.now();
    bool is_seen = false;
    attempt.is_there = !membership.is_open;
    const auto see_clock = [&](std::int64_t there) {
      attempt.is_there = true;
      // One that had to wait for a lock says little about the time.
      is_seen = clock.now() - before < clock_patience;
      if (is_seen) note_clock(before, there);
    };
    std::optional<NodeKept> kept;
    if (attempt.has_begun) {
      kept = postgres::keep_node(connection, command, *options.identity, attempt.membership,
                                 see_clock);
    } else {
      kept = postgres::keep_settled_node(connection, command, *options.identity, membership,
                                         see_clock);
    }
    check_lease(attempt);
    if (kept && !is_seen) look_at_clock();
    return kept;
  }

  std::unique_ptr<Held> execute(Segment& segment, Attempt& attempt) {
    return decider.decide(segment,
                          {.locks = attempt.is_writing,
                           .lead = [&](Pipeline& pipeline) { add_begin(pipeline, attempt); }},
                          attempt.answers);
  }

  void note_hints(const Held* held) {
    if (held == nullptr) return;
    for (const postgres::HintRow& hint : held->hints) hinted.insert(hint.partition);
  }

  /// Code with the connection to itself, behind all that was asked before it.
  Answer transact_with_sql(const Transact& command, Attempt& attempt) {
    attempt.has_sql = true;
    Segment own;
    if (command.step) own.wants.runs[command.step->run] = postgres::row_part;
    std::vector<Answer> none;
    postgres::SqlUnits units{
        user,
        {.execute =
             [&](const Command& each) {
               return decider.decide_and_write(each, [&](const Held& held) { note_hints(&held); });
             },
         .load = [&] { return decider.decide(own, {}, none); },
         .new_run_key = [&] { return postgres::reserve_keys(connection, {1}).first_key; }}};
    Answer answer = transact(units, command);
    if (units.held() != nullptr) {
      Pipeline writing{connection};
      postgres::add_writing(writing, *units.held());
      writing.run();
    }
    known.open.clear();
    return answer;
  }

  Answer look_at_all(const Command& command, Attempt& attempt) {
    return std::visit(
        [&](const auto& each) -> Answer {
          using Each = std::decay_t<decltype(each)>;
          if constexpr (std::is_same_v<Each, OpenNode>) {
            return postgres::open_node(connection, each, *options.identity, attempt.membership);
          } else if constexpr (std::is_same_v<Each, KeepNode>) {
            return *keep(each, attempt);
          } else if constexpr (std::is_same_v<Each, GiveUp>) {
            return postgres::give_up(connection, each, attempt.membership);
          } else if constexpr (std::is_same_v<Each, MoveRuns>) {
            known.open.clear();
            return postgres::move_runs(connection, each, attempt.membership, hinted);
          } else if constexpr (std::is_same_v<Each, ReserveKeys>) {
            return postgres::reserve_keys(connection, each);
          } else if constexpr (std::is_same_v<Each, NodeWell>) {
            return postgres::node_well(connection, each, attempt.membership);
          } else if constexpr (std::is_same_v<Each, Sweep>) {
            return postgres::sweep(connection, each);
          } else if constexpr (std::is_same_v<Each, FindDue>) {
            return postgres::find_due(connection, each, attempt.membership.seeker());
          } else if constexpr (std::is_same_v<Each, FindWork>) {
            return postgres::find_work(connection, each, attempt.membership.seeker());
          } else if constexpr (std::is_same_v<Each, FindEnded>) {
            return postgres::find_ended(connection, each);
          } else if constexpr (std::is_same_v<Each, Transact>) {
            return transact_with_sql(each, attempt);
          } else {
            throw_corrupt("not a command about the store as a whole");
          }
        },
        command);
  }

  void add_writing(Pipeline& pipeline, const Held* held) {
    if (held == nullptr) return;
    postgres::add_writing(pipeline, *held);
    postgres::remember(*held);
    note_hints(held);
  }

  std::vector<Answer> try_batch(std::span<const Command> batch, std::vector<Segment>& segments,
                                bool is_writing) {
    const bool opens = std::ranges::any_of(
        batch, [](const Command& each) { return std::holds_alternative<OpenNode>(each); });
    // Its update of the node's row says as much.
    const bool keeps = batch.size() == 1 && std::holds_alternative<KeepNode>(batch.front());
    Attempt attempt{.is_writing = is_writing,
                    .is_held = is_writing && !opens && !keeps && membership.is_open,
                    .membership = membership};
    hinted.clear();
    try {
      return complete(batch, segments, attempt);
    } catch (const postgres::Failed& failed) {
      if (failed.state() == postgres::not_borne_out) check_lease(attempt);
      throw;
    }
  }

  /// What an idle node asks for, each one statement and so a transaction by itself.
  std::optional<Answer> look_alone(std::span<const Command> batch, Attempt& attempt) {
    if (batch.size() != 1) return std::nullopt;
    const Command& command = batch.front();
    if (const auto* keeping = std::get_if<KeepNode>(&command)) return keep(*keeping, attempt);
    if (attempt.is_writing || !postgres::looks_at_all(command)) return std::nullopt;
    return look_at_all(command, attempt);
  }

  std::vector<Answer> complete(std::span<const Command> batch, std::vector<Segment>& segments,
                               Attempt& attempt) {
    if (auto answer = look_alone(batch, attempt)) return {*std::move(answer)};
    std::size_t next = 0;
    std::unique_ptr<Held> held;
    for (Segment& segment : segments) {
      if (!segment.commands.empty()) held = execute(segment, attempt);
      next += segment.commands.size();
      if (next == batch.size()) break;
      Pipeline pipeline{connection};
      add_begin(pipeline, attempt);
      add_writing(pipeline, held.get());
      pipeline.run();
      held.reset();
      attempt.answers.push_back(look_at_all(batch[next++], attempt));
    }
    if (!attempt.has_begun && !held) return {};  // an empty batch
    Pipeline last{connection};
    if (!attempt.has_begun && attempt.is_held && postgres::is_few_entries(*held)) {
      plan_anew_if_due(last);
      postgres::write_few_entries(last, *held, membership.node);
      postgres::remember(*held);
      last.run_as_transaction();
    } else {
      add_begin(last, attempt);
      add_writing(last, held.get());
      if (attempt.has_sql) {
        // First, because triggers that wait for the end are the program's code, too.
        last.add("SET CONSTRAINTS ALL IMMEDIATE");
        last.add(connection.settings());
      }
      last.add_commit();
      last.run();
    }
    become(attempt.membership);
    tell();
    return std::move(attempt.answers);
  }

  void become(const postgres::Membership& now) {
    // What was another's meanwhile may be otherwise than this node left it.
    if (now.node != membership.node || now.owned != membership.owned) known.open.clear();
    membership = now;
    known.owned = now.owned;
    options.identity->number = now.node;
  }

  /// The commit has happened: whether they hear of it at once is not worth a failure.
  void tell() {
    if (hinted.empty()) return;
    postgres::Array partitions = postgres::Array::of_integers();
    for (const std::int32_t partition : hinted) partitions.add(partition);
    Parameters parameters;
    parameters.add(partitions);
    try {
      Pipeline telling{connection};
      telling.add("BEGIN");
      telling.add("SET LOCAL synchronous_commit = off");
      telling.add(tell_owners, parameters);
      telling.add("COMMIT");
      telling.run();
    } catch (const postgres::Failed&) {
      roll_back();
    }
  }

  /// Between commands that are executed by themselves; the last may be empty.
  std::vector<Segment> segments_of(std::span<const Command> batch,
                                   const std::set<const Command*>& alone, bool presumes) const {
    std::vector<Segment> segments;
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= batch.size(); ++i) {
      if (i < batch.size() && !alone.contains(&batch[i])) continue;
      Segment segment{
          .commands = batch.subspan(begin, i - begin), .wants = {}, .presumes = presumes};
      for (const Command& command : segment.commands)
        postgres::foresee(command, known, segment.wants, presumes);
      segments.push_back(std::move(segment));
      begin = i + 1;
    }
    return segments;
  }

  void roll_back() {
    if (connection.is_lost() || !connection.in_transaction()) return;
    try {
      connection.run("ROLLBACK");
    } catch (const Failed&) {
      connection.give_up();  // and the transaction goes with it
    }
  }

  std::vector<Answer> execute(std::span<const Command> batch) {
    ++counters.batches;
    find_workspaces(batch);
    const bool is_writing = std::ranges::any_of(batch, writes);
    std::set<const Command*> alone;
    for (const Command& command : batch) {
      if (postgres::looks_at_all(command) || wants_sql(command)) alone.insert(&command);
    }
    bool presumes = true;
    // Kept over attempts: what was missing once is read, and locked in order, from the start.
    std::vector<Segment> segments = segments_of(batch, alone, presumes);
    const bool wants_any_sql = std::ranges::any_of(batch, wants_sql);
    for (int attempts = 0; attempts < attempts_max;) {
      const RuleCounters before = counters;
      try {
        auto answers = try_batch(batch, segments, is_writing);
        if (is_writing) ++counters.commits;
        return answers;
      } catch (const postgres::Failed& failed) {
        // A constraint of the program's that was put off, and that somebody else has violated since it was looked at.
        const bool is_program = wants_any_sql && failed.state().starts_with("23");
        const bool was_presumed = presumes && failed.state() == postgres::not_borne_out;
        if (!failed.was_in_the_way() && !is_program && !was_presumed) throw;
        if (failed.state() == postgres::lock_timed_out) {
          roll_back();
          postgres::end_silent(connection);
        }
        known.open.clear();
        if (std::exchange(presumes, false)) segments = segments_of(batch, alone, presumes);
        ++attempts;
        ++counters.batches_redone;
      } catch (const postgres::AloneWithSql& found) {
        // Nobody was in the way: it happens once for each such command, however many there are.
        alone.insert(found.command);
        known.open.clear();
        segments = segments_of(batch, alone, presumes);
      } catch (const postgres::NewWorkspaces& unnamed) {
        roll_back();
        known.open.clear();
        decider.make_workspaces(unnamed.names, unnamed.names);
      }
      roll_back();
      static_cast<RuleCounters&>(counters) = before;
    }
    throw postgres::Failed{
        "", {base::Errc::conflict, "other transactions were in the way again and again"}};
  }

  PostgresOptions options;
  PostgresCounters counters;
  postgres::Known known;
  base::ShapeChecker shapes;
  base::SystemClock clock;
  std::atomic<std::int64_t> clock_lead{0};  ///< in nanoseconds
  std::chrono::nanoseconds planned_at = base::monotonic_now();
  std::chrono::nanoseconds plan_kept = plan_kept_first;  ///< longer as tables grow more slowly
  int batches_planned = 0;                               ///< since then
  postgres::Membership membership;
  std::set<std::int32_t> hinted;  ///< partitions of others for which this batch leaves hints
  std::string broken;             ///< why every call is refused; empty: all is well
  Connection connection;
  postgres::UserSql user{connection};
  postgres::Decider decider{connection, known, shapes, counters};
};

PostgresStore::PostgresStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

PostgresStore::~PostgresStore() = default;

base::Result<std::unique_ptr<PostgresStore>> PostgresStore::open(const PostgresOptions& options) {
  try {
    return std::unique_ptr<PostgresStore>{new PostgresStore{std::make_unique<Impl>(options)}};
  } catch (const Failed& failed) {
    return failed.fault();
  }
}

base::Result<std::vector<Answer>> PostgresStore::execute(std::span<const Command> batch) {
  if (!impl_->broken.empty()) {
    return base::Fault{base::Errc::refused,
                       "the store failed and must be opened again: " + impl_->broken};
  }
  try {
    return impl_->execute(batch);
  } catch (const Failed& failed) {
    base::Fault fault = failed.fault();
    impl_->known.open.clear();
    impl_->roll_back();
    if (impl_->connection.is_lost()) impl_->broken = fault.message;
    return fault;
  }
}

std::optional<std::chrono::nanoseconds> PostgresStore::flush_time() const {
  return impl_->connection.commit_time();
}

std::chrono::nanoseconds PostgresStore::clock_lead() const {
  return std::chrono::nanoseconds{impl_->clock_lead};
}

std::uint64_t PostgresStore::leases_lost() const { return impl_->options.identity->leases_lost; }

base::Result<std::unique_ptr<Reader>> PostgresStore::reader() const {
  try {
    return postgres::make_reader(
        {.url = impl_->options.url,
         .patience = impl_->options.patience,
         .read_only = true,
         .statements = {impl_->options.identity, &impl_->options.identity->statements}},
        impl_->options.identity);
  } catch (const Failed& failed) {
    return failed.fault();
  }
}

const PostgresCounters& PostgresStore::counters() const { return impl_->counters; }

}  // namespace semel::store
