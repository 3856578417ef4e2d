// Looking without touching.
#include "tests/contract/stores.hpp"

namespace semel::store {
namespace {

std::vector<std::string> ids(const base::Result<std::vector<RunRecord>>& found) {
  REQUIRE(found);
  std::vector<std::string> names;
  for (const RunRecord& record : *found) names.push_back(record.id);
  return names;
}

using Ids = std::vector<std::string>;

/// Four runs of "order" made a second apart, one of "refund" beside the last.
void fill(Subject& subject) {
  for (RunKey key = 1; key <= 4; ++key) {
    NewRun run = new_run(key);
    run.created_at = at(std::chrono::seconds{key});
    run.attributes = {{"parity", key % 2 == 0 ? "even" : "odd"}};
    if (key == 3) run.idempotency_key = "order-7";
    subject.expect<RunStarted>(start(run));
  }
  NewRun refund = new_run(5);
  refund.created_at = at(4s);
  refund.workflow = "refund";
  refund.attributes = {{"parity", "odd"}, {"stage", "new"}};
  subject.expect<RunStarted>(start(refund));
  subject.expect<Advanced>(finish(2, 1));
}

TEST_CASE("a run is found by its id in its workspace only") {
  for_each_store([](Subject& subject) {
    fill(subject);

    CHECK(subject.reader().find("default", "run-3").value() == subject.record(3));
    CHECK_FALSE(subject.reader().find("default", "run-9").value());
    CHECK_FALSE(subject.reader().find("acme", "run-3").value());
  });
}

TEST_CASE("runs are listed newest first, by id where they are of one moment") {
  for_each_store([](Subject& subject) {
    fill(subject);

    CHECK(ids(subject.reader().list({})) == Ids{"run-5", "run-4", "run-3", "run-2", "run-1"});
    CHECK(subject.reader().list({}).value().at(2) == subject.record(3));
    CHECK(ids(subject.reader().list({.workspace = "acme"})).empty());
  });
}

TEST_CASE("a list can be read page by page") {
  for_each_store([](Subject& subject) {
    fill(subject);

    ListFilter filter{.limit = 2};
    Ids seen;
    while (true) {
      const auto page = subject.reader().list(filter).value();
      for (const RunRecord& record : page) seen.push_back(record.id);
      if (page.size() < filter.limit) break;
      filter.before = {page.back().created_at, page.back().id};
    }

    CHECK(seen == Ids{"run-5", "run-4", "run-3", "run-2", "run-1"});
  });
}

TEST_CASE("a list is narrowed by each filter and by all of them") {
  for_each_store([](Subject& subject) {
    fill(subject);
    Reader& reader = subject.reader();

    CHECK(ids(reader.list({.workflow = "refund"})) == Ids{"run-5"});
    CHECK(ids(reader.list({.status = Status::completed})) == Ids{"run-2"});
    CHECK(ids(reader.list({.idempotency_key = "order-7"})) == Ids{"run-3"});
    CHECK(ids(reader.list({.attributes = {{"parity", "odd"}}})) == Ids{"run-5", "run-3", "run-1"});
    CHECK(ids(reader.list({.attributes = {{"parity", "odd"}, {"stage", "new"}}})) == Ids{"run-5"});
    CHECK(ids(reader.list({.attributes = {{"parity", "neither"}}})).empty());
    CHECK(ids(reader.list({.since = at(2s), .until = at(4s)})) == Ids{"run-3", "run-2"});
    CHECK(ids(reader.list({.workflow = "order",
                           .status = Status::running,
                           .attributes = {{"parity", "odd"}},
                           .since = at(2s)})) == Ids{"run-3"});
  });
}

TEST_CASE("a key is searched for among all runs that ever had it") {
  for_each_store([](Subject& subject) {
    NewRun second = keyed_run(2, "order-7");
    second.after_done = AfterDone::start_new;
    subject.all({start(keyed_run(1, "order-7")), finish(1, 1), start(second)});

    CHECK(ids(subject.reader().list({.idempotency_key = "order-7"})) == Ids{"run-2", "run-1"});
  });
}

TEST_CASE("a journal can be read from any position") {
  for_each_store([](Subject& subject) {
    subject.all({start(new_run(1)), advance(1, 1, "pack"), advance(1, 2, "ship")});

    const auto page = subject.reader().journal(1, 1, 1).value();
    REQUIRE(page.size() == 1);
    CHECK(page[0].bytes == entry("pack"));
    CHECK(subject.reader().journal(1, 3, 10).value().empty());
    CHECK(subject.reader().journal(9, 0, 10).value().empty());
  });
}

TEST_CASE("a waiting run without a reason to wake is an orphan") {
  for_each_store([](Subject& subject) {
    subject.all({start(new_run(1)), advance(1, 1, "park", parked())});

    const auto orphans = subject.orphans();

    REQUIRE(orphans.size() == 1);
    CHECK(orphans[0].id == "run-1");
    CHECK(orphans[0].workspace == "default");
    CHECK(orphans[0].status == Status::waiting);
    CHECK(subject.reader().orphans(0).value().empty());
  });
}

TEST_CASE(
    "a timer, something in the inbox or another unfinished run keeps a run from being an orphan") {
  for_each_store([](Subject& subject) {
    for (RunKey key = 1; key <= 4; ++key) subject.expect<RunStarted>(start(new_run(key)));
    Changes sleeps = parked();
    sleeps.timers_set = {{.run = 1, .op = "1", .due = at(1h)}};
    Changes waits = parked();
    waits.waits = {{.op = "1", .run_id = "run-4"}};
    subject.all({advance(1, 1, "sleeps", sleeps), advance(2, 1, "waits", waits),
                 advance(3, 1, "parks", parked()),
                 CancelRun{.id = "run-3", .grace_until = at(1h), .now = at()}});
    CHECK(subject.orphans().empty());

    subject.expect<Advanced>(
        advance(1, 2, "forgets", {.timers_cleared = {{.run = 1, .op = "1", .due = at(1h)}}}));
    subject.expect<Advanced>(advance(2, 2, "forgets", {.waits_dropped = {"1"}}));
    subject.expect<Advanced>(
        advance(3, 2, "forgets", {.inbox_consumed = {subject.inbox(3).at(0).id}}));

    CHECK(subject.orphans().size() == 3);
  });
}

TEST_CASE("a pending run without its start timer is an orphan, whatever other timers it has") {
  for_each_store([](Subject& subject) {
    NewRun run = new_run(1);
    run.start_at = at(1h);
    run.deadline = at(2h);
    subject.expect<RunStarted>(start(run));
    CHECK(subject.orphans().empty());

    subject.expect<Advanced>(AdvanceRun{
        .run = 1,
        .seq = 0,
        .changes = {.timers_cleared = {{.run = 1, .kind = TimerKind::start, .due = at(1h)}}}});

    CHECK(subject.orphans().size() == 1);
  });
}

TEST_CASE("hooks are listed newest first, by run and from a place on") {
  for_each_store([](Subject& subject) {
    for (const RunKey key : {1, 2}) {
      NewRun run = new_run(key);
      run.hooks = {{.token = "a" + std::to_string(key)}, {.token = "b" + std::to_string(key)}};
      subject.expect<RunStarted>(start(run));
    }
    const auto tokens = [&](const HookFilter& filter) {
      std::string list;
      const auto found = subject.reader().hooks(filter).value();
      for (const HookRecord& hook : found) list += hook.token + " ";
      return list;
    };
    const auto all = subject.reader().hooks({}).value();

    CHECK(tokens({}) == "b2 a2 b1 a1 ");
    CHECK(tokens({.run_id = "run-1"}) == "b1 a1 ");
    CHECK(tokens({.run_id = "run-3"}).empty());
    CHECK(tokens({.workspace = "other"}).empty());
    CHECK(tokens({.before = std::stoll(all.at(1).id), .limit = 1}) == "b1 ");
    CHECK(all.at(3) == *subject.reader().hook("default", "a1").value());
  });
}

TEST_CASE("a public hook is found by its token alone, and a latecomer's is not") {
  for_each_store([](Subject& subject) {
    for (const RunKey key : {1, 2, 3}) {
      NewRun run = new_run(key);
      run.workspace = "w" + std::to_string(key);
      run.hooks = {{.token = "t", .webhook = key != 1}};
      subject.expect<RunStarted>(start(run));
    }

    CHECK(subject.reader().public_hook("t").value()->workspace == "w2");
    CHECK(subject.reader().public_hook("t").value()->hook.run_id == "run-2");
    CHECK_FALSE(subject.reader().public_hook("u").value());
  });
}

}  // namespace
}  // namespace semel::store
