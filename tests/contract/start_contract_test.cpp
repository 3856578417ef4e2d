// Starts: who gets a key or an id.
#include "tests/contract/stores.hpp"

namespace semel::store {
namespace {

using Why = StartRefused::Why;

NewRun with_id(RunKey key, const std::string& id) {
  NewRun run = new_run(key);
  run.id = id;
  run.chosen_id = true;
  return run;
}

TEST_CASE("a started run is there with everything it was given") {
  for_each_store([](Subject& subject) {
    NewRun run = keyed_run(1, "order-7");
    run.partition = 3;
    run.code_version = 4;
    run.deadline = at(1h);
    run.attributes = {{"stage", "new"}};

    const auto started = subject.expect<RunStarted>(start(run));

    CHECK(started.effects.wake.empty());
    CHECK(started.effects.created.empty());
    const RunRecord record = subject.record(1);
    CHECK(record == RunRecord{.key = 1,
                              .workspace = "default",
                              .partition = 3,
                              .id = "run-1",
                              .instance = "instance-1",
                              .workflow = "order",
                              .code_version = 4,
                              .status = Status::running,
                              .input = "[7]",
                              .idempotency_key = "order-7",
                              .fingerprint = "fingerprint of [7]",
                              .created_at = at(),
                              .deadline = at(1h),
                              .version = 0,
                              .attributes = {{"stage", "new"}}});
    CHECK(subject.names(1) == std::vector<std::string>{"started"});
    CHECK(subject.timers(1) ==
          std::vector<Timer>{{.run = 1, .kind = TimerKind::deadline, .due = at(1h)}});
  });
}

TEST_CASE("a start may do all that an entry can, its end included") {
  for_each_store([](Subject& subject) {
    StartRun command = start(new_run(1));
    command.changes = {.attributes = {{"stage", "done"}}, .end = End{.output = "7"}};

    subject.expect<RunStarted>(command);

    const RunRecord record = subject.record(1);
    CHECK(record.status == Status::completed);
    CHECK(record.output == "7");
    CHECK(record.ended_at == at());
    CHECK(record.attributes.at("stage") == "done");
    CHECK(subject.work().empty());
  });
}

TEST_CASE("a delayed run is pending, has no entry and waits for its start timer") {
  for_each_store([](Subject& subject) {
    NewRun run = new_run(1);
    run.start_at = at(1h);

    subject.expect<RunStarted>(start(run));

    CHECK(subject.record(1).status == Status::pending);
    CHECK_FALSE(subject.record(1).version);
    CHECK(subject.work().empty());
    CHECK(subject.orphans().empty());
    CHECK(subject.timers(1) ==
          std::vector<Timer>{{.run = 1, .kind = TimerKind::start, .due = at(1h)}});

    subject.expect<Advanced>(AdvanceRun{
        .run = 1,
        .seq = 0,
        .entries = {entry("started late")},
        .changes = {.status = Status::running,
                    .timers_cleared = {{.run = 1, .kind = TimerKind::start, .due = at(1h)}}},
        .now = at(1h)});
    CHECK(subject.work() == std::vector<RunKey>{1});
    CHECK(subject.timers(1).empty());
  });
}

TEST_CASE("the second start with a key is handed the first one's run, finished or not") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(keyed_run(1, "order-7")));

    CHECK(subject.expect<RunExists>(start(keyed_run(2, "order-7"))).run.key == 1);
    subject.expect<Advanced>(finish(1, 1));
    const auto again = subject.expect<RunExists>(start(keyed_run(3, "order-7")));

    CHECK(again.run == subject.record(1));
    CHECK(again.run.output == "42");
    subject.expect<RunMissing>(LoadRun{2});
    subject.expect<RunMissing>(LoadRun{3});
  });
}

TEST_CASE("two starts with one key in one batch make one run") {
  for_each_store([](Subject& subject) {
    const auto answers =
        subject.all({start(keyed_run(1, "order-7")), start(keyed_run(2, "order-7"))});

    CHECK(std::holds_alternative<RunStarted>(answers[0]));
    CHECK(std::get<RunExists>(answers[1]).run.key == 1);
  });
}

TEST_CASE("the same key means nothing in another workspace") {
  for_each_store([](Subject& subject) {
    NewRun other = keyed_run(2, "order-7");
    other.workspace = "acme";
    other.id = "run-1";
    other.chosen_id = true;
    subject.expect<RunStarted>(start(keyed_run(1, "order-7")));

    subject.expect<RunStarted>(start(other));

    CHECK(subject.expect<RunLoaded>(FindRun{.workspace = "acme", .id = "run-1"}).run.key == 2);
    CHECK(subject.expect<RunLoaded>(FindRun{.workspace = "default", .id = "run-1"}).run.key == 1);
    subject.expect<RunMissing>(FindRun{.workspace = "nobody", .id = "run-1"});
    subject.expect<RunMissing>(CancelRun{.workspace = "nobody", .id = "run-1"});
  });
}

TEST_CASE("a key with another input or workflow is refused wherever the run would be handed back") {
  for_each_store([](Subject& subject) {
    NewRun other_input = keyed_run(2, "order-7");
    other_input.fingerprint = "fingerprint of [8]";
    NewRun unchecked = other_input;
    unchecked.check_fingerprint = false;
    NewRun other_workflow = unchecked;
    other_workflow.workflow = "refund";
    subject.expect<RunStarted>(start(keyed_run(1, "order-7")));

    for (const bool finished : {false, true}) {
      CAPTURE(finished);
      if (finished) subject.expect<Advanced>(finish(1, 1));
      const auto refused = subject.expect<StartRefused>(start(other_input));
      CHECK(refused.why == Why::input_differs);
      CHECK(refused.run_id == "run-1");
      CHECK(subject.expect<RunExists>(start(unchecked)).run.key == 1);
      CHECK(subject.expect<StartRefused>(start(other_workflow)).why == Why::input_differs);
    }
  });
}

TEST_CASE("a start can refuse to join a run that is not over") {
  for_each_store([](Subject& subject) {
    NewRun second = keyed_run(2, "order-7");
    second.on_running = OnRunning::reject;
    second.fingerprint = "does not matter where nothing is handed back";
    subject.expect<RunStarted>(start(keyed_run(1, "order-7")));

    CHECK(subject.expect<StartRefused>(start(second)).why == Why::run_active);
    subject.expect<Advanced>(MarkRun{.run = 1, .seq = 0, .status = Status::dead});
    const auto refused = subject.expect<StartRefused>(start(second));

    CHECK(refused.why == Why::run_active);
    CHECK(refused.run_id == "run-1");
  });
}

TEST_CASE("a start can take the key from a run that is over, which keeps its row") {
  for_each_store([](Subject& subject) {
    NewRun second = keyed_run(2, "order-7");
    second.after_done = AfterDone::start_new;
    second.fingerprint = "does not matter where nothing is handed back";
    subject.expect<RunStarted>(start(keyed_run(1, "order-7")));
    subject.expect<Advanced>(finish(1, 1));

    subject.expect<RunStarted>(start(second));

    CHECK(subject.record(1).idempotency_key == "order-7");
    NewRun third = keyed_run(3, "order-7");
    third.fingerprint = second.fingerprint;
    CHECK(subject.expect<RunExists>(start(third)).run.key == 2);
  });
}

TEST_CASE("start_new_if_failed starts again behind a failed or cancelled run only") {
  for_each_store([](Subject& subject) {
    const auto ends = std::to_array<std::pair<End, bool>>(
        {{End{.output = "1"}, false}, {failed(), true}, {End{.status = Status::cancelled}, true}});
    RunKey key = 0;
    for (const auto& [end, starts_again] : ends) {
      const std::string idempotency_key = "order-" + std::to_string(key);
      subject.expect<RunStarted>(start(keyed_run(++key, idempotency_key)));
      subject.expect<Advanced>(finish(key, 1, end));
      NewRun second = keyed_run(++key, idempotency_key);
      second.after_done = AfterDone::start_new_if_failed;

      const Answer answer = subject.execute(start(second));

      CHECK(std::holds_alternative<RunStarted>(answer) == starts_again);
      CHECK(std::holds_alternative<RunExists>(answer) != starts_again);
    }
  });
}

TEST_CASE("a start can refuse a key whose run is over") {
  for_each_store([](Subject& subject) {
    NewRun second = keyed_run(2, "order-7");
    second.after_done = AfterDone::reject;
    subject.expect<RunStarted>(start(keyed_run(1, "order-7")));

    CHECK(subject.expect<RunExists>(start(second)).run.key == 1);
    subject.expect<Advanced>(finish(1, 1));

    CHECK(subject.expect<StartRefused>(start(second)).why == Why::run_finished);
  });
}

TEST_CASE("a key is held while its run is unfinished and for its time after the end") {
  for_each_store([](Subject& subject) {
    NewRun first = keyed_run(1, "order-7");
    first.key_ttl = 1h;
    NewRun later = keyed_run(2, "order-7");
    later.created_at = at(1000h);
    subject.expect<RunStarted>(start(first));
    CHECK(subject.expect<RunExists>(start(later)).run.key == 1);
    subject.expect<Advanced>(finish(1, 1, {}, at(2h)));

    later.created_at = at(3h - 1ns);
    CHECK(subject.expect<RunExists>(start(later)).run.key == 1);
    later.created_at = at(3h);
    later.after_done = AfterDone::reject;
    later.workflow = "refund";
    subject.expect<RunStarted>(start(later));

    CHECK(subject.record(1).status == Status::completed);
  });
}

TEST_CASE("a start can supersede the holder of its key, and its children, in one commit") {
  for_each_store([](Subject& subject) {
    NewRun child = new_run(2);
    child.parent = 1;
    NewRun watcher = new_run(3);
    StartRun watch = start(watcher);
    watch.changes = {.status = Status::waiting, .waits = {{.op = "9", .run_id = "run-1"}}};
    NewRun second = keyed_run(4, "order-7");
    second.on_running = OnRunning::supersede;
    subject.all({start(keyed_run(1, "order-7")), start(child), watch});

    const auto started = subject.expect<RunStarted>(start(second));

    CHECK(started.effects.ended == std::vector<RunKey>{1, 2});
    CHECK(started.effects.wake == std::vector<RunKey>{3});
    CHECK(subject.record(1).status == Status::cancelled);
    CHECK(subject.record(1).failure->code == "RUN_CANCELLED");
    CHECK(subject.record(2).status == Status::cancelled);
    CHECK(subject.names(1) == std::vector<std::string>{"started", "cancelled"});
    CHECK(subject.inbox(3).at(0).failure->code == "RUN_CANCELLED");
    CHECK(subject.expect<RunExists>(start(keyed_run(5, "order-7"))).run.key == 4);
  });
}

TEST_CASE("superseding a run that is over is up to after_done") {
  for_each_store([](Subject& subject) {
    NewRun second = keyed_run(2, "order-7");
    second.on_running = OnRunning::supersede;
    subject.expect<RunStarted>(start(keyed_run(1, "order-7")));
    subject.expect<Advanced>(finish(1, 1));

    CHECK(subject.expect<RunExists>(start(second)).run.key == 1);
  });
}

TEST_CASE("a chosen id is treated like a key") {
  for_each_store([](Subject& subject) {
    NewRun rejecting = with_id(3, "invoice");
    rejecting.on_running = OnRunning::reject;
    NewRun other_input = with_id(4, "invoice");
    other_input.fingerprint = "fingerprint of [8]";
    subject.expect<RunStarted>(start(with_id(1, "invoice")));

    CHECK(subject.expect<RunExists>(start(with_id(2, "invoice"))).run.key == 1);
    CHECK(subject.expect<StartRefused>(start(rejecting)).why == Why::run_active);
    CHECK(subject.expect<StartRefused>(start(other_input)).why == Why::input_differs);
  });
}

TEST_CASE("an id that was not chosen is never shared") {
  for_each_store([](Subject& subject) {
    NewRun second = new_run(2);
    second.id = "run-1";
    subject.expect<RunStarted>(start(new_run(1)));

    CHECK(subject.expect<StartRefused>(start(second)).why == Why::claims_differ);
    CHECK(subject.record(1).status == Status::running);
  });
}

TEST_CASE("a key and an id that belong to two runs are refused, whatever the policies say") {
  for_each_store([](Subject& subject) {
    NewRun both = with_id(3, "invoice");
    both.idempotency_key = "order-7";
    both.on_running = OnRunning::supersede;
    both.after_done = AfterDone::start_new;
    subject.all({start(keyed_run(1, "order-7")), start(with_id(2, "invoice"))});

    const auto refused = subject.expect<StartRefused>(start(both));

    CHECK(refused.why == Why::claims_differ);
    CHECK(refused.run_id == "run-1");
    CHECK(subject.record(1).status == Status::running);
    CHECK(subject.record(2).status == Status::running);
  });
}

TEST_CASE("an id that is used again shows nothing of the run that had it") {
  for_each_store([](Subject& subject) {
    NewRun first = with_id(1, "invoice");
    first.idempotency_key = "order-7";
    first.attributes = {{"stage", "old"}};
    first.deadline = at(1h);
    NewRun second = with_id(2, "invoice");
    second.after_done = AfterDone::start_new;
    subject.expect<RunStarted>(start(first));
    subject.expect<Advanced>(advance(1, 1, "charge"));
    subject.expect<Advanced>(finish(1, 2));

    subject.expect<RunStarted>(start(second));

    const auto loaded = subject.expect<RunLoaded>(FindRun{.id = "invoice"});
    CHECK(loaded.run.key == 2);
    CHECK(loaded.run.version == Seq{0});
    CHECK(loaded.run.attributes.empty());
    CHECK_FALSE(loaded.run.idempotency_key);
    subject.expect<RunMissing>(LoadRun{1});
    CHECK(subject.reader().journal(1, 0, 100).value().empty());
    CHECK(subject.reader().list({.attributes = {{"stage", "old"}}}).value().empty());
    subject.expect<RunStarted>(start(keyed_run(3, "order-7")));
    CHECK(subject.expect<Swept>(Sweep{.now = at()}).entries == 3);
  });
}

TEST_CASE("superseding the holder of an id ends it and makes room") {
  for_each_store([](Subject& subject) {
    NewRun second = with_id(2, "invoice");
    second.on_running = OnRunning::supersede;
    subject.expect<RunStarted>(start(with_id(1, "invoice")));

    const auto started = subject.expect<RunStarted>(start(second));

    CHECK(started.effects.ended == std::vector<RunKey>{1});
    CHECK(subject.expect<RunLoaded>(FindRun{.id = "invoice"}).run.key == 2);
    subject.expect<RunMissing>(LoadRun{1});
  });
}

TEST_CASE("an id whose run is past its retention is free before the sweep comes") {
  for_each_store([](Subject& subject) {
    NewRun first = with_id(1, "invoice");
    first.retention = 1h;
    NewRun second = with_id(2, "invoice");
    second.created_at = at(1h);
    subject.expect<RunStarted>(start(first));
    subject.expect<Advanced>(finish(1, 1));

    subject.expect<RunStarted>(start(second));

    subject.expect<RunMissing>(LoadRun{1});
  });
}

TEST_CASE("a start that is refused writes nothing") {
  for_each_store([](Subject& subject) {
    NewRun second = keyed_run(2, "order-7");
    second.on_running = OnRunning::reject;
    second.start_at = at(1h);
    second.deadline = at(2h);
    second.attributes = {{"stage", "new"}};
    StartRun command{.run = second};
    command.changes = {.timers_set = {{.run = 2, .op = "1", .due = at(1h)}},
                       .children = {{.op = "2", .run = new_run(3)}}};
    subject.expect<RunStarted>(start(keyed_run(1, "order-7")));

    subject.expect<StartRefused>(command);

    subject.expect<RunMissing>(LoadRun{2});
    subject.expect<RunMissing>(LoadRun{3});
    CHECK(subject.timers(2).empty());
    CHECK(subject.reader().list({.attributes = {{"stage", "new"}}}).value().empty());
  });
}

}  // namespace
}  // namespace semel::store
