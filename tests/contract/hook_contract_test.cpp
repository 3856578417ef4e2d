// Hooks: who has a token, where payloads go, and what is freed in which commit.
#include "tests/contract/stores.hpp"

#include <semel/shape.hpp>

namespace semel::store {
namespace {

using Why = StartRefused::Why;

const std::string number = type<int>().shape;

HookClaim claim(const std::string& op, const std::string& token, const std::string& shape = "") {
  return {.op = op, .token = token, .shape = shape};
}

HookChange open(const std::string& op, const std::string& token, const std::string& shape = "") {
  return {.kind = HookChange::Kind::open, .op = op, .claim = claim(op, token, shape)};
}

HookChange change(HookChange::Kind kind, const std::string& op, const std::string& hook) {
  return {.kind = kind, .op = op, .hook = hook};
}

Changes hooks(std::vector<HookChange> changes) { return {.hooks = std::move(changes)}; }

StartRun start_with(RunKey key, const std::string& token) {
  NewRun run = new_run(key);
  run.hooks = {claim("", token)};
  return start(run);
}

Deliver payload(const std::string& token, const std::string& json) {
  return {.token = token, .payload = json, .now = at()};
}

Deliver payload(const std::string& token, const std::string& json, const std::string& resume_id,
                TimePoint now = at()) {
  return {.token = token,
          .payload = json,
          .resume_id = resume_id,
          .fingerprint = "print of " + json,
          .now = now};
}

ResumeOrStart or_start(RunKey key, const std::string& token, const std::string& json) {
  NewRun run = new_run(key);
  run.hooks = {claim("", token)};
  return {.deliver = payload(token, json), .run = run};
}

journal::Arrival outcome(const std::string& bytes) {
  const auto entry = journal::decode(bytes);
  REQUIRE(entry);
  CHECK(entry->arrival.kind == journal::ArrivalKind::outcome);
  return entry->arrival;
}

std::optional<std::string> owner(Subject& subject, const std::string& token) {
  const auto hook = subject.reader().hook("default", token).value();
  return hook ? std::optional{hook->run_id} : std::nullopt;
}

std::vector<std::string> waiting(Subject& subject, RunKey run) {
  std::vector<std::string> values;
  const RunLoaded loaded = subject.load(run);
  for (const PayloadItem& item : loaded.payloads) values.push_back(item.value);
  return values;
}

std::vector<std::string> undelivered(Subject& subject, RunKey run) {
  std::vector<std::string> values;
  const auto left = subject.reader().undelivered(run).value();
  for (const Undelivered& item : left) values.push_back(item.token + " " + item.value);
  return values;
}

TEST_CASE("a token has one owner, and the others are told who it is") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));
    subject.expect<RunStarted>(start(new_run(2)));

    const auto mine = subject.expect<Advanced>(advance(1, 1, "a", hooks({open("3", "t")})));
    const auto theirs = subject.expect<Advanced>(advance(2, 1, "a", hooks({open("3", "t")})));

    REQUIRE(mine.effects.outcomes.size() == 1);
    CHECK_FALSE(outcome(mine.effects.outcomes[0]).failure);
    REQUIRE(theirs.effects.outcomes.size() == 1);
    CHECK(outcome(theirs.effects.outcomes[0]).failure->code == "HOOK_CONFLICT");
    CHECK(outcome(theirs.effects.outcomes[0]).failure->details == "\"run-1\"");
    CHECK(owner(subject, "t") == "run-1");
    CHECK(subject.record(2).status == Status::running);
  });
}

TEST_CASE("tokens of different workspaces do not meet") {
  for_each_store([](Subject& subject) {
    NewRun theirs = new_run(2);
    theirs.workspace = "acme";
    theirs.hooks = {claim("", "t")};
    subject.expect<RunStarted>(start_with(1, "t"));
    subject.expect<RunStarted>(start(theirs));

    Deliver deliver = payload("t", "1");
    deliver.workspace = "acme";

    CHECK(subject.expect<Delivered>(deliver).run_id == "run-2");
    deliver.workspace = "nobody's";
    subject.expect<HookMissing>(deliver);
  });
}

TEST_CASE("the same hook again is no conflict, a second one of the same run is") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));
    subject.expect<Advanced>(advance(1, 1, "a", hooks({open("3", "t")})));

    const auto again = subject.expect<Advanced>(advance(1, 3, "b", hooks({open("3", "t")})));
    const auto second = subject.expect<Advanced>(advance(1, 5, "c", hooks({open("4", "t")})));

    CHECK_FALSE(outcome(again.effects.outcomes.at(0)).failure);
    CHECK(outcome(second.effects.outcomes.at(0)).failure->details == "\"run-1\"");
  });
}

TEST_CASE("released and taken again in one command, in the order asked") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));
    subject.expect<Advanced>(advance(1, 1, "a", hooks({open("3", "t")})));

    const auto again = subject.expect<Advanced>(
        advance(1, 3, "b", hooks({change(HookChange::Kind::release, "", "3"), open("4", "t")})));

    CHECK_FALSE(outcome(again.effects.outcomes.at(0)).failure);
    CHECK(subject.reader().hook("default", "t").value()->op == "4");
  });
}

TEST_CASE("a start registers its token in the same commit, and the run's own hook adopts it") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start_with(1, "t"));
    const auto delivered = subject.expect<Delivered>(payload("t", "7"));
    CHECK(delivered.run_id == "run-1");
    CHECK(delivered.effects.wake == std::vector<RunKey>{1});

    const auto adopted = subject.expect<Advanced>(
        advance(1, 1, "a", hooks({open("3", "t"), change(HookChange::Kind::next, "4", "3")})));

    REQUIRE(adopted.effects.outcomes.size() == 2);
    CHECK(outcome(adopted.effects.outcomes[1]).op == "4");
    CHECK(outcome(adopted.effects.outcomes[1]).value == "7");
    CHECK(waiting(subject, 1).empty());
  });
}

/// Run 1 with the token "t" in its hook "3", one entry behind that.
void open_token(Subject& subject) {
  subject.expect<RunStarted>(start(new_run(1)));
  subject.expect<Advanced>(advance(1, 1, "a", hooks({open("3", "t", number)})));
}

Deliver read_by(Deliver deliver, const std::string& hook, AdvanceRun step) {
  deliver.reading = Deliver::Reading{hook, std::move(step)};
  return deliver;
}

TEST_CASE("a payload is taken in and read in one command by the run that awaits it") {
  for_each_store([](Subject& subject) {
    open_token(subject);

    const auto read = subject.expect<Delivered>(
        read_by(payload("t", "7", "r"), "3", advance(1, 3, "b", {.status = Status::waiting})));

    CHECK(read.read);
    CHECK(read.run_id == "run-1");
    CHECK(read.effects.wake.empty());
    CHECK(subject.load(1).entries.size() == 4);
    CHECK(subject.record(1).status == Status::waiting);
    CHECK(waiting(subject, 1).empty());
    const auto again =
        subject.expect<Delivered>(read_by(payload("t", "7", "r"), "3", advance(1, 4, "c")));
    CHECK_FALSE(again.read);
    CHECK(again.effects.wake.empty());
    CHECK(subject.load(1).entries.size() == 4);
  });
}

TEST_CASE("a run that ends with the payload frees its token in the same command") {
  for_each_store([](Subject& subject) {
    open_token(subject);

    const auto read = subject.expect<Delivered>(read_by(payload("t", "7"), "3", finish(1, 3)));

    CHECK(read.read);
    CHECK(read.run_id == "run-1");
    CHECK(subject.record(1).status == Status::completed);
    CHECK_FALSE(owner(subject, "t"));
    CHECK(undelivered(subject, 1).empty());
  });
}

TEST_CASE("where things are not as they were thought to be, the payload waits") {
  const auto waits = [](std::uint64_t waiting_now, const auto& prepare, const Deliver& deliver) {
    for_each_store([&](Subject& subject) {
      open_token(subject);
      prepare(subject);
      const auto delivered = subject.expect<Delivered>(deliver);
      CHECK_FALSE(delivered.read);
      CHECK(delivered.effects.wake == std::vector<RunKey>{1});
      CHECK(subject.load(1).entries.size() == 3);
      CHECK(subject.reader().hook("default", "t").value()->waiting == waiting_now);
    });
  };
  const auto nothing = [](Subject&) {};
  const auto another_run = [](Subject& subject) { subject.expect<RunStarted>(start(new_run(2))); };
  const auto another_payload = [](Subject& subject) {
    subject.expect<Delivered>(payload("t", "6"));
  };

  waits(1, nothing, read_by(payload("t", "7"), "3", advance(1, 2, "b")));
  waits(1, nothing, read_by(payload("t", "7"), "4", advance(1, 3, "b")));
  waits(1, another_run, read_by(payload("t", "7"), "3", advance(2, 1, "b")));
  waits(2, another_payload, read_by(payload("t", "7"), "3", advance(1, 3, "b")));
}

TEST_CASE("a payload that does not fit is refused, whoever awaits it") {
  for_each_store([](Subject& subject) {
    open_token(subject);

    subject.expect<PayloadRefused>(read_by(payload("t", "\"seven\""), "3", advance(1, 3, "b")));

    CHECK(subject.load(1).entries.size() == 3);
    CHECK(waiting(subject, 1).empty());
  });
}

TEST_CASE("a start whose token another run has is refused and leaves nothing") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start_with(1, "t"));
    StartRun second = start_with(2, "t");
    second.run.hooks.insert(second.run.hooks.begin(), claim("", "free"));

    const auto refused = subject.expect<StartRefused>(second);

    CHECK(refused.why == Why::hook_conflict);
    CHECK(refused.run_id == "run-1");
    subject.expect<RunMissing>(LoadRun{2});
    CHECK_FALSE(owner(subject, "free"));
    subject.expect<RunStarted>(start(new_run(2)));
  });
}

TEST_CASE("superseding takes the key and the token in one commit") {
  for_each_store([](Subject& subject) {
    NewRun first = keyed_run(1, "k");
    NewRun other = new_run(2);
    other.hooks = {claim("", "t")};
    subject.expect<RunStarted>(start(first));
    subject.expect<RunStarted>(start(other));
    NewRun newest = keyed_run(3, "k");
    newest.hooks = {claim("", "t")};
    newest.on_running = OnRunning::supersede;

    const auto started = subject.expect<RunStarted>(start(newest));

    CHECK(started.effects.ended == std::vector<RunKey>{1, 2});
    CHECK(subject.record(1).status == Status::cancelled);
    CHECK(subject.record(2).status == Status::cancelled);
    CHECK(owner(subject, "t") == "run-3");
  });
}

TEST_CASE("payloads wait in the order they came and are handed out once each") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));
    subject.expect<Advanced>(advance(1, 1, "a", hooks({open("3", "t")})));
    subject.expect<Delivered>(payload("t", "1"));
    subject.expect<Delivered>(payload("t", "2"));
    CHECK(subject.reader().hook("default", "t").value()->waiting == 2);
    CHECK(waiting(subject, 1) == std::vector<std::string>{"1"});

    const auto took = subject.expect<Advanced>(
        advance(1, 3, "b", hooks({change(HookChange::Kind::next, "4", "3")})));
    CHECK(outcome(took.effects.outcomes.at(0)).value == "1");
    Changes read{.payloads_consumed = {subject.load(1).payloads.at(0).id}};
    subject.expect<Advanced>(advance(1, 5, "c", read));
    const auto none =
        subject.expect<Advanced>(advance(1, 6, "d",
                                         hooks({change(HookChange::Kind::next, "5", "3"),
                                                change(HookChange::Kind::try_next, "6", "3")})));

    REQUIRE(none.effects.outcomes.size() == 1);
    CHECK(outcome(none.effects.outcomes[0]).op == "6");
    CHECK(outcome(none.effects.outcomes[0]).value.empty());
  });
}

TEST_CASE("a hook closes only when nothing waits for it") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));
    subject.expect<Advanced>(advance(1, 1, "a", hooks({open("3", "t")})));
    subject.expect<Delivered>(payload("t", "1"));

    const auto still = subject.expect<Advanced>(
        advance(1, 3, "b", hooks({change(HookChange::Kind::close, "4", "3")})));
    const auto closed =
        subject.expect<Advanced>(advance(1, 5, "c",
                                         hooks({change(HookChange::Kind::next, "5", "3"),
                                                change(HookChange::Kind::close, "6", "3")})));

    CHECK(outcome(still.effects.outcomes.at(0)).value == "false");
    CHECK(outcome(closed.effects.outcomes.at(1)).value == "true");
    CHECK_FALSE(owner(subject, "t"));
    subject.expect<HookMissing>(payload("t", "2"));
  });
}

TEST_CASE("a payload that does not fit is refused with the path, whoever takes it in") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));
    subject.expect<Advanced>(
        advance(1, 1, "a", hooks({open("3", "t", type<std::vector<int>>().shape)})));

    const auto refused = subject.expect<PayloadRefused>(payload("t", R"([1,"two"])"));

    CHECK(refused.path == "/1");
    CHECK(waiting(subject, 1).empty());
  });
}

TEST_CASE("a payload that came before its type is checked when it is read, and consumed") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start_with(1, "t"));
    subject.expect<Delivered>(payload("t", "\"seven\""));
    subject.expect<Delivered>(payload("t", "8"));

    const auto took = subject.expect<Advanced>(
        advance(1, 1, "a",
                hooks({open("3", "t", number), change(HookChange::Kind::next, "4", "3"),
                       change(HookChange::Kind::next, "5", "3")})));

    CHECK(outcome(took.effects.outcomes.at(1)).failure->code == "VALIDATION_ERROR");
    CHECK(outcome(took.effects.outcomes.at(2)).value == "8");
  });
}

TEST_CASE("a resume id makes a payload once, for a day, whatever becomes of the hook") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start_with(1, "t"));
    const auto first = subject.expect<Delivered>(payload("t", "1", "r"));
    const auto second = subject.expect<Delivered>(payload("t", "1", "r"));

    CHECK(second.run_id == first.run_id);
    CHECK(second.hook_id == first.hook_id);
    CHECK(second.effects.wake.empty());
    CHECK(subject.expect<ResumeIdReused>(payload("t", "2", "r")).run_id == "run-1");
    CHECK(subject.reader().hook("default", "t").value()->waiting == 1);

    subject.expect<Advanced>(finish(1, 1));
    subject.reopen();
    CHECK(subject.expect<Delivered>(payload("t", "1", "r")).run_id == "run-1");
    subject.expect<HookMissing>(payload("t", "1", "another"));

    subject.expect<HookMissing>(payload("t", "1", "r", at(24h)));
    CHECK(subject.expect<Swept>(Sweep{.now = at(24h)}).resume_ids == 1);
  });
}

TEST_CASE("a resume can insist on the version it was decided by") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start_with(1, "t"));
    Deliver late = payload("t", "1");
    late.expected_version = 5;

    CHECK(subject.expect<VersionMoved>(late).version == 0);
    late.expected_version = 0;
    subject.expect<Delivered>(late);
  });
}

TEST_CASE("every end frees the tokens in its commit and keeps what was not read") {
  for_each_store([](Subject& subject) {
    const auto check = [&](RunKey run, const Command& end) {
      subject.expect<RunStarted>(start_with(run, "t"));
      subject.expect<Delivered>(payload("t", "7"));
      subject.execute(end);
      CHECK_FALSE(owner(subject, "t"));
      subject.expect<HookMissing>(payload("t", "8"));
      CHECK(undelivered(subject, run) == std::vector<std::string>{"t 7"});
      CHECK(subject.work().empty());
    };
    check(1, finish(1, 1));
    check(2, finish(2, 1, failed()));
    check(3, CancelRun{.id = "run-3", .now = at()});

    subject.reopen();
    CHECK(undelivered(subject, 3) == std::vector<std::string>{"t 7"});
    while (subject.expect<Swept>(Sweep{.now = at(24h * 40)}).more) {
    }
    CHECK(undelivered(subject, 3).empty());
  });
}

TEST_CASE("a marked run keeps its tokens and takes payloads in") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start_with(1, "t"));
    subject.expect<Advanced>(
        MarkRun{.run = 1, .seq = 0, .status = Status::dead, .reason = {.code = "X"}});

    CHECK(subject.expect<Delivered>(payload("t", "1")).run_id == "run-1");
    CHECK(subject.expect<StartRefused>(start_with(2, "t")).why == Why::hook_conflict);
  });
}

TEST_CASE("a retry takes its tokens and payloads again, or is refused and changes nothing") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start_with(1, "t"));
    subject.expect<Delivered>(payload("t", "7"));
    subject.expect<Advanced>(finish(1, 1, failed()));
    subject.expect<RunStarted>(start_with(2, "t"));
    const ReopenRun reopen{.run = 1, .seq = 2, .entries = {entry("reopened")}, .now = at()};

    const auto refused = subject.expect<StartRefused>(reopen);
    CHECK(refused.why == Why::hook_conflict);
    CHECK(refused.run_id == "run-2");
    CHECK(subject.record(1).status == Status::failed);

    subject.expect<Cancelled>(CancelRun{.id = "run-2", .now = at()});
    subject.expect<Advanced>(reopen);
    CHECK(owner(subject, "t") == "run-1");
    CHECK(waiting(subject, 1) == std::vector<std::string>{"7"});
    CHECK(undelivered(subject, 1).empty());
  });
}

TEST_CASE("a retry that does not get its key gives its tokens back") {
  for_each_store([](Subject& subject) {
    NewRun run = keyed_run(1, "k");
    run.key_ttl = 0s;
    run.hooks = {claim("", "t")};
    subject.expect<RunStarted>(start(run));
    subject.expect<Advanced>(finish(1, 1, failed()));
    NewRun second = keyed_run(2, "k");
    second.created_at = at(1s);
    subject.expect<RunStarted>(start(second));

    const auto refused = subject.expect<StartRefused>(
        ReopenRun{.run = 1, .seq = 2, .entries = {entry("reopened")}, .now = at(2s)});

    CHECK(refused.why == Why::run_active);
    CHECK_FALSE(owner(subject, "t"));
  });
}

TEST_CASE("a run that goes on as new keeps its tokens and payloads and nothing else") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));
    Changes before = hooks({open("3", "t")});
    before.timers_set = {{.run = 1, .kind = TimerKind::sleep, .op = "9", .due = at(1h)},
                         {.run = 1, .kind = TimerKind::deadline, .due = at(2h)}};
    subject.expect<Advanced>(advance(1, 1, "a", before));
    subject.expect<Delivered>(payload("t", "7"));

    subject.expect<Advanced>(advance(1, 3, "b", {.continue_as_new = "[8]"}));

    const RunLoaded loaded = subject.load(1);
    CHECK(loaded.run.status == Status::running);
    CHECK(loaded.run.input == "[8]");
    CHECK(loaded.run.generation == 1);
    CHECK(loaded.run.first_seq == 4);
    CHECK(loaded.run.version == 3);
    CHECK(loaded.entries.empty());
    CHECK(subject.timers(1) ==
          std::vector<Timer>{{.run = 1, .kind = TimerKind::deadline, .due = at(2h)}});
    CHECK(owner(subject, "t") == "run-1");
    const auto adopted = subject.expect<Advanced>(
        advance(1, 4, "c", hooks({open("1", "t"), change(HookChange::Kind::next, "2", "1")})));
    CHECK(outcome(adopted.effects.outcomes.at(1)).value == "7");
  });
}

TEST_CASE("resume or start is one commit: a run with its payload, or a payload for the run") {
  for_each_store([](Subject& subject) {
    const auto first = subject.expect<Delivered>(or_start(1, "t", "1"));
    const auto second = subject.expect<Delivered>(or_start(2, "t", "2"));

    CHECK(first.started);
    CHECK(first.run_id == "run-1");
    CHECK(first.effects.created == std::vector<RunKey>{1});
    CHECK_FALSE(second.started);
    CHECK(second.run_id == "run-1");
    CHECK(second.effects.wake == std::vector<RunKey>{1});
    subject.expect<RunMissing>(LoadRun{2});
    CHECK(subject.reader().hook("default", "t").value()->waiting == 2);
    CHECK(subject.work() == std::vector<RunKey>{1});
  });
}

TEST_CASE("what a run leaves unread of resume or start begins one run, in the commit of its end") {
  for_each_store([](Subject& subject) {
    subject.expect<Delivered>(or_start(1, "t", "1"));
    subject.expect<Delivered>(or_start(2, "t", "2"));
    subject.expect<Delivered>(or_start(3, "t", "3"));
    subject.expect<Delivered>(payload("t", "plain"));
    Changes read{.payloads_consumed = {subject.load(1).payloads.at(0).id}};
    subject.expect<Advanced>(
        AdvanceRun{.run = 1, .seq = 0, .entries = {entry("a")}, .changes = read, .now = at()});

    const auto ended = subject.expect<Advanced>(finish(1, 1));

    CHECK(ended.effects.created == std::vector<RunKey>{2});
    CHECK(owner(subject, "t") == "instance-2");
    CHECK(waiting(subject, 2) == std::vector<std::string>{"2"});
    CHECK(subject.reader().hook("default", "t").value()->waiting == 2);
    CHECK(undelivered(subject, 1) == std::vector<std::string>{"t plain"});

    // That one reads nothing: it would go on like this for ever.
    const auto last = subject.expect<Advanced>(AdvanceRun{
        .run = 2, .seq = 0, .entries = {entry("last")}, .changes = {.end = End{}}, .now = at()});
    CHECK(last.effects.created.empty());
    CHECK_FALSE(owner(subject, "t"));
    CHECK(undelivered(subject, 2) == std::vector<std::string>{"t 2", "t 3"});
  });
}

TEST_CASE("a cancelled run's leftovers start nothing") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start_with(1, "t"));
    subject.expect<Delivered>(or_start(2, "t", "2"));

    const auto cancelled = subject.expect<Cancelled>(CancelRun{.id = "run-1", .now = at()});

    CHECK(cancelled.effects.created.empty());
    CHECK(undelivered(subject, 1) == std::vector<std::string>{"t 2"});
  });
}

TEST_CASE("leftovers of a released hook go to the one that took the token in the same command") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));
    subject.expect<Advanced>(advance(1, 1, "a", hooks({open("3", "t")})));
    subject.expect<Delivered>(or_start(2, "t", "2"));
    subject.expect<Delivered>(payload("t", "plain"));

    const auto moved = subject.expect<Advanced>(
        advance(1, 3, "b", hooks({change(HookChange::Kind::release, "", "3"), open("4", "t")})));
    CHECK(moved.effects.created.empty());
    CHECK(moved.effects.wake == std::vector<RunKey>{1});
    CHECK(waiting(subject, 1) == std::vector<std::string>{"2"});
    CHECK(undelivered(subject, 1) == std::vector<std::string>{"t plain"});

    const auto freed = subject.expect<Advanced>(
        advance(1, 5, "c", hooks({change(HookChange::Kind::release, "", "4")})));
    CHECK(freed.effects.created == std::vector<RunKey>{2});
    CHECK(waiting(subject, 2) == std::vector<std::string>{"2"});
  });
}

TEST_CASE("a successor keeps what its call asked for, its times counted from its own start") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start_with(1, "t"));
    ResumeOrStart later = or_start(2, "t", "2");
    later.run.workflow = "chat";
    later.run.input = "[\"x\"]";
    later.run.attributes = {{"stage", "new"}};
    later.run.deadline = at(1h);
    later.run.fingerprint = std::string("\0\xff", 2);
    subject.expect<Delivered>(later);

    subject.expect<Advanced>(finish(1, 1, End{.output = "1"}, at(5h)));

    const RunRecord run = subject.record(2);
    CHECK(run.workflow == "chat");
    CHECK(run.input == "[\"x\"]");
    CHECK(run.attributes.at("stage") == "new");
    CHECK(run.created_at == at(5h));
    CHECK(run.deadline == at(6h));
    CHECK(run.fingerprint == std::string("\0\xff", 2));
  });
}

TEST_CASE("resume or start under a key that another run has is refused, the payload with it") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(keyed_run(1, "k")));
    ResumeOrStart command = or_start(2, "t", "2");
    command.run.idempotency_key = "k";

    CHECK(subject.expect<StartRefused>(command).why == Why::run_active);
    subject.expect<Advanced>(finish(1, 1));
    CHECK(subject.expect<StartRefused>(command).why == Why::run_finished);
    CHECK_FALSE(owner(subject, "t"));
  });
}

TEST_CASE("a run that waits for its hook alone is no orphan") {
  for_each_store([](Subject& subject) {
    subject.expect<RunStarted>(start(new_run(1)));
    Changes waits = hooks({open("3", "t")});
    waits.status = Status::waiting;
    waits.hooks.front().awaited = false;
    subject.expect<Advanced>(advance(1, 1, "a", waits));

    CHECK(subject.record(1).status == Status::waiting);
    CHECK(subject.orphans().empty());
    subject.expect<Advanced>(
        advance(1, 2, "b", hooks({change(HookChange::Kind::release, "", "3")})));
    CHECK(subject.orphans().size() == 1);
  });
}

}  // namespace
}  // namespace semel::store
