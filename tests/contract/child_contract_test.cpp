// Runs that ask for other runs: children, spawned runs, waits for a result.
#include "tests/contract/stores.hpp"

namespace semel::store {
namespace {

/// The outcome entries of a command, decoded.
std::vector<journal::Arrival> outcomes(const Effects& effects) {
  std::vector<journal::Arrival> found;
  for (const std::string& bytes : effects.outcomes) {
    const auto decoded = journal::decode(bytes);
    REQUIRE(decoded);
    CHECK(decoded->arrival.kind == journal::ArrivalKind::outcome);
    found.push_back(decoded->arrival);
  }
  return found;
}

Changes asks(ChildRequest request) {
  return {.status = Status::waiting, .children = {std::move(request)}};
}

Changes waits(const std::string& op, const std::string& run_id) {
  return {.status = Status::waiting, .waits = {{.op = op, .run_id = run_id}}};
}

TEST_CASE("a child is created in the commit that asks for it, and its end comes back") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));

    const auto asked =
        subject.expect<Advanced>(advance(1, 1, "asks", asks({.op = "5", .run = new_run(2)})));

    CHECK(asked.effects.created == std::vector<RunKey>{2});
    const auto outcome = outcomes(asked.effects);
    REQUIRE(outcome.size() == 1);
    CHECK(outcome[0].op == "5");
    CHECK(outcome[0].name == "run-2");
    CHECK(outcome[0].value == "true");
    CHECK(subject.record(1).version == Seq{2});
    CHECK(subject.record(1).status == Status::waiting);
    CHECK(subject.record(2).status == Status::running);
    CHECK(subject.record(2).parent == 1);
    CHECK_FALSE(subject.record(2).version);
    CHECK(subject.orphans().empty());

    subject.expect<Advanced>(advance(2, 0, "begins"));
    const auto ended = subject.expect<Advanced>(finish(2, 1));
    CHECK(ended.effects.wake == std::vector<RunKey>{1});
    CHECK(subject.inbox(1) ==
          std::vector<InboxItem>{{.id = subject.inbox(1).at(0).id, .op = "5", .value = "42"}});
  });
}

TEST_CASE("a spawned run is created and not waited for; the asker has work at once") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));

    const auto asked = subject.expect<Advanced>(
        advance(1, 1, "asks", asks({.op = "5", .run = new_run(2), .wait = false})));

    CHECK(outcomes(asked.effects).at(0).name == "run-2");
    CHECK_FALSE(subject.record(2).parent);
    CHECK(subject.record(1).status == Status::running);
    subject.expect<Advanced>(advance(2, 0, "begins"));
    CHECK(subject.expect<Advanced>(finish(2, 1)).effects.wake.empty());
  });
}

TEST_CASE(
    "an outcome the code goes on from is work even if the command says nothing of the status") {
  for_each_store([](Subject& subject) {
    subject.all({start(new_run(1)), advance(1, 1, "parks", parked())});
    Changes changes = asks({.op = "5", .run = new_run(2), .wait = false});
    changes.status.reset();

    subject.expect<Advanced>(advance(1, 2, "asks", changes));

    CHECK(subject.work() == std::vector<RunKey>{1, 2});
  });
}

TEST_CASE("a delayed child is pending with its timer and does not wait for its first segment") {
  for_each_store([](Subject& subject) {
    NewRun child = new_run(2);
    child.start_at = at(1h);
    subject.expect<RunStarted>(start(new_run(1)));

    const auto asked =
        subject.expect<Advanced>(advance(1, 1, "asks", asks({.op = "5", .run = child})));

    CHECK(asked.effects.created.empty());
    CHECK(subject.record(2).status == Status::pending);
    CHECK(subject.timers(2).at(0).kind == TimerKind::start);
  });
}

TEST_CASE("a child with a key somebody has is attached to, and its result comes all the same") {
  for_each_store([](Subject& subject) {
    subject.all({start(new_run(1)), start(keyed_run(2, "order-7"))});

    const auto running = subject.expect<Advanced>(
        advance(1, 1, "asks", asks({.op = "5", .run = keyed_run(3, "order-7")})));
    CHECK(running.effects.created.empty());
    CHECK(outcomes(running.effects).at(0).name == "run-2");
    CHECK(outcomes(running.effects).at(0).value == "false");
    CHECK_FALSE(subject.record(2).parent);
    CHECK(subject.expect<Advanced>(finish(2, 1)).effects.wake == std::vector<RunKey>{1});

    const auto over = subject.expect<Advanced>(
        advance(1, 3, "asks again", asks({.op = "6", .run = keyed_run(4, "order-7")})));
    CHECK(over.effects.wake == std::vector<RunKey>{1});
    CHECK(subject.inbox(1).size() == 2);
    CHECK(subject.inbox(1).at(1).op == "6");
  });
}

TEST_CASE("a child that is refused is an outcome with the code of the refusal") {
  for_each_store([](Subject& subject) {
    NewRun other_input = keyed_run(3, "order-7");
    other_input.fingerprint = "fingerprint of [8]";
    NewRun rejecting = keyed_run(4, "order-7");
    rejecting.on_running = OnRunning::reject;
    subject.all({start(new_run(1)), start(keyed_run(2, "order-7"))});
    Changes changes = asks({.op = "5", .run = other_input});
    changes.children.push_back({.op = "6", .run = rejecting});

    const auto asked = subject.expect<Advanced>(advance(1, 1, "asks", changes));

    const auto outcome = outcomes(asked.effects);
    REQUIRE(outcome.size() == 2);
    CHECK(outcome[0].failure->code == "IDEMPOTENCY_CONFLICT");
    CHECK(outcome[1].op == "6");
    CHECK(outcome[1].failure->code == "RUN_ACTIVE");
    CHECK(subject.record(1).version == Seq{3});
    CHECK(subject.record(1).status == Status::running);
  });
}

TEST_CASE("a child can supersede another run but neither its asker nor a run above it") {
  for_each_store([](Subject& subject) {
    const auto superseding = [](RunKey key, const std::string& idempotency_key) {
      NewRun run = keyed_run(key, idempotency_key);
      run.on_running = OnRunning::supersede;
      return ChildRequest{.op = std::to_string(key), .run = run};
    };
    NewRun middle = keyed_run(2, "middle");
    middle.parent = 1;
    subject.all({start(keyed_run(1, "top")), start(middle), start(keyed_run(3, "other"))});

    Changes changes = asks(superseding(4, "top"));
    changes.children.push_back(superseding(5, "middle"));
    changes.children.push_back(superseding(6, "other"));
    const auto asked = subject.expect<Advanced>(advance(2, 1, "asks", changes));

    const auto outcome = outcomes(asked.effects);
    REQUIRE(outcome.size() == 3);
    CHECK(outcome[0].failure->code == "RUN_ACTIVE");
    CHECK(outcome[1].failure->code == "RUN_ACTIVE");
    CHECK(outcome[2].value == "true");
    CHECK(asked.effects.ended == std::vector<RunKey>{3});
    CHECK(subject.record(1).status == Status::running);
  });
}

TEST_CASE("nobody waits for himself") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(keyed_run(1, "order-7")));
    Changes changes = asks({.op = "5", .run = keyed_run(2, "order-7")});
    changes.waits = {{.op = "6", .run_id = "run-1"}};

    const auto asked = subject.expect<Advanced>(advance(1, 1, "asks", changes));

    const auto outcome = outcomes(asked.effects);
    REQUIRE(outcome.size() == 2);
    CHECK(outcome[0].failure->code == "RUN_ACTIVE");
    CHECK(outcome[1].failure->code == "RUN_ACTIVE");
    CHECK(subject.record(1).status == Status::running);
    CHECK(subject.expect<Advanced>(finish(1, 4)).effects.wake.empty());
  });
}

TEST_CASE("a wait is answered by the commit that ends the other run, how ever it ends") {
  for_each_store([](Subject& subject) {
    const journal::Failure why{
        .code = "OUT_OF_STOCK", .message = "none left", .details = "[7]", .name = "pack"};
    for (RunKey key = 1; key <= 4; ++key) subject.expect<RunStarted>(start(new_run(key)));
    Changes changes = waits("a", "run-2");
    changes.waits.push_back({.op = "b", .run_id = "run-3"});
    changes.waits.push_back({.op = "c", .run_id = "run-4"});
    const auto asked = subject.expect<Advanced>(advance(1, 1, "asks", changes));
    CHECK(asked.effects.outcomes.empty());
    CHECK(asked.effects.wake.empty());

    subject.expect<Advanced>(finish(2, 1));
    subject.expect<Advanced>(finish(3, 1, {.status = Status::failed, .failure = why}));
    const auto cancelled =
        subject.expect<Cancelled>(CancelRun{.id = "run-4", .now = at(), .reason = "a mistake"});

    CHECK(cancelled.effects.wake == std::vector<RunKey>{1});
    const auto items = subject.inbox(1);
    REQUIRE(items.size() == 3);
    CHECK(items[0].op == "a");
    CHECK(items[0].value == "42");
    CHECK_FALSE(items[0].failure);
    CHECK(items[1].failure == why);
    CHECK(items[2].failure->code == "RUN_CANCELLED");
    CHECK(items[2].failure->message == "a mistake");
    CHECK(subject.work() == std::vector<RunKey>{1});
  });
}

TEST_CASE("a run that its own code ended as cancelled fails its waiters as cancelled") {
  for_each_store([](Subject& subject) {
    subject.all({start(new_run(1)), start(new_run(2)), advance(1, 1, "asks", waits("a", "run-2"))});

    subject.expect<Advanced>(
        finish(2, 1,
               {.status = Status::cancelled,
                .failure = journal::Failure{.code = "X", .message = "stopped"}}));

    CHECK(subject.inbox(1).at(0).failure->code == "RUN_CANCELLED");
    CHECK(subject.inbox(1).at(0).failure->message == "stopped");
  });
}

TEST_CASE("a wait for a run that is over is answered at once") {
  for_each_store([](Subject& subject) {
    subject.all({start(new_run(1)), start(new_run(2)), finish(2, 1)});

    const auto asked = subject.expect<Advanced>(advance(1, 1, "asks", waits("a", "run-2")));

    CHECK(asked.effects.wake == std::vector<RunKey>{1});
    CHECK(asked.effects.outcomes.empty());
    CHECK(subject.inbox(1).at(0).value == "42");
  });
}

TEST_CASE("a wait for a run that is not there is an outcome that says so") {
  for_each_store([](Subject& subject) {
    NewRun foreign = new_run(2);
    foreign.workspace = "acme";
    subject.all({start(new_run(1)), start(foreign)});

    const auto asked = subject.expect<Advanced>(advance(1, 1, "asks", waits("a", "run-2")));

    const auto outcome = outcomes(asked.effects);
    REQUIRE(outcome.size() == 1);
    CHECK(outcome[0].op == "a");
    CHECK(outcome[0].failure->code == "RUN_NOT_FOUND");
    CHECK(subject.record(1).status == Status::running);
  });
}

TEST_CASE("a wait that is dropped is not answered") {
  for_each_store([](Subject& subject) {
    subject.all({start(new_run(1)), start(new_run(2)), advance(1, 1, "asks", waits("a", "run-2"))});

    subject.expect<Advanced>(advance(1, 2, "drops", {.waits_dropped = {"a"}}));

    CHECK(subject.expect<Advanced>(finish(2, 1)).effects.wake.empty());
    CHECK(subject.inbox(1).empty());
  });
}

TEST_CASE("many may wait for one run; each is woken once") {
  for_each_store([](Subject& subject) {
    subject.all({start(new_run(1)), start(new_run(2)), start(new_run(3))});
    Changes twice = waits("b", "run-3");
    twice.waits.push_back({.op = "a", .run_id = "run-3"});
    subject.all({advance(2, 1, "asks", twice), advance(1, 1, "asks", waits("a", "run-3"))});

    const auto ended = subject.expect<Advanced>(finish(3, 1));

    CHECK(ended.effects.wake == std::vector<RunKey>{1, 2});
    CHECK(subject.inbox(2).size() == 2);
    CHECK(subject.inbox(2).at(0).op == "a");
  });
}

TEST_CASE("dead and diverged runs are no answer; their waiters go on waiting") {
  for_each_store([](Subject& subject) {
    subject.all({start(new_run(1)), start(new_run(2)), advance(1, 1, "asks", waits("a", "run-2"))});

    subject.expect<Advanced>(MarkRun{.run = 2, .seq = 0, .status = Status::dead});
    CHECK(subject.inbox(1).empty());
    CHECK(subject.orphans().empty());
    subject.expect<Advanced>(ReopenRun{.run = 2, .seq = 1, .entries = {entry("reopened")}});
    subject.expect<Advanced>(finish(2, 2));

    CHECK(subject.inbox(1).size() == 1);
  });
}

TEST_CASE(
    "a run that ends with a wish open leaves no outcome behind its end, but the child is made") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));
    AdvanceRun last = finish(1, 1);
    last.changes.children = {{.op = "5", .run = new_run(2)},
                             {.op = "6", .run = new_run(3), .wait = false}};
    last.changes.waits = {{.op = "7", .run_id = "nobody"}};

    const auto ended = subject.expect<Advanced>(last);

    CHECK(ended.effects.created == std::vector<RunKey>{2, 3});
    CHECK(ended.effects.outcomes.empty());
    CHECK(subject.record(1).version == Seq{1});
    CHECK(subject.record(1).status == Status::completed);
    subject.expect<Advanced>(advance(2, 0, "begins"));
    CHECK(subject.expect<Advanced>(finish(2, 1)).effects.wake.empty());
  });
}

}  // namespace
}  // namespace semel::store
