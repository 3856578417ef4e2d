// Cancels: one commit ends a run and the children it made.
#include "tests/contract/stores.hpp"

namespace semel::store {
namespace {

NewRun child_of(RunKey parent, RunKey key) {
  NewRun run = new_run(key);
  run.parent = parent;
  return run;
}

TEST_CASE("a cancel ends the run with an entry of its own") {
  for_each_store([](Subject& subject) {
    StartRun command = start(new_run(1));
    command.changes.timers_set = {{.run = 1, .op = "1", .due = at(1h)}};
    subject.expect<RunStarted>(command);

    const auto cancelled =
        subject.expect<Cancelled>(CancelRun{.id = "run-1", .now = at(5s), .reason = "a mistake"});

    CHECK(cancelled.run == subject.record(1));
    CHECK(cancelled.run.status == Status::cancelled);
    CHECK(cancelled.run.failure ==
          journal::Failure{.code = "RUN_CANCELLED", .message = "a mistake"});
    CHECK(cancelled.run.ended_at == at(5s));
    CHECK(cancelled.run.version == Seq{1});
    CHECK(cancelled.effects.ended.empty());
    CHECK(subject.names(1) == std::vector<std::string>{"started", "cancelled"});
    CHECK(subject.timers(1).empty());
    subject.expect<Stale>(advance(1, 1, "came second"));
  });
}

TEST_CASE("cancelling a cancelled run changes nothing, whatever version was expected") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));
    const CancelRun command{.id = "run-1", .expected_version = 0, .now = at()};

    const auto first = subject.expect<Cancelled>(command);
    const auto second = subject.expect<Cancelled>(command);

    CHECK(second.run == first.run);
    CHECK(subject.names(1).size() == 2);
  });
}

TEST_CASE("a run that is over otherwise cannot be cancelled") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));
    subject.expect<Advanced>(finish(1, 1));

    CHECK(subject.expect<NotActive>(CancelRun{.id = "run-1", .now = at()}).run ==
          subject.record(1));
    subject.expect<RunMissing>(CancelRun{.id = "run-2", .now = at()});
    CHECK(subject.record(1).status == Status::completed);
  });
}

TEST_CASE("a cancel can insist on the version it was decided by") {
  for_each_store([](Subject& subject) {
    NewRun delayed = new_run(2);
    delayed.start_at = at(1h);
    subject.all({start(new_run(1)), advance(1, 1, "went on"), start(delayed)});

    CHECK(subject.expect<VersionMoved>(CancelRun{.id = "run-1", .expected_version = 0}).version ==
          Seq{1});
    CHECK_FALSE(
        subject.expect<VersionMoved>(CancelRun{.id = "run-2", .expected_version = 1}).version);
    // Without an entry it is at 0, as whoever looks at it is told.
    subject.expect<Cancelled>(CancelRun{.id = "run-2", .expected_version = 0});
    CHECK(subject.record(1).status == Status::running);
    subject.expect<Cancelled>(CancelRun{.id = "run-1", .expected_version = 1, .now = at()});
  });
}

TEST_CASE("a cancel reaches the unfinished children and theirs, not those of others") {
  for_each_store([](Subject& subject) {
    subject.all({start(new_run(1)), start(child_of(1, 2)), start(child_of(2, 3)),
                 start(child_of(1, 4)), start(new_run(5)), start(child_of(1, 6)),
                 start(child_of(6, 7))});
    subject.expect<Advanced>(finish(6, 1));

    const auto cancelled = subject.expect<Cancelled>(CancelRun{.id = "run-1", .now = at()});

    CHECK(cancelled.effects.ended == std::vector<RunKey>{2, 3, 4});
    CHECK(subject.record(3).status == Status::cancelled);
    CHECK(subject.names(3).back() == "cancelled");
    CHECK(subject.record(5).status == Status::running);
    CHECK(subject.record(6).status == Status::completed);
    CHECK(subject.record(7).status == Status::running);
  });
}

TEST_CASE("runs that end together do not wake each other") {
  for_each_store([](Subject& subject) {
    StartRun watcher = start(new_run(3));
    watcher.changes = {.status = Status::waiting, .waits = {{.op = "1", .run_id = "run-2"}}};
    subject.expect<RunStarted>(start(new_run(1)));
    subject.expect<Advanced>(advance(
        1, 1, "asks", {.status = Status::waiting, .children = {{.op = "1", .run = new_run(2)}}}));
    subject.expect<RunStarted>(watcher);

    const auto cancelled = subject.expect<Cancelled>(CancelRun{.id = "run-1", .now = at()});

    CHECK(cancelled.effects.ended == std::vector<RunKey>{2});
    CHECK(cancelled.effects.wake == std::vector<RunKey>{3});
    CHECK(subject.inbox(1).empty());
  });
}

TEST_CASE("a cancel with grace is told to the run and its children through their inboxes") {
  for_each_store([](Subject& subject) {
    subject.all({start(new_run(1)), start(child_of(1, 2)), advance(2, 1, "park", parked())});

    const auto cancelled =
        subject.expect<Cancelled>(CancelRun{.id = "run-1", .grace_until = at(30s), .now = at()});

    CHECK(cancelled.run.status == Status::running);
    CHECK(cancelled.effects.wake == std::vector<RunKey>{1, 2});
    CHECK(cancelled.effects.ended.empty());
    for (const RunKey key : {1, 2}) {
      const auto items = subject.inbox(key);
      REQUIRE(items.size() == 1);
      CHECK(items[0].kind == InboxItem::Kind::cancel);
      CHECK(items[0].at == at(30s));
    }
    CHECK(subject.work() == std::vector<RunKey>{1, 2});
  });
}

TEST_CASE("a run nobody drives is ended at once, grace or not; its children have theirs") {
  for_each_store([](Subject& subject) {
    NewRun pending = new_run(1);
    pending.start_at = at(1h);
    subject.all({start(pending), start(new_run(2)), start(child_of(2, 3))});
    subject.expect<Advanced>(MarkRun{.run = 2, .seq = 0, .status = Status::dead});

    const auto first =
        subject.expect<Cancelled>(CancelRun{.id = "run-1", .grace_until = at(30s), .now = at()});
    const auto second =
        subject.expect<Cancelled>(CancelRun{.id = "run-2", .grace_until = at(30s), .now = at()});

    CHECK(first.run.status == Status::cancelled);
    CHECK(first.run.version == Seq{0});
    CHECK(subject.timers(1).empty());
    CHECK(second.run.status == Status::cancelled);
    CHECK(second.effects.wake == std::vector<RunKey>{3});
    CHECK(subject.record(3).status == Status::running);
  });
}

TEST_CASE("a second cancel with grace is told as well, so that it may be shortened") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));

    subject.expect<Cancelled>(CancelRun{.id = "run-1", .grace_until = at(30s), .now = at()});
    subject.expect<Cancelled>(CancelRun{.id = "run-1", .grace_until = at(10s), .now = at()});

    const auto items = subject.inbox(1);
    REQUIRE(items.size() == 2);
    CHECK(items[0].at == at(30s));
    CHECK(items[1].at == at(10s));
  });
}

TEST_CASE(
    "what is consumed leaves the inbox with the entry that consumed it, and its number never comes "
    "back") {
  for_each_store([](Subject& subject) {
    subject.all({start(new_run(1)), start(new_run(2))});
    subject.expect<Cancelled>(CancelRun{.id = "run-1", .grace_until = at(30s), .now = at()});
    const std::int64_t item = subject.inbox(1).at(0).id;

    subject.expect<Stale>(advance(1, 7, "stale", {.inbox_consumed = {item}}));
    subject.expect<Advanced>(advance(2, 1, "not its own", {.inbox_consumed = {item}}));
    CHECK(subject.inbox(1).size() == 1);
    subject.expect<Advanced>(advance(1, 1, "consumes", {.inbox_consumed = {item}}));
    CHECK(subject.inbox(1).empty());

    subject.reopen();
    subject.expect<Cancelled>(CancelRun{.id = "run-1", .grace_until = at(10s), .now = at()});
    CHECK(subject.inbox(1).at(0).id > item);
  });
}

}  // namespace
}  // namespace semel::store
