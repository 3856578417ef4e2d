// Who drives which runs where several share one store: leases, partitions, hints.
#include "store/postgres/postgres_hints.hpp"
#include "store/postgres/postgres_store.hpp"
#include "tests/contract/stores.hpp"
#include "tests/support/postgres_server.hpp"

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

}  // namespace
}  // namespace semel::store
