// Who drives which runs where several share one store: leases, partitions, hints.
#include "store/postgres/postgres_hints.hpp"
#include "store/postgres/postgres_store.hpp"
#include "tests/contract/stores.hpp"
#include "tests/support/postgres_server.hpp"

#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <set>

namespace semel::store {
namespace {

using semel::testing::PostgresServer;

constexpr std::size_t all_partitions = 64;

PostgresServer& empty_server() {
  PostgresServer& server = PostgresServer::shared();
  server.clear();
  return server;
}

/// A process that may be lost, and come back.
class Node {
 public:
  Node(const PostgresServer& server, std::string name)
      : options_{.url = server.url(), .lock_timeout = std::chrono::milliseconds{2000}} {
    options_.identity->name = std::move(name);
    options_.identity->lease = 10s;
    connect();
  }

  void connect() {
    store_.reset();
    auto opened = PostgresStore::open(options_);
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message);
    store_ = *std::move(opened);
  }

  base::Result<std::vector<Answer>> execute(const Command& command) {
    return store_->execute(std::array{command});
  }

  template <class Expected>
  Expected expect(const Command& command) {
    auto answers = execute(command);
    REQUIRE_MESSAGE(answers.has_value(), answers.error().message);
    REQUIRE(std::holds_alternative<Expected>(answers->front()));
    return std::get<Expected>(std::move(answers->front()));
  }

  void note(const std::vector<Gained>& gained) {
    for (const Gained& each : gained) partitions.push_back(each.partition);
    std::ranges::sort(partitions);
  }

  NodeOpened open(TimePoint now = at()) {
    auto opened = expect<NodeOpened>(OpenNode{.now = now});
    partitions.clear();
    note(opened.gained);
    return opened;
  }

  NodeKept keep(TimePoint now = at()) {
    auto kept = expect<NodeKept>(KeepNode{.now = now});
    note(kept.gained);
    return kept;
  }

  void give_up(std::int64_t count) {
    const std::vector<std::int32_t> surplus(partitions.end() - count, partitions.end());
    partitions.resize(partitions.size() - surplus.size());
    expect<Done>(GiveUp{surplus});
  }

  void can_drive(std::vector<WorkflowVersion> workflows, TimePoint now = at()) {
    note(expect<NodeKept>(KeepNode{.now = now, .workflows = std::move(workflows)}).gained);
  }

  /// Of runs that it cannot drive, those that nobody else can, either.
  std::vector<RunKey> move(std::vector<RunKey> runs, TimePoint now = at()) {
    return expect<RunsFound>(MoveRuns{.runs = std::move(runs), .now = now}).runs;
  }

  std::int32_t partition_of(RunKey run) { return expect<RunLoaded>(LoadRun{run}).run.partition; }

  bool has(RunKey run) { return std::ranges::binary_search(partitions, partition_of(run)); }

  std::unique_ptr<Reader> reader() const {
    auto made = store_->reader();
    REQUIRE_MESSAGE(made.has_value(), made.error().message);
    return *std::move(made);
  }

  std::unique_ptr<Hints> listen() const {
    return postgres::make_hints(options_.url, options_.identity);
  }

  Effects hints() const { return listen()->take().value(); }

  const PostgresCounters& counters() const { return store_->counters(); }

  std::vector<std::int32_t> partitions;

 private:
  PostgresOptions options_;
  std::unique_ptr<PostgresStore> store_;
};

/// Two that share the partitions.
struct Pair {
  explicit Pair(const PostgresServer& server) : first{server, "first"}, second{server, "second"} {
    first.open();
    second.open();
    first.give_up(first.keep().surplus);
    second.keep();
  }

  Node first;
  Node second;
};

NewRun run_of(const Node& node, RunKey key) {
  NewRun run = new_run(key);
  run.partition = node.partitions.at(static_cast<std::size_t>(key) % node.partitions.size());
  return run;
}

TEST_CASE("the first node has everything") {
  Node only{empty_server(), "only"};

  const NodeOpened opened = only.open();

  CHECK(opened.gained.size() == all_partitions);
  CHECK(opened.lease == 10s);
  CHECK(only.keep().surplus == 0);
}

TEST_CASE("a node that does not work has nothing, until it does") {
  Node only{empty_server(), "only"};

  CHECK(only.expect<NodeOpened>(OpenNode{.now = at(), .works = false}).gained.empty());
  CHECK(only.keep().gained.size() == all_partitions);
}

TEST_CASE("those that join get their share when it is left to them, in order") {
  PostgresServer& server = empty_server();
  Node first{server, "first"};
  Node second{server, "second"};
  Node third{server, "third"};
  first.open();
  CHECK(second.open().gained.empty());
  CHECK(second.keep().gained.empty());

  const NodeKept kept = first.keep();
  CHECK(kept.surplus == 32);
  first.give_up(kept.surplus);
  const NodeKept joined = second.keep();
  CHECK(joined.gained.size() == 32);
  CHECK(std::ranges::all_of(joined.gained, &Gained::clean));

  third.open();
  first.give_up(first.keep().surplus);
  second.give_up(second.keep().surplus);
  CHECK(third.keep().gained.size() == 20);
  CHECK(first.partitions.size() == 22);
  CHECK(second.partitions.size() == 22);
}

TEST_CASE("who leaves in order leaves everything to the others at once") {
  Pair nodes{empty_server()};

  nodes.second.expect<Done>(NodeWell{.closed = true});
  const NodeKept kept = nodes.first.keep();

  CHECK(kept.gained.size() == 32);
  CHECK(std::ranges::all_of(kept.gained, &Gained::clean));
}

TEST_CASE("who is not heard of for its lease loses everything and writes nothing any more") {
  Pair nodes{empty_server()};
  const NewRun run = run_of(nodes.second, 1);
  nodes.second.expect<RunStarted>(start(run));
  nodes.first.keep(at(9s));
  CHECK(nodes.first.partitions.size() == 32);

  const NodeKept kept = nodes.first.keep(at(11s));

  CHECK(kept.gained.size() == 32);
  CHECK(std::ranges::none_of(kept.gained, &Gained::clean));
  const auto late = nodes.second.execute(advance(1, 1, "late"));
  REQUIRE_FALSE(late);
  CHECK(late.error().code == base::Errc::refused);
  CHECK(nodes.second.counters().fenced == 1);
  CHECK_FALSE(nodes.second.execute(KeepNode{.now = at(11s)}));
  CHECK(nodes.first.expect<RunLoaded>(LoadRun{1}).entries.size() == 1);

  // It comes back as another one.
  nodes.second.connect();
  CHECK(nodes.second.open(at(11s)).gained.empty());
  CHECK(nodes.first.keep(at(12s)).surplus == 32);
}

/// A batch of a node's whose process was stopped in the middle of sending it: what it has locked it keeps, and the server
/// awaits the rest. Of its lease nothing is left.
class HalfSent {
 public:
  HalfSent(const PostgresServer& server, const std::string& node, RunKey run)
      : server_(server), connection_(PQconnectdb(server.url().c_str())) {
    REQUIRE(PQstatus(connection_) == CONNECTION_OK);
    const std::string named = "WHERE name = '" + node + "'::bytea";
    server.run("UPDATE semel.node SET lease = 1, backend = " + pid() +
               ", backend_start = (SELECT backend_start FROM pg_stat_activity WHERE pid = " +
               pid() + ") " + named);
    REQUIRE(PQenterPipelineMode(connection_) == 1);
    send("BEGIN");
    send("SELECT 1 FROM semel.node " + named + " FOR KEY SHARE");
    send("SELECT 1 FROM semel.run WHERE run = " + std::to_string(run) + " FOR UPDATE");
    REQUIRE(PQflush(connection_) == 0);
    server.run(
        "DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a"
        " ON a.pid = l.pid AND a.wait_event = 'ClientRead' WHERE l.pid = " +
        pid() +
        " AND l.relation = 'semel.run'::regclass) LOOP"
        " PERFORM pg_sleep(0.001), pg_stat_clear_snapshot(); END LOOP; END $$");
  }

  HalfSent(const HalfSent&) = delete;
  HalfSent& operator=(const HalfSent&) = delete;

  ~HalfSent() { PQfinish(connection_); }

  /// Or ten seconds are over.
  void await_end() const {
    server_.run(
        "DO $$ BEGIN FOR i IN 1 .. 10000 LOOP"
        " EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = " +
        pid() + "); PERFORM pg_sleep(0.001), pg_stat_clear_snapshot(); END LOOP; END $$");
  }

 private:
  std::string pid() const { return std::to_string(PQbackendPID(connection_)); }

  void send(const std::string& sql) {
    REQUIRE(PQsendQueryParams(connection_, sql.c_str(), 0, nullptr, nullptr, nullptr, nullptr, 0) ==
            1);
  }

  const PostgresServer& server_;
  PGconn* connection_;
};

TEST_CASE("who was stopped in the middle of sending a batch loses everything, too") {
  PostgresServer& server = empty_server();
  Pair nodes{server};
  nodes.second.expect<RunStarted>(start(run_of(nodes.second, 1)));
  const HalfSent batch{server, "second", 1};

  nodes.first.keep(at(1s));
  batch.await_end();
  nodes.first.keep(at(1s));

  CHECK(nodes.first.partitions.size() == all_partitions);
}

TEST_CASE("who waits for a run of a batch that is never sent to its end does not wait for ever") {
  PostgresServer& server = empty_server();
  Pair nodes{server};
  nodes.second.expect<RunStarted>(start(run_of(nodes.second, 1)));
  const HalfSent batch{server, "second", 1};

  nodes.first.expect<Cancelled>(CancelRun{.id = "run-1", .now = at()});

  CHECK(nodes.first.counters().batches_redone == 1);
}

TEST_CASE("a node whose process is only slow to send a batch keeps its lease and what it has") {
  PostgresServer& server = empty_server();
  Pair nodes{server};
  nodes.second.expect<RunStarted>(start(run_of(nodes.second, 1)));
  const HalfSent batch{server, "second", 1};
  server.run("UPDATE semel.node SET lease = 3600000000000 WHERE name = 'second'::bytea");

  nodes.first.keep(at(2h));

  CHECK(nodes.first.partitions.size() == all_partitions / 2);
}

TEST_CASE("who lost its connection and comes back has what it had") {
  Pair nodes{empty_server()};
  const auto before = nodes.second.partitions;

  nodes.second.connect();
  nodes.second.open();

  CHECK(nodes.second.partitions == before);
  CHECK(nodes.first.keep().gained.empty());
}

TEST_CASE("a successor of the same name does not wait for the lease of one that is gone") {
  PostgresServer& server = empty_server();
  {
    Node crashed{server, "same"};
    crashed.open();
  }
  // The server has to notice that nobody is there any more.
  server.run(
      "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_stat_activity a, semel.node n WHERE a.pid = "
      "n.backend) LOOP PERFORM pg_sleep(0.001), pg_stat_clear_snapshot(); END LOOP; END $$");
  Node other{server, "other"};
  CHECK(other.open().gained.empty());
  Node successor{server, "same"};

  CHECK(successor.open().gained.size() == 32);
  CHECK(other.keep().gained.size() == 32);
}

TEST_CASE("crashes are counted by partition until an owner is well") {
  PostgresServer& server = empty_server();
  Node first{server, "first"};
  Node second{server, "second"};
  first.open();
  second.open(at(11s));
  CHECK(second.keep(at(11s)).gained.empty());  // took it all at its opening
  CHECK(second.partitions.size() == all_partitions);

  first.connect();
  first.open(at(12s));
  const NodeKept kept = first.keep(at(30s));
  REQUIRE(kept.gained.size() == all_partitions);
  CHECK(kept.gained.front() == Gained{.partition = 0, .clean = false, .crashes = 2});

  first.expect<Done>(NodeWell{});
  second.connect();
  second.open(at(31s));
  CHECK(second.keep(at(60s)).gained.front().crashes == 0);
}

TEST_CASE("a node finds its own work and its own timers only") {
  Pair nodes{empty_server()};
  NewRun sleeping = run_of(nodes.second, 2);
  sleeping.start_at = at(1h);
  nodes.second.expect<RunStarted>(start(run_of(nodes.second, 1)));
  nodes.second.expect<RunStarted>(StartRun{.run = sleeping});

  CHECK(nodes.first.expect<RunsFound>(FindWork{}).runs.empty());
  CHECK(nodes.second.expect<RunsFound>(FindWork{}).runs == std::vector<RunKey>{1});
  CHECK(nodes.first.expect<TimersDue>(FindDue{.now = at(2h)}).timers.empty());
  CHECK(nodes.second.expect<TimersDue>(FindDue{.now = at(2h)}).timers.size() == 1);
}

TEST_CASE("what a node does to runs of another, their owner hears, and only it") {
  Pair nodes{empty_server()};
  NewRun run = run_of(nodes.second, 1);
  run.hooks = {{.token = "t"}};
  nodes.second.expect<RunStarted>(start(run));

  const auto delivered =
      nodes.first.expect<Delivered>(Deliver{.token = "t", .payload = "1", .now = at()});
  CHECK(delivered.effects.wake.empty());
  CHECK(nodes.first.hints().wake.empty());
  CHECK(nodes.second.hints().wake == std::vector<RunKey>{1});
  CHECK(nodes.second.hints().wake.empty());

  nodes.first.expect<Cancelled>(CancelRun{.id = "run-1", .now = at()});
  CHECK(nodes.second.hints().ended == std::vector<RunKey>{1});
}

TEST_CASE("a run is made where its maker drives it, or anywhere where it drives nothing") {
  PostgresServer& server = empty_server();
  Pair nodes{server};
  Node idle{server, "idle"};
  idle.expect<NodeOpened>(OpenNode{.now = at(), .works = false});
  NewRun run = new_run(1);
  run.partition = any_partition;

  nodes.second.expect<RunStarted>(start(run));
  const std::int32_t there = nodes.first.expect<RunLoaded>(LoadRun{1}).run.partition;
  CHECK(std::ranges::binary_search(nodes.second.partitions, there));
  CHECK(nodes.second.hints().created.empty());

  for (RunKey key = 2; key < 10; ++key) {
    NewRun anywhere = new_run(key);
    anywhere.partition = any_partition;
    idle.expect<RunStarted>(start(anywhere));
  }
  CHECK(nodes.first.hints().created.size() + nodes.second.hints().created.size() == 8);
}

TEST_CASE("a run goes to a node that can drive it, and that one hears of it") {
  Pair nodes{empty_server()};
  nodes.first.can_drive({{"other", 1}});
  nodes.second.can_drive({{"other", 1}, {new_run(1).workflow, 1}});
  for (RunKey key = 1; key <= 8; ++key)
    nodes.first.expect<RunStarted>(start(run_of(nodes.first, key)));

  CHECK(nodes.first.move({1, 2, 3, 4, 5, 6, 7, 8}).empty());

  std::set<std::int32_t> places;
  for (RunKey key = 1; key <= 8; ++key) {
    CHECK(nodes.second.has(key));
    places.insert(nodes.second.partition_of(key));
  }
  CHECK(places.size() == 8);
  CHECK(nodes.second.expect<RunsFound>(FindWork{}).runs.size() == 8);
  CHECK(nodes.second.hints().created.size() == 8);
  CHECK(nodes.first.hints().created.empty());
}

TEST_CASE("a run stays where nobody else can drive it") {
  Pair nodes{empty_server()};
  const std::string workflow = new_run(1).workflow;
  NewRun run = run_of(nodes.first, 1);
  run.code_version = 2;
  nodes.first.expect<RunStarted>(start(run));

  // Nobody has the workflow, one has it in an older version, one has it and is not there, one has it and works no more.
  CHECK(nodes.first.move({1}) == std::vector<RunKey>{1});
  nodes.second.can_drive({{workflow, 1}});
  CHECK(nodes.first.move({1}) == std::vector<RunKey>{1});
  nodes.second.can_drive({{workflow, 2}});
  CHECK(nodes.first.move({1}, at(11s)) == std::vector<RunKey>{1});
  nodes.second.expect<NodeKept>(KeepNode{.now = at(), .works = false});
  CHECK(nodes.first.move({1}) == std::vector<RunKey>{1});
  CHECK(nodes.first.has(1));

  nodes.second.expect<NodeKept>(KeepNode{.now = at()});
  CHECK(nodes.first.move({1}).empty());
  CHECK(nodes.second.has(1));
}

TEST_CASE("nobody moves what is another's, or over") {
  Pair nodes{empty_server()};
  const std::string workflow = new_run(1).workflow;
  nodes.first.can_drive({{workflow, 1}});
  nodes.second.can_drive({{workflow, 1}});
  nodes.second.expect<RunStarted>(start(run_of(nodes.second, 1)));
  nodes.first.expect<RunStarted>(start(run_of(nodes.first, 2)));
  nodes.first.expect<Advanced>(finish(2, 1));
  const std::int32_t there = nodes.second.partition_of(1);

  CHECK(nodes.first.move({1, 2, 99}).empty());

  CHECK(nodes.second.partition_of(1) == there);
  CHECK(nodes.first.has(2));
}

TEST_CASE("what is done to a run that was moved, its new owner hears") {
  Pair nodes{empty_server()};
  NewRun run = run_of(nodes.first, 1);
  run.hooks = {{.token = "t"}};
  nodes.first.expect<RunStarted>(start(run));
  nodes.second.can_drive({{run.workflow, 1}});
  nodes.first.move({1});
  CHECK(nodes.second.hints().created == std::vector<RunKey>{1});

  nodes.first.expect<Delivered>(Deliver{.token = "t", .payload = "1", .now = at()});

  CHECK(nodes.second.hints().wake == std::vector<RunKey>{1});
}

TEST_CASE("who looks sees the nodes, what they have, and who drives a run") {
  PostgresServer& server = empty_server();
  Pair nodes{server};
  nodes.second.can_drive({{"refund", 3}, {new_run(1).workflow, 1}}, at(2s));
  nodes.second.expect<RunStarted>(start(run_of(nodes.second, 1)));
  nodes.second.give_up(2);
  const auto reader = nodes.first.reader();

  const NodeList list = reader->nodes().value();
  REQUIRE(list.nodes.size() == 2);
  CHECK(list.unowned == 2);
  const NodeRecord& first = list.nodes.front();
  const NodeRecord& second = list.nodes.back();
  CHECK(first.name == "first");
  CHECK(first.is_this);
  CHECK(first.works);
  CHECK(first.partitions == 32);
  CHECK(first.workflows.empty());
  CHECK(second.name == "second");
  CHECK_FALSE(second.is_this);
  CHECK(second.partitions == 30);
  CHECK(second.since == at());
  CHECK(second.kept_at == at(2s));
  CHECK(second.lease == 10s);
  CHECK(second.workflows.size() == 2);

  RunRecord run = nodes.first.expect<RunLoaded>(LoadRun{1}).run;
  RunOwner owner = reader->owner(run).value().value();
  CHECK(owner.node == "second");
  CHECK(owner.has_worker);
  run.code_version = 2;
  CHECK_FALSE(reader->owner(run).value()->has_worker);
  nodes.second.expect<Done>(NodeWell{.closed = true});
  owner = reader->owner(run).value().value();
  CHECK(owner.node.empty());
}

TEST_CASE("a node is told at once that there is something for it") {
  PostgresServer& server = empty_server();
  Pair nodes{server};
  NewRun run = run_of(nodes.second, 1);
  run.hooks = {{.token = "t"}};
  nodes.second.expect<RunStarted>(start(run));
  const auto hints = nodes.second.listen();
  REQUIRE(hints->take());  // and so it listens

  nodes.first.expect<Delivered>(Deliver{.token = "t", .payload = "1", .now = at()});

  hints->wait(1h);
  CHECK(hints->take().value().wake == std::vector<RunKey>{1});
}

TEST_CASE("an owner goes on with its run, and ends it, without reading it") {
  Pair nodes{empty_server()};
  nodes.first.expect<RunStarted>(start(run_of(nodes.first, 1)));
  const std::uint64_t rounds = nodes.first.counters().rounds;

  nodes.first.expect<Advanced>(advance(1, 1, "charge"));
  nodes.first.expect<Advanced>(finish(1, 2));

  CHECK(nodes.first.counters().rounds == rounds);
  const RunLoaded run = nodes.second.expect<RunLoaded>(LoadRun{1});
  CHECK(run.entries.size() == 3);
  CHECK(run.run.status == Status::completed);
  CHECK(run.run.output == "42");
  nodes.first.expect<Stale>(advance(1, 3, "late"));
}

TEST_CASE("a run that another node cancels has no entry of its owner's behind that") {
  Pair nodes{empty_server()};
  nodes.first.expect<RunStarted>(start(run_of(nodes.first, 1)));
  nodes.second.expect<Cancelled>(CancelRun{.id = "run-1", .now = at()});

  nodes.first.expect<Stale>(advance(1, 1, "late"));

  CHECK(nodes.first.counters().batches_redone == 1);
  CHECK(nodes.second.expect<RunLoaded>(LoadRun{1}).entries.size() == 2);
}

TEST_CASE("a run that another node cancels is not ended by its owner") {
  Pair nodes{empty_server()};
  nodes.first.expect<RunStarted>(start(run_of(nodes.first, 1)));
  nodes.second.expect<Cancelled>(CancelRun{.id = "run-1", .now = at()});

  nodes.first.expect<Stale>(finish(1, 1));

  CHECK(nodes.second.expect<RunLoaded>(LoadRun{1}).run.status == Status::cancelled);
}

TEST_CASE("a run that others cancelled and swept gets no entry in a place that is free again") {
  PostgresServer& server = empty_server();
  Pair nodes{server};
  nodes.first.expect<RunStarted>(start(run_of(nodes.first, 1)));
  nodes.second.expect<Cancelled>(CancelRun{.id = "run-1", .now = at()});
  const TimePoint late = at(std::chrono::hours{24 * 365 * 20});
  while (nodes.second.expect<Swept>(Sweep{.now = late}).entries > 0) {
  }

  nodes.first.expect<Stale>(advance(1, 1, "late"));

  CHECK(nodes.first.counters().batches_redone == 1);
  server.run(
      "DO $$ BEGIN IF EXISTS (SELECT FROM semel.journal) THEN RAISE 'an entry of no run'; END IF; "
      "END $$");
}

TEST_CASE("who waits on another node for a run that its owner has not read gets its result") {
  Pair nodes{empty_server()};
  nodes.first.expect<RunStarted>(start(run_of(nodes.first, 1)));
  nodes.second.expect<RunStarted>(start(run_of(nodes.second, 2)));
  nodes.second.expect<Advanced>(advance(2, 1, "wait", {.waits = {{.op = "1", .run_id = "run-1"}}}));

  nodes.first.expect<Advanced>(finish(1, 1));

  CHECK(nodes.first.counters().batches_redone == 1);
  const InboxRead read = nodes.second.expect<InboxRead>(ReadInbox{2});
  REQUIRE(read.items.size() == 1);
  CHECK(read.items.front().value == "42");
}

TEST_CASE("a cancel with a grace that comes too late leaves nothing behind") {
  Pair nodes{empty_server()};
  nodes.first.expect<RunStarted>(start(run_of(nodes.first, 1)));
  nodes.second.expect<Cancelled>(CancelRun{.id = "run-1", .grace_until = at(10s), .now = at()});

  nodes.first.expect<Advanced>(finish(1, 1));

  CHECK(nodes.second.expect<RunLoaded>(LoadRun{1}).run.status == Status::completed);
  CHECK(nodes.second.expect<InboxRead>(ReadInbox{1}).items.empty());
}

/// Counts how often tables are read from one end to the other.
class ScanCount {
 public:
  explicit ScanCount(const PostgresServer& server) : server_(server) {
    server_.run(be_alone);
    server_.run(
        "DO $$ BEGIN PERFORM pg_stat_reset_single_table_counters(oid) FROM pg_class"
        " WHERE relnamespace = 'semel'::regnamespace AND relkind = 'r'; END $$");
  }

  /// Fails where one of `tables` was; once the sessions that may have done so are over.
  void check_none(const std::string& tables) const {
    server_.run(be_alone);
    server_.run(
        "DO $$ DECLARE read text; BEGIN SELECT string_agg(relname, ', ') INTO read"
        " FROM pg_stat_user_tables WHERE schemaname = 'semel' AND seq_scan > 0 AND relname IN (" +
        tables + "); IF read IS NOT NULL THEN RAISE 'read as a whole: %', read; END IF; END $$");
  }

 private:
  /// What a session counts is seen when it is over.
  static constexpr const char* be_alone =
      "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_stat_activity"
      " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()) LOOP"
      " PERFORM pg_sleep(0.001), pg_stat_clear_snapshot(); END LOOP; END $$";

  const PostgresServer& server_;
};

TEST_CASE("rows of a run are found by its key, also where two others have nearly all of them") {
  PostgresServer& server = empty_server();
  Node{server, "node"}.open();  // makes the tables; the next of this name takes over from it
  server.run(
      "INSERT INTO semel.waiter (run, target, op)"
      " SELECT g, 1000000 + g % 2, '1' FROM generate_series(1, 50000) g;"
      "INSERT INTO semel.inbox (item, run, at, kind, op, value)"
      " SELECT g, 1000000 + g % 2, 0, 0, '', '' FROM generate_series(1, 50000) g;"
      "INSERT INTO semel.timer (run, due, kind, op)"
      " SELECT 1000000 + g % 2, g, 0, g::text::bytea FROM generate_series(1, 50000) g;"
      "INSERT INTO semel.hook (hook, workspace, run, since, active, at_end, fed, webhook, token,"
      " op, shape) SELECT g, 1, 1000000 + g % 2, 0, 0, 0, 0, 0, '', '', ''"
      " FROM generate_series(1, 50000) g;"
      "ANALYZE semel.waiter, semel.inbox, semel.timer, semel.hook");
  const ScanCount scans{server};

  {
    Node node{server, "node"};
    node.open();
    node.expect<RunStarted>(start(run_of(node, 1)));
    node.expect<Advanced>(finish(1, 1));
    node.expect<RunStarted>(start(run_of(node, 2)));
    node.expect<Cancelled>(CancelRun{.id = "run-2", .now = at()});
  }

  scans.check_none("'waiter', 'inbox', 'timer', 'hook'");
}

TEST_CASE("resume ids that are forgotten are found by their time, and removed where they are") {
  PostgresServer& server = empty_server();
  Node{server, "before"}.open();
  server.run(
      "INSERT INTO semel.resume (workspace, hook, until, started, token, resume_id, fingerprint,"
      " run_id) SELECT 1, g, g, 0, g::text::bytea, '1', '', '' FROM generate_series(1, 50000) g;"
      "ANALYZE semel.resume");
  const ScanCount scans{server};

  {
    Node node{server, "node"};
    node.open();
    CHECK(node.expect<Swept>(Sweep{.now = at(), .limit = 1000}).resume_ids == 1000);
  }

  scans.check_none("'resume'");
}

}  // namespace
}  // namespace semel::store
