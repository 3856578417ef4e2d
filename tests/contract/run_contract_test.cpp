// The life of a run between its start and its end.
#include "tests/contract/stores.hpp"

namespace semel::store {
namespace {

Timer sleep(RunKey run, const std::string& op, TimePoint due) {
  return {.run = run, .kind = TimerKind::sleep, .op = op, .due = due};
}

TEST_CASE("entries are appended in order and make the version") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));

    subject.expect<Advanced>(
        AdvanceRun{.run = 1, .seq = 1, .entries = {entry("pack"), entry("ship")}, .now = at(5s)});

    CHECK(subject.names(1) == std::vector<std::string>{"started", "pack", "ship"});
    CHECK(subject.record(1).version == Seq{2});
    const auto stored = subject.reader().journal(1, 1, 10).value();
    REQUIRE(stored.size() == 2);
    CHECK(stored[1].seq == 2);
    CHECK(stored[1].at == at(5s));
    CHECK(stored[1].bytes == entry("ship"));
  });
}

TEST_CASE("an append at a stale position writes nothing") {
  for_each_store([](Subject& subject) {
    Changes changes{.status = Status::waiting,
                    .timers_set = {sleep(1, "2", at(1h))},
                    .attributes = {{"stage", "lost"}},
                    .children = {{.op = "3", .run = new_run(2)}}};
    subject.expect<RunStarted>(start(new_run(1)));
    subject.expect<Advanced>(advance(1, 1, "charge"));

    subject.expect<Stale>(advance(1, 1, "refund", changes));

    CHECK(subject.names(1) == std::vector<std::string>{"started", "charge"});
    CHECK(subject.record(1).status == Status::running);
    CHECK(subject.record(1).attributes.empty());
    CHECK(subject.timers(1).empty());
    subject.expect<RunMissing>(LoadRun{2});
  });
}

TEST_CASE("an append that would leave a gap writes nothing") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));
    NewRun delayed = new_run(2);
    delayed.start_at = at(1h);
    subject.expect<RunStarted>(start(delayed));

    subject.expect<Stale>(advance(1, 2, "too far"));
    subject.expect<Stale>(advance(1, 0, "too early"));
    subject.expect<Stale>(advance(2, 1, "too far"));
    subject.expect<Stale>(advance(3, 0, "no such run"));
    subject.expect<Stale>(advance(3, 1, "no such run"));

    CHECK(subject.names(1) == std::vector<std::string>{"started"});
    CHECK(subject.names(2).empty());
  });
}

TEST_CASE("of two appends at one position in one batch the first wins") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));

    const auto answers =
        subject.all({advance(1, 1, "first"), advance(1, 1, "second"), advance(1, 2, "third")});

    CHECK(std::holds_alternative<Advanced>(answers[0]));
    CHECK(std::holds_alternative<Stale>(answers[1]));
    CHECK(std::holds_alternative<Advanced>(answers[2]));
    CHECK(subject.names(1) == std::vector<std::string>{"started", "first", "third"});
  });
}

TEST_CASE("a command without entries changes the row under the same guard") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));

    subject.expect<Advanced>(AdvanceRun{.run = 1, .seq = 1, .changes = parked()});
    subject.expect<Stale>(AdvanceRun{.run = 1, .seq = 2, .changes = {.status = Status::running}});

    CHECK(subject.record(1).status == Status::waiting);
    CHECK(subject.record(1).version == Seq{0});
  });
}

TEST_CASE("a run that is over takes no more entries") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));
    subject.expect<Advanced>(finish(1, 1));

    subject.expect<Stale>(advance(1, 2, "late"));
    subject.expect<Stale>(AdvanceRun{.run = 1, .seq = 2, .changes = parked()});

    CHECK(subject.record(1).status == Status::completed);
  });
}

TEST_CASE("the end of a run is in its row, and nothing wakes it any more") {
  for_each_store([](Subject& subject) {
    StartRun other = start(new_run(2));
    StartRun command = start(new_run(1));
    command.changes = {.timers_set = {sleep(1, "1", at(1h))},
                       .waits = {{.op = "2", .run_id = "run-2"}}};
    subject.all({other, command, SaveProgress{.run = 1, .op = "3", .value = "50"}});
    subject.expect<Cancelled>(CancelRun{.id = "run-1", .grace_until = at(1h), .now = at()});

    subject.expect<Advanced>(finish(1, 1, failed("OUT_OF_STOCK"), at(7s)));

    const RunLoaded loaded = subject.load(1);
    CHECK(loaded.run.status == Status::failed);
    CHECK(loaded.run.failure == failed("OUT_OF_STOCK").failure);
    CHECK(loaded.run.ended_at == at(7s));
    CHECK(loaded.inbox.empty());
    CHECK(loaded.progress.empty());
    CHECK(subject.timers(1).empty());
    CHECK(subject.work() == std::vector<RunKey>{2});
    const auto ended = subject.expect<Advanced>(finish(2, 1));
    CHECK(ended.effects.wake.empty());
  });
}

TEST_CASE("attributes can be set and changed, also after a start") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));

    subject.expect<Advanced>(advance(
        1, 1, "pack", {.attributes = {{"stage", "packing"}, {"who", "ann"}, {"stage", "packed"}}}));

    const std::map<std::string, std::string> expected{{"stage", "packed"}, {"who", "ann"}};
    CHECK(subject.record(1).attributes == expected);
  });
}

TEST_CASE("due timers are found oldest first, with the time of the next one") {
  for_each_store([](Subject& subject) {
    StartRun command = start(new_run(1));
    command.changes.timers_set = {sleep(1, "b", at(2h)), sleep(1, "a", at(1h)),
                                  sleep(1, "c", at(3h))};
    subject.expect<RunStarted>(command);

    const auto none = subject.expect<TimersDue>(FindDue{.now = at(1h - 1ns)});
    CHECK(none.timers.empty());
    CHECK(none.next == at(1h));

    const auto two = subject.expect<TimersDue>(FindDue{.now = at(2h)});
    CHECK(two.timers == std::vector<Timer>{sleep(1, "a", at(1h)), sleep(1, "b", at(2h))});
    CHECK(two.next == at(3h));

    const auto limited = subject.expect<TimersDue>(FindDue{.now = at(9h), .limit = 2});
    CHECK(limited.timers.size() == 2);
    CHECK(limited.next == at(3h));

    const auto all = subject.expect<TimersDue>(FindDue{.now = at(9h)});
    CHECK(all.timers.size() == 3);
    CHECK_FALSE(all.next);
  });
}

TEST_CASE("a timer that is set again moves, and goes when it is cleared") {
  for_each_store([](Subject& subject) {
    StartRun command = start(new_run(1));
    command.changes.timers_set = {sleep(1, "a", at(1h)), sleep(1, "b", at(1h))};
    subject.expect<RunStarted>(command);

    subject.expect<Advanced>(advance(1, 1, "again", {.timers_set = {sleep(1, "a", at(2h))}}));
    CHECK(subject.timers(1) == std::vector<Timer>{sleep(1, "b", at(1h)), sleep(1, "a", at(2h))});

    subject.expect<Advanced>(
        advance(1, 2, "gone", {.timers_cleared = {sleep(1, "a", at(2h)), sleep(1, "b", at(1h))}}));
    CHECK(subject.timers(1).empty());
  });
}

TEST_CASE("a timer cleared and set in one command is set") {
  for_each_store([](Subject& subject) {
    StartRun command = start(new_run(1));
    command.changes.timers_set = {sleep(1, "a", at(1h))};
    subject.expect<RunStarted>(command);

    subject.expect<Advanced>(advance(
        1, 1, "again",
        {.timers_set = {sleep(1, "a", at(2h))}, .timers_cleared = {sleep(1, "a", at(1h))}}));

    CHECK(subject.timers(1) == std::vector<Timer>{sleep(1, "a", at(2h))});
  });
}

TEST_CASE("work is found by state, in key order, page by page") {
  for_each_store([](Subject& subject) {
    for (RunKey key = 1; key <= 5; ++key) subject.expect<RunStarted>(start(new_run(key)));
    subject.expect<Advanced>(advance(2, 1, "park", parked()));
    subject.expect<Advanced>(finish(3, 1));
    subject.expect<Advanced>(advance(4, 1, "park", parked()));
    subject.expect<Cancelled>(CancelRun{.id = "run-4", .grace_until = at(1h), .now = at()});

    CHECK(subject.work() == std::vector<RunKey>{1, 4, 5});
    CHECK(subject.expect<RunsFound>(FindWork{.limit = 2}).runs == std::vector<RunKey>{1, 4});
    CHECK(subject.expect<RunsFound>(FindWork{.after = 4, .limit = 2}).runs ==
          std::vector<RunKey>{5});
  });
}

TEST_CASE("a marked run is not over, but nothing is due and nobody drives it") {
  for_each_store([](Subject& subject) {
    const journal::Failure reason{.code = "DIVERGED",
                                  .message = "recorded a step, asked for a sleep"};
    StartRun command = start(keyed_run(1, "order-7"));
    command.changes.timers_set = {sleep(1, "a", at(1h))};
    subject.expect<RunStarted>(command);

    subject.expect<Advanced>(
        MarkRun{.run = 1, .seq = 0, .status = Status::diverged, .reason = reason});

    CHECK(subject.record(1).status == Status::diverged);
    CHECK(subject.record(1).failure == reason);
    CHECK(subject.record(1).version == Seq{0});
    CHECK_FALSE(subject.record(1).ended_at);
    CHECK(subject.timers(1).size() == 1);
    const auto due = subject.expect<TimersDue>(FindDue{.now = at(9h)});
    CHECK(due.timers.empty());
    CHECK_FALSE(due.next);
    CHECK(subject.work().empty());
    CHECK(subject.orphans().empty());
    subject.expect<Stale>(advance(1, 1, "late"));
    CHECK(subject.expect<RunExists>(start(keyed_run(2, "order-7"))).run.key == 1);
    CHECK(subject.expect<Swept>(Sweep{.now = at(100000h)}).runs == 0);
  });
}

TEST_CASE("a run is marked only at the version it was judged by") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));
    subject.expect<Advanced>(advance(1, 1, "went on"));
    NewRun delayed = new_run(2);
    delayed.start_at = at(1h);
    subject.expect<RunStarted>(start(delayed));

    subject.expect<Stale>(MarkRun{.run = 1, .seq = 0, .status = Status::dead});
    subject.expect<Stale>(MarkRun{.run = 1, .status = Status::dead});
    subject.expect<Stale>(MarkRun{.run = 2, .seq = 0, .status = Status::dead});
    subject.expect<Advanced>(MarkRun{.run = 2, .status = Status::dead});
    subject.expect<Advanced>(MarkRun{.run = 1, .seq = 1, .status = Status::dead});
    subject.expect<Cancelled>(CancelRun{.id = "run-1", .now = at()});

    subject.expect<Stale>(MarkRun{.run = 1, .seq = 2, .status = Status::dead});
  });
}

TEST_CASE("a failed run is opened again with its key, without its end") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(keyed_run(1, "order-7")));
    subject.expect<Advanced>(finish(1, 1, failed()));

    subject.expect<Advanced>(
        ReopenRun{.run = 1, .seq = 2, .entries = {entry("reopened")}, .now = at(1h)});

    const RunRecord record = subject.record(1);
    CHECK(record.status == Status::running);
    CHECK_FALSE(record.failure);
    CHECK_FALSE(record.ended_at);
    CHECK(record.version == Seq{2});
    CHECK(subject.work() == std::vector<RunKey>{1});
    CHECK(subject.expect<Swept>(Sweep{.now = at(100000h)}).runs == 0);
    subject.expect<Advanced>(advance(1, 3, "goes on"));
  });
}

TEST_CASE("only failed, dead and diverged runs can be opened again, and only at their end") {
  for_each_store([](Subject& subject) {
    for (RunKey key = 1; key <= 4; ++key) subject.expect<RunStarted>(start(new_run(key)));
    subject.expect<Advanced>(finish(1, 1));
    subject.expect<Cancelled>(CancelRun{.id = "run-2", .now = at()});
    subject.expect<Advanced>(finish(4, 1, failed()));

    subject.expect<Stale>(ReopenRun{.run = 1, .seq = 2, .entries = {entry("completed")}});
    subject.expect<Stale>(ReopenRun{.run = 2, .seq = 2, .entries = {entry("cancelled")}});
    subject.expect<Stale>(ReopenRun{.run = 3, .seq = 1, .entries = {entry("running")}});
    subject.expect<Stale>(ReopenRun{.run = 4, .seq = 1, .entries = {entry("moved on")}});
    subject.expect<Stale>(ReopenRun{.run = 5, .seq = 0, .entries = {entry("missing")}});
    subject.expect<Advanced>(MarkRun{.run = 3, .seq = 0, .status = Status::dead});
    subject.expect<Advanced>(
        ReopenRun{.run = 3, .seq = 1, .entries = {entry("dead")}, .changes = parked()});

    CHECK(subject.record(3).status == Status::waiting);
    CHECK_FALSE(subject.record(3).failure);
  });
}

TEST_CASE("a run cannot be opened again while another has its key") {
  for_each_store([](Subject& subject) {
    NewRun second = keyed_run(2, "order-7");
    second.after_done = AfterDone::start_new;
    second.key_ttl = 1h;
    const ReopenRun reopen{.run = 1, .seq = 2, .entries = {entry("reopened")}, .now = at()};
    subject.expect<RunStarted>(start(keyed_run(1, "order-7")));
    subject.expect<Advanced>(finish(1, 1, failed()));
    subject.expect<RunStarted>(start(second));

    const auto refused = subject.expect<StartRefused>(reopen);
    CHECK(refused.why == StartRefused::Why::run_active);
    CHECK(refused.run_id == "run-2");
    CHECK(subject.record(1).status == Status::failed);
    CHECK(subject.record(1).version == Seq{1});

    subject.expect<Advanced>(finish(2, 1));
    subject.expect<StartRefused>(reopen);
    ReopenRun late = reopen;
    late.now = at(1h);
    subject.expect<Advanced>(late);
    CHECK(subject.expect<RunExists>(start(keyed_run(3, "order-7"))).run.key == 1);
  });
}

TEST_CASE("progress is remembered until it is replaced or the run ends") {
  for_each_store([](Subject& subject) {
    using Progress = std::vector<std::pair<std::string, std::string>>;
    subject.expect<RunStarted>(start(new_run(1)));

    subject.expect<Done>(SaveProgress{.run = 1, .op = "2", .value = "10"});
    subject.expect<Done>(SaveProgress{.run = 1, .op = "1", .value = "20"});
    subject.expect<Done>(SaveProgress{.run = 1, .op = "2", .value = "30"});
    CHECK(subject.load(1).progress == Progress{{"1", "20"}, {"2", "30"}});

    subject.expect<Advanced>(finish(1, 1));
    subject.expect<Done>(SaveProgress{.run = 1, .op = "2", .value = "40"});
    subject.expect<Done>(SaveProgress{.run = 7, .op = "2", .value = "40"});
    CHECK(subject.load(1).progress.empty());
  });
}

TEST_CASE("what was committed is there when the store is opened again") {
  for_each_store([](Subject& subject) {
    StartRun command = start(keyed_run(1, "order-7"));
    command.changes = {.status = Status::waiting, .timers_set = {sleep(1, "a", at(1h))}};
    subject.expect<RunStarted>(command);
    const RunLoaded before = subject.load(1);

    subject.reopen();

    CHECK(subject.load(1).run == before.run);
    CHECK(subject.load(1).entries == before.entries);
    CHECK(subject.timers(1).size() == 1);
    CHECK(subject.expect<RunExists>(start(keyed_run(2, "order-7"))).run.key == 1);
  });
}

TEST_CASE("bytes of any kind are kept as they are") {
  for_each_store([](Subject& subject) {
    const std::string odd{"\0'\xff\xc3\"\n", 6};
    NewRun run = new_run(1);
    run.input = odd;
    run.fingerprint = odd;
    run.attributes = {{"odd", "\xc3\xa4 ' \" %"}};
    StartRun command{.run = run, .first_entry = odd};
    subject.expect<RunStarted>(command);

    const RunLoaded loaded = subject.load(1);

    CHECK(loaded.run.input == odd);
    CHECK(loaded.run.fingerprint == odd);
    CHECK(loaded.run.attributes == run.attributes);
    CHECK(loaded.entries == std::vector<std::string>{odd});
  });
}

TEST_CASE("an empty batch is fine and a batch that only reads changes nothing") {
  for_each_store([](Subject& subject) {
    CHECK(subject.all({}).empty());
    subject.expect<RunMissing>(LoadRun{1});
    CHECK(subject.expect<InboxRead>(ReadInbox{1}).items.empty());
    CHECK(subject.work().empty());
  });
}

}  // namespace
}  // namespace semel::store
