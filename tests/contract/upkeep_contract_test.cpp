// Opening, run keys, and what is forgotten when its time is over.
#include "tests/contract/stores.hpp"

namespace semel::store {
namespace {

/// What is said of the last owner, of each partition the same.
Gained opened(Subject& subject) {
  const auto answer = subject.expect<NodeOpened>(OpenNode{.now = at()});
  REQUIRE_FALSE(answer.gained.empty());
  for (Gained each : answer.gained) {
    each.partition = answer.gained.front().partition;
    CHECK(each == answer.gained.front());
  }
  return answer.gained.front();
}

TEST_CASE("an opener learns whether the last one left in order") {
  for_each_store([](Subject& subject) {
    const Gained first = opened(subject);
    CHECK(first.clean);
    CHECK(first.crashes == 0);

    subject.reopen();
    CHECK_FALSE(opened(subject).clean);
    subject.expect<Done>(NodeWell{.closed = true});

    subject.reopen();
    const Gained third = opened(subject);
    CHECK(third.clean);
    CHECK(third.crashes == 0);
  });
}

TEST_CASE("openers that never got well are counted until one does") {
  for_each_store([](Subject& subject) {
    for (const int crashes : {0, 1, 2, 3}) {
      CHECK(opened(subject).crashes == crashes);
      subject.reopen();
    }
    CHECK(opened(subject).crashes == 4);
    subject.expect<Done>(NodeWell{});

    subject.reopen();
    const Gained after_well = opened(subject);
    CHECK_FALSE(after_well.clean);
    CHECK(after_well.crashes == 0);

    subject.reopen();
    CHECK(opened(subject).crashes == 1);
  });
}

TEST_CASE("run keys are given out once, over all openings") {
  for_each_store([](Subject& subject) {
    const RunKey first =
        subject.expect<NodeOpened>(OpenNode{.now = at(), .keys_count = 10}).first_key;
    const RunKey second = subject.expect<KeysReserved>(ReserveKeys{.keys_count = 5}).first_key;
    subject.reopen();
    const RunKey third =
        subject.expect<NodeOpened>(OpenNode{.now = at(), .keys_count = 1}).first_key;

    CHECK(first > 0);
    CHECK(second == first + 10);
    CHECK(third == second + 5);
  });
}

TEST_CASE("a sweep forgets a key when its time is over and the run when its retention is") {
  for_each_store([](Subject& subject) {
    NewRun run = keyed_run(1, "order-7");
    run.key_ttl = 1h;
    run.retention = 2h;
    run.attributes = {{"stage", "done"}};
    subject.expect<RunStarted>(start(run));
    subject.expect<Advanced>(finish(1, 1));

    CHECK(subject.expect<Swept>(Sweep{.now = at(1h - 1ns)}).keys == 0);
    const auto keys = subject.expect<Swept>(Sweep{.now = at(1h)});
    CHECK(keys.keys == 1);
    CHECK(keys.runs == 0);
    CHECK_FALSE(keys.more);
    CHECK(subject.record(1).idempotency_key == "order-7");
    subject.expect<RunStarted>(start(keyed_run(2, "order-7")));

    const auto runs = subject.expect<Swept>(Sweep{.now = at(2h)});
    CHECK(runs.runs == 1);
    CHECK(runs.entries == 2);
    subject.expect<RunMissing>(LoadRun{1});
    subject.expect<RunMissing>(FindRun{.id = "run-1"});
    CHECK(subject.reader().list({.attributes = {{"stage", "done"}}}).value().empty());
    CHECK(subject.record(2).status == Status::running);
  });
}

TEST_CASE("a run with a key is kept at least as long as its key") {
  for_each_store([](Subject& subject) {
    NewRun run = keyed_run(1, "order-7");
    run.key_ttl = 3h;
    run.retention = 1h;
    subject.expect<RunStarted>(start(run));
    subject.expect<Advanced>(finish(1, 1));

    CHECK(subject.expect<Swept>(Sweep{.now = at(3h - 1ns)}).runs == 0);
    CHECK(subject.expect<Swept>(Sweep{.now = at(3h)}).runs == 1);
  });
}

TEST_CASE("a sweep takes no more rows than it may and says whether there are more") {
  for_each_store([](Subject& subject) {
    for (RunKey key = 1; key <= 3; ++key) {
      // The key of the first goes before its run does.
      NewRun run = key == 1 ? keyed_run(key, "order-7") : new_run(key);
      run.retention = key == 1 ? 2h : 1h;
      run.key_ttl = 1h;
      subject.all({start(run), advance(key, 1, "pack"), finish(key, 2)});
    }

    Swept total;
    int rounds = 0;
    for (bool more = true; more; ++rounds) {
      const auto swept = subject.expect<Swept>(Sweep{.now = at(1h), .limit = 4});
      CHECK(swept.keys + swept.runs + swept.entries <= 4);
      total.keys += swept.keys;
      total.runs += swept.runs;
      total.entries += swept.entries;
      more = swept.more;
    }

    CHECK(total.keys == 1);
    CHECK(total.runs == 2);
    CHECK(total.entries == 6);
    CHECK(rounds == 3);
  });
}

TEST_CASE("entries whose run is gone show nowhere, before and after they are swept") {
  for_each_store([](Subject& subject) {
    NewRun run = new_run(1);
    run.retention = 1h;
    subject.all({start(run), finish(1, 1)});

    CHECK(subject.expect<Swept>(Sweep{.now = at(1h), .limit = 1}).runs == 1);

    subject.expect<RunMissing>(LoadRun{1});
    CHECK(subject.reader().journal(1, 0, 10).value().empty());
    subject.expect<Stale>(advance(1, 2, "late"));
    CHECK(subject.expect<Swept>(Sweep{.now = at(1h)}).entries == 2);
  });
}

TEST_CASE("unfinished runs are never swept") {
  for_each_store([](Subject& subject) {
    subject.all(
        {start(keyed_run(1, "order-7")), start(new_run(2)), advance(2, 1, "park", parked())});

    const auto swept = subject.expect<Swept>(Sweep{.now = at(1'000'000h)});

    CHECK(swept.keys == 0);
    CHECK(swept.runs == 0);
    CHECK(subject.expect<RunExists>(start(keyed_run(3, "order-7"))).run.key == 1);
  });
}

}  // namespace
}  // namespace semel::store
