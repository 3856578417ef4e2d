// Runs that live on: resume_or_start, its leftovers, and continue_as_new.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel::test {
namespace {

/// Answers messages until it hears "bye", or for `count` of them.
Workflow<Strings> chat(std::string token, int count) {
  auto messages = semel::hook<std::string>(token);
  Strings heard;
  while (static_cast<int>(heard.size()) < count) {
    const std::string message = co_await messages;
    if (message == "bye") break;
    heard.push_back(message);
  }
  co_return heard;
}

Workflow<void> deaf(std::string) { co_return; }

TEST_CASE("resume_or_start starts a run with its payload, or resumes the one there is") {
  testing::FreshEngine engine;
  engine.add("chat", chat);

  const ResumedOrStarted first = engine.resume_or_start("c", std::string("a"), chat, "c", 9);
  const ResumedOrStarted second = engine.resume_or_start("c", std::string("b"), chat, "c", 9);
  engine.resume("c", "bye");

  CHECK(first.started);
  CHECK_FALSE(second.started);
  CHECK(first.run.id() == second.run.id());
  CHECK(first.run.result<Strings>() == Strings{"a", "b"});
}

TEST_CASE("what a run leaves unread starts the next one, with all of it in order") {
  testing::FreshEngine engine;
  engine.add("chat", chat);
  const auto send = [&](const char* text) {
    return engine.resume_or_start("c", std::string(text), chat, "c", 1);
  };
  // One call that the run has not seen when the others come: nothing runs between them.
  Run first = engine.start({.token = "c", .delay = 1h}, chat, "c", 1).run;
  send("a");
  send("b");
  send("c");

  engine.advance(1h);

  CHECK(first.result<Strings>() == Strings{"a"});
  std::vector<Strings> heard;
  for (const Run& run : engine.runs()) heard.push_back(run.result<Strings>());
  CHECK(heard == std::vector<Strings>{{"c"}, {"b"}, {"a"}});
  CHECK_THROWS_AS(engine.hook("c"), HookNotFoundError);
}

TEST_CASE("a run that reads none of what it was started with has no successor") {
  testing::FreshEngine engine;
  engine.add("deaf", deaf);

  const auto answer = engine.resume_or_start("c", std::string("a"), deaf, "c");
  engine.run_until_idle();

  CHECK(answer.run.status() == RunStatus::completed);
  CHECK(engine.runs().size() == 1);
  CHECK(answer.run.journal().back().kind == "undelivered");
}

TEST_CASE("a cancelled run's leftovers stay with it") {
  testing::FreshEngine engine;
  engine.add("chat", chat);
  Run run = engine.start({.token = "c", .delay = 1h}, chat, "c", 1).run;
  engine.resume_or_start("c", std::string("a"), chat, "c", 1);

  run.cancel();
  engine.run_until_idle();

  CHECK(engine.runs().size() == 1);
  CHECK(run.journal().back().kind == "undelivered");
}

TEST_CASE("resume_or_start checks the payload against the workflow's type, and its options") {
  testing::FreshEngine engine;
  engine.add("chat", chat, {.token_payload = semel::type<std::string>()});

  CHECK_THROWS_AS(engine.resume_or_start("c", 7, chat, "c", 1), ValidationError);
  CHECK(engine.runs().empty());
  CHECK(code_of([&] {
          engine.resume_or_start("c", std::string("a"), {.token = "d"}, chat, "c", 1);
        }) == "VALIDATION_ERROR");
  CHECK(code_of([&] {
          engine.resume_or_start("c", std::string("a"), {.key = "k"}, chat, "c", 1);
        }) == "VALIDATION_ERROR");
}

int sends = 0;

Workflow<void> sender() {
  co_await step("send", {.retry = {.attempts = 2, .initial = 1ms}}, [](const StepContext& context) {
    context.client().resume_or_start("c", std::string("hello"), chat, "c", 9);
    if (++sends == 1) throw RetryableError("again");
  });
}

TEST_CASE("a step that is retried resumes or starts once") {
  sends = 0;
  testing::FreshEngine engine;
  engine.add("chat", chat);
  engine.add("sender", sender);
  engine.start(sender);
  engine.advance(1min);
  engine.resume("c", "bye");

  CHECK(sends == 2);
  CHECK(engine.runs({.workflow = "chat"}).at(0).result<Strings>() == Strings{"hello"});
}

// ------------------------------------------------------------------------------------------------ as new

/// Adds up numbers, a few per generation; zero ends it.
Workflow<int> account(std::string token, int balance) {
  auto amounts = semel::hook<int>(token);
  for (int i = 0; i < 3; ++i) {
    const int amount = co_await amounts;
    if (amount == 0) co_return balance;
    balance += amount;
  }
  co_await continue_as_new(token, balance);
  co_return -1;  // not reached
}

TEST_CASE("a run goes on as new under its id, its tokens and its payloads") {
  testing::FreshEngine engine;
  engine.add("account", account);
  Run run = engine.start({.token = "a"}, account, "a", 100).run;

  for (int i = 1; i <= 10; ++i) engine.resume("a", i);
  engine.run_until_idle();
  CHECK(engine.hook("a").run_id == run.id());
  CHECK(run.input() == Json{"a", 145});
  engine.crash();
  engine.resume("a", 0);

  CHECK(run.result<int>() == 155);
  CHECK_THROWS_AS(engine.hook("a"), HookNotFoundError);
}

TEST_CASE("versions go on through generations, and a generation is all that is replayed") {
  EngineOptions options;
  options.limits.journal_entries_max = 30;
  testing::FreshEngine engine{options};
  engine.add("account", account);
  Run run = engine.start(account, "a", 0).run;
  engine.run_until_idle();

  std::uint64_t version = run.version();
  for (int i = 1; i <= 60; ++i) {
    engine.resume("a", 1);
    engine.run_until_idle();
    CHECK(run.version() > version);
    version = run.version();
  }
  engine.resume("a", 0);

  CHECK(run.result<int>() == 60);
  CHECK(version > 60);
  const std::vector<Entry> journal = run.journal();
  for (std::size_t i = 0; i < journal.size(); ++i) CHECK(journal[i].seq == i);
}

std::vector<std::string>& ids_seen() {
  static std::vector<std::string> ids;
  return ids;
}

Workflow<void> steps_as_new(int generation) {
  co_await step("remember", [](const StepContext& context) { ids_seen().push_back(context.id); });
  if (generation < 2) co_await continue_as_new(generation + 1);
}

TEST_CASE("steps of another generation have other ids") {
  ids_seen().clear();
  testing::FreshEngine engine;
  engine.add("steps_as_new", steps_as_new);

  engine.start(steps_as_new, 0).run.result<void>();

  REQUIRE(ids_seen().size() == 3);
  CHECK(contains(ids_seen()[0], "-0-1"));
  CHECK(contains(ids_seen()[1], "-1-1"));
  CHECK(contains(ids_seen()[2], "-2-1"));
}

Gate* gate = nullptr;
int bodies = 0;

Task<int> wait_at_gate() {
  ++bodies;
  co_await *gate;
  co_return 1;
}

Workflow<int> leaves_body(int generation) {
  auto under_way = co_await semel::begin(step("wait", wait_at_gate));
  if (generation == 0) {
    co_await sleep(1h);
    co_await continue_as_new(1);
  }
  co_return co_await std::move(under_way);
}

TEST_CASE("a late result of the old generation is not taken for the new one's") {
  Gate here;
  gate = &here;
  bodies = 0;
  testing::FreshEngine engine;
  engine.add("leaves_body", leaves_body);
  Run run = engine.start(leaves_body, 0).run;
  engine.run_until_idle();
  engine.advance(1h);
  CHECK(bodies == 2);
  CHECK(here.waiting() == 2);

  here.open_one();
  engine.run_until_idle();
  CHECK(run.status() == RunStatus::running);
  here.open_one();
  CHECK(run.result<int>() == 1);
}

Workflow<int> sleeps_on(int generation) {
  auto timer = co_await semel::begin(sleep(1h));
  if (generation == 0) co_await continue_as_new(1);
  co_await sleep(3h);
  co_return generation;
}

TEST_CASE("timers of the old generation are gone") {
  testing::FreshEngine engine;
  engine.add("sleeps_on", sleeps_on);
  Run run = engine.start(sleeps_on, 0).run;
  engine.advance(2h);
  CHECK(run.status() == RunStatus::waiting);

  engine.advance(1h);

  CHECK(run.result<int>() == 1);
}

Workflow<int> wrong_arguments() {
  const auto tried = co_await settled(continue_as_new(std::string("too many"), 2));
  co_return tried.ok() ? 0 : 1;
}

TEST_CASE("arguments that do not fit are refused where they are given") {
  testing::FreshEngine engine;
  engine.add("wrong_arguments", wrong_arguments);

  CHECK(engine.start(wrong_arguments).run.result<int>() == 1);
}

Workflow<void> emits(int generation) {
  co_await emit("s", generation);
  if (generation < 2) co_await continue_as_new(generation + 1);
}

TEST_CASE("streams go on through generations") {
  testing::FreshEngine engine;
  engine.add("emits", emits);
  Run run = engine.start(emits, 0).run;
  run.result<void>();

  CHECK(run.stream<int>("s") == std::vector<int>{0, 1, 2});
}

Workflow<void> cancelled_as_new(int count) {
  const auto slept = co_await settled(sleep(1h));
  if (slept.cancelled()) co_await continue_as_new(count + 1);
}

TEST_CASE("a run that is being cancelled does not go on as new") {
  testing::FreshEngine engine;
  engine.add("cancelled_as_new", cancelled_as_new);
  Run run = engine.start(cancelled_as_new, 0).run;
  engine.run_until_idle();
  run.cancel({.grace = 1min});
  engine.run_until_idle();

  CHECK(run.status() == RunStatus::cancelled);
}

}  // namespace
}  // namespace semel::test
