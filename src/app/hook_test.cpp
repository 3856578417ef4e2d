// Hooks: registered, awaited, released; what a workflow and its senders see of them.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel::test {
namespace {

struct Order {
  bool confirmed = false;
};
BOOST_DESCRIBE_STRUCT(Order, (), (confirmed))

Workflow<std::string> order(std::string id) {
  auto request = semel::hook<Order>("order:" + id);
  if (auto conflict = co_await request.conflict()) co_return "duplicate of " + conflict->run_id;
  auto [confirmed] = co_await request;
  co_return confirmed ? "processed" : "cancelled";
}

/// Reads numbers until a negative one and says what it read.
Workflow<std::vector<int>> collect(std::string token) {
  auto numbers = semel::hook<int>(token);
  std::vector<int> read;
  for (;;) {
    const int number = co_await numbers;
    if (number < 0) co_return read;
    read.push_back(number);
  }
}

TEST_CASE("a run waits for a payload and goes on with it") {
  testing::FreshEngine engine;
  engine.add("order", order);
  Run run = engine.start(order, "7").run;
  engine.run_until_idle();
  CHECK(run.status() == RunStatus::waiting);

  const Resumed resumed = engine.resume("order:7", Order{true});

  CHECK(resumed.run_id == run.id());
  CHECK_FALSE(resumed.hook_id.empty());
  CHECK(run.result<std::string>() == "processed");
}

TEST_CASE("the first owner keeps the token; others hear its run's id") {
  testing::FreshEngine engine;
  engine.add("order", order);
  Run first = engine.start(order, "7").run;
  Run second = engine.start(order, "7").run;

  CHECK(second.result<std::string>() == "duplicate of " + first.id());
  engine.resume("order:7", Order{false});
  CHECK(first.result<std::string>() == "cancelled");
}

TEST_CASE("resuming a token nobody has is an error, before and after") {
  testing::FreshEngine engine;
  engine.add("order", order);
  CHECK_THROWS_AS(engine.resume("order:7", Order{true}), HookNotFoundError);
  Run run = engine.start(order, "7").run;
  engine.resume("order:7", Order{true});
  run.result<std::string>();

  CHECK_THROWS_AS(engine.resume("order:7", Order{true}), HookNotFoundError);
  CHECK_THROWS_AS(engine.hook("order:7"), HookNotFoundError);
  CHECK(code_of([&] { engine.resume("", 1); }) == "VALIDATION_ERROR");
}

TEST_CASE("a payload that does not fit is refused to its sender with the path") {
  testing::FreshEngine engine;
  engine.add("order", order);
  Run run = engine.start(order, "7").run;
  engine.run_until_idle();

  const auto misfit =
      thrown<ValidationError>([&] { engine.resume("order:7", Json{{"confirmed", "yes"}}); });

  CHECK(misfit.path == "/confirmed");
  CHECK(thrown<ValidationError>([&] {
          engine.resume("order:7", Json{{"confirme", true}});
        }).code() == "VALIDATION_ERROR");
  CHECK(engine.hook("order:7").waiting == 0);
  engine.resume("order:7", Json{{"confirmed", true}});
  CHECK(run.result<std::string>() == "processed");
}

TEST_CASE("payloads sent before the workflow asks are read in order, each once") {
  testing::FreshEngine engine;
  engine.add("collect", collect);
  Run run = engine.start({.token = "n"}, collect, "n").run;

  for (const int number : {1, 2, 3, -1}) engine.resume("n", number);

  CHECK(run.result<std::vector<int>>() == std::vector<int>{1, 2, 3});
}

TEST_CASE("a start registers its token at once, and a resume is never too early") {
  testing::FreshEngine engine;
  engine.add("collect", collect);
  Run run = engine.start({.token = "n", .delay = 1h}, collect, "n").run;

  CHECK(engine.resume("n", -1).run_id == run.id());
  CHECK(engine.hook("n").run_id == run.id());
  CHECK(engine.hook("n").waiting == 1);
  CHECK(run.status() == RunStatus::pending);
  engine.advance(1h);
  CHECK(run.result<std::vector<int>>().empty());
}

TEST_CASE("a start whose token another run has makes no run and names the owner") {
  testing::FreshEngine engine;
  engine.add("collect", collect);
  Run owner = engine.start({.token = "n"}, collect, "n").run;

  const auto conflict =
      thrown<HookConflictError>([&] { engine.start({.token = "n"}, collect, "n"); });

  CHECK(conflict.run_id == owner.id());
  CHECK(engine.runs().size() == 1);
}

TEST_CASE("superseding cancels the holder of the token and takes it, in one call") {
  testing::FreshEngine engine;
  engine.add("collect", collect);
  Run old = engine.start({.token = "n"}, collect, "n").run;
  engine.run_until_idle();

  Run young = engine.start({.token = "n", .on_running = OnRunning::supersede}, collect, "n").run;

  CHECK(old.status() == RunStatus::cancelled);
  CHECK(engine.resume("n", -1).run_id == young.id());
  CHECK(young.result<std::vector<int>>().empty());
}

TEST_CASE("cancelling frees the tokens before it returns") {
  testing::FreshEngine engine;
  engine.add("order", order);
  Run run = engine.start(order, "7").run;
  engine.run_until_idle();

  run.cancel();

  CHECK_THROWS_AS(engine.hook("order:7"), HookNotFoundError);
  Run next = engine.start({.token = "order:7"}, order, "7").run;
  CHECK(engine.resume("order:7", Order{true}).run_id == next.id());
}

TEST_CASE("with the type given at add, a misfit is refused before the workflow has begun") {
  testing::FreshEngine engine;
  engine.add("collect", collect, {.token_payload = semel::type<int>()});
  engine.start({.token = "n", .delay = 1h}, collect, "n");

  CHECK_THROWS_AS(engine.resume("n", std::string("one")), ValidationError);
  engine.resume("n", -1);
}

Workflow<std::string> forgiving() {
  auto numbers = semel::hook<int>("n");
  const auto first = co_await settled(numbers);
  const int second = co_await numbers;
  co_return (first.ok() ? "ok" : first.message()) + " " + std::to_string(second);
}

TEST_CASE("without the type, a misfit is thrown from the await, consumed once") {
  testing::FreshEngine engine;
  engine.add("forgiving", forgiving);
  Run run = engine.start({.token = "n", .delay = 1h}, forgiving).run;
  engine.resume("n", "one");
  engine.resume("n", 2);

  engine.advance(1h);

  CHECK(run.result<std::string>() == "/: expected an integer 2");
  engine.crash();
  CHECK(run.result<std::string>() == "/: expected an integer 2");
}

// ------------------------------------------------------------------------------------------------ resume ids

TEST_CASE("a resume id delivers once, for a day and beyond the hook") {
  testing::FreshEngine engine;
  engine.add("collect", collect);
  Run run = engine.start({.token = "n"}, collect, "n").run;

  const Resumed first = engine.resume("n", 1, {.resume_id = "a"});
  const Resumed again = engine.resume("n", 1, {.resume_id = "a"});
  CHECK(again.hook_id == first.hook_id);
  CHECK_THROWS_AS(engine.resume("n", 2, {.resume_id = "a"}), IdempotencyConflictError);
  engine.resume("n", -1);
  CHECK(run.result<std::vector<int>>() == std::vector<int>{1});

  CHECK(engine.resume("n", 1, {.resume_id = "a"}).run_id == run.id());
  engine.advance(25h);
  CHECK_THROWS_AS(engine.resume("n", 1, {.resume_id = "a"}), HookNotFoundError);
}

TEST_CASE("a resume can be tied to the version it was decided by") {
  testing::FreshEngine engine;
  engine.add("collect", collect);
  Run run = engine.start(collect, "n").run;
  engine.run_until_idle();
  const std::uint64_t version = run.version();
  engine.resume("n", 1, {.expected_version = version});
  engine.run_until_idle();

  CHECK_THROWS_AS(engine.resume("n", 2, {.expected_version = version}), ConcurrencyError);
}

// ------------------------------------------------------------------------------------------------ the hook's life

Workflow<Strings> made_up_tokens() {
  Strings tokens;
  auto first = semel::hook<int>();
  auto second = semel::webhook();
  tokens.push_back(co_await first.open());
  tokens.push_back(co_await second.open());
  tokens.push_back(first.token());
  co_await first;
  co_return tokens;
}

TEST_CASE("a token that is made up cannot be guessed and stays the same on replay") {
  testing::FreshEngine engine;
  engine.add("made_up_tokens", made_up_tokens);
  Run run = engine.start(made_up_tokens).run;
  engine.run_until_idle();
  engine.crash();
  const Json request = run.journal().front().value.at("requests").as_array().at(0);
  const std::string token(request.at("name").as_string());

  engine.resume(token, 1);

  const Strings tokens = run.result<Strings>();
  CHECK(tokens[0] == token);
  CHECK(tokens[2] == token);
  CHECK(tokens[1] != token);
  CHECK(token.size() * 4 >= 128);
}

Workflow<std::string> dispose_and_take_again() {
  auto first = semel::hook<int>("t");
  co_await first.open();
  first.dispose();
  auto second = semel::hook<int>("t");
  co_await second.open();
  auto third = semel::hook<int>("t");
  const auto conflict = co_await third.conflict();
  co_return conflict ? conflict->run_id : "free";
}

TEST_CASE(
    "disposed and taken again in one go; two live hooks of one run conflict with each other") {
  testing::FreshEngine engine;
  engine.add("dispose_and_take_again", dispose_and_take_again);

  Run run = engine.start(dispose_and_take_again).run;

  CHECK(run.result<std::string>() == run.id());
  CHECK_THROWS_AS(engine.hook("t"), HookNotFoundError);
}

Workflow<void> scoped() {
  {
    auto inner = semel::hook<int>("t");
    co_await inner;
  }
  co_await sleep(1h);
}

TEST_CASE("a hook that goes out of scope frees its token, in the commit of what came next") {
  testing::FreshEngine engine;
  engine.add("scoped", scoped);
  Run run = engine.start(scoped).run;
  engine.run_until_idle();

  engine.resume("t", 1);
  engine.run_until_idle();

  CHECK(run.status() == RunStatus::waiting);
  CHECK_THROWS_AS(engine.resume("t", 2), HookNotFoundError);
}

TEST_CASE("leaving memory releases nothing") {
  EngineOptions options;
  options.frame_bytes_max = 1;
  testing::FreshEngine engine{options};
  engine.add("collect", collect);
  Run run = engine.start(collect, "n").run;
  engine.run_until_idle();
  CHECK(engine.hook("n").run_id == run.id());

  engine.crash();
  engine.run_until_idle();
  CHECK(engine.hook("n").run_id == run.id());
  engine.resume("n", 5);
  engine.run_until_idle();
  engine.resume("n", -1);
  CHECK(run.result<std::vector<int>>() == std::vector<int>{5});
}

Workflow<std::string> conflicted() {
  auto mine = semel::hook<int>("t");
  try {
    co_await mine;
  } catch (const HookConflictError& conflict) {
    co_return conflict.run_id;
  }
  co_return "mine";
}

TEST_CASE("awaiting a hook in conflict throws, and names the owner") {
  testing::FreshEngine engine;
  engine.add("conflicted", conflicted);
  Run owner = engine.start(conflicted).run;
  Run other = engine.start(conflicted).run;

  CHECK(other.result<std::string>() == owner.id());
  CHECK(owner.status() == RunStatus::waiting);
}

Workflow<std::string> disposed_elsewhere() {
  auto shared = semel::hook<int>("t");
  co_await shared.open();
  auto waiting = co_await semel::begin(settled(shared));
  co_await sleep(1h);
  shared.dispose();
  const auto outcome = co_await std::move(waiting);
  try {
    co_return std::to_string(outcome.value());
  } catch (const HookDisposedError& disposed) {
    co_return disposed.code();
  }
}

TEST_CASE("an await of a hook that another branch disposes throws HookDisposedError") {
  testing::FreshEngine engine;
  engine.add("disposed_elsewhere", disposed_elsewhere);
  Run run = engine.start(disposed_elsewhere).run;

  engine.advance(1h);

  CHECK(run.result<std::string>() == "HOOK_DISPOSED");
}

Workflow<Strings> closing() {
  auto numbers = semel::hook<int>("t");
  Strings said;
  co_await numbers.open();
  co_await sleep(1h);
  said.push_back(co_await numbers.close() ? "closed" : "busy");
  said.push_back(std::to_string(co_await numbers));
  said.push_back(co_await numbers.close() ? "closed" : "busy");
  const auto after = co_await settled(numbers);
  said.push_back(after.message());
  co_return said;
}

TEST_CASE("close frees the token only if nothing waits") {
  testing::FreshEngine engine;
  engine.add("closing", closing);
  Run run = engine.start(closing).run;
  engine.run_until_idle();
  engine.resume("t", 4);

  engine.advance(1h);

  CHECK(run.result<Strings>() == Strings{"busy", "4", "closed", "the hook was disposed"});
}

Workflow<Strings> trying() {
  auto maybe = semel::hook<std::optional<int>>("t");
  Strings said;
  for (int i = 0; i < 4; ++i) {
    const auto found = co_await maybe.try_next();
    said.push_back(!found ? "nothing" : *found ? std::to_string(**found) : "null");
    co_await sleep(1h);
  }
  co_return said;
}

TEST_CASE("try_next gives what is here already, null included") {
  testing::FreshEngine engine;
  engine.add("trying", trying);
  Run run = engine.start(trying).run;
  engine.run_until_idle();
  engine.resume("t", std::optional<int>{});
  engine.resume("t", std::optional<int>{7});

  engine.advance(4h);

  CHECK(run.result<Strings>() == Strings{"nothing", "null", "7", "nothing"});
}

Workflow<Strings> timed() {
  auto answers = semel::hook<std::string>("t");
  Strings said;
  for (int i = 0; i < 3; ++i) {
    const auto answer = co_await answers.next(24h);
    said.push_back(answer.value_or("nothing"));
  }
  co_return said;
}

TEST_CASE("next with a time gives nothing after it, and loses nothing that comes later") {
  testing::FreshEngine engine;
  engine.add("timed", timed);
  Run run = engine.start(timed).run;
  engine.advance(24h);
  engine.resume("t", "late");
  engine.advance(23h);
  engine.resume("t", "last");

  CHECK(run.result<Strings>() == Strings{"nothing", "late", "last"});
}

// ------------------------------------------------------------------------------------------------ together with others

Workflow<Strings> raced() {
  auto answers = semel::hook<int>("t");
  Strings said;
  while (said.size() < 4) {
    const auto first = co_await race(answers, sleep(1min));
    said.push_back(first.index() == 0 ? std::to_string(std::get<0>(first)) : "tick");
  }
  co_return said;
}

TEST_CASE("a hook that lost a race keeps its payloads for the next await") {
  testing::FreshEngine engine;
  engine.add("raced", raced);
  Run run = engine.start(raced).run;
  engine.advance(1min);
  engine.resume("t", 1);
  engine.resume("t", 2);
  engine.advance(1min);

  CHECK(run.result<Strings>() == Strings{"tick", "1", "2", "tick"});
}

Workflow<int> sum_of_two() {
  auto [a, b] = co_await all(semel::hook<int>("a"), semel::hook<int>("b"));
  co_return a + b;
}

TEST_CASE("hooks may be given to all, and are released with it") {
  testing::FreshEngine engine;
  engine.add("sum_of_two", sum_of_two);
  Run run = engine.start(sum_of_two).run;
  engine.run_until_idle();
  engine.resume("b", 2);
  engine.resume("a", 40);

  CHECK(run.result<int>() == 42);
  CHECK_THROWS_AS(engine.hook("a"), HookNotFoundError);
}

Workflow<std::vector<int>> two_readers() {
  auto numbers = semel::hook<int>("t");
  co_await numbers.open();
  auto [a, b] = co_await all(numbers.next(), numbers.next());
  co_return std::vector<int>{a, b};
}

TEST_CASE("two awaits of one hook are served in turn") {
  testing::FreshEngine engine;
  engine.add("two_readers", two_readers);
  Run before = engine.start({.token = "t"}, two_readers).run;
  engine.resume("t", 1);
  engine.resume("t", 2);
  CHECK(before.result<std::vector<int>>() == std::vector<int>{1, 2});

  Run after = engine.start(two_readers).run;
  engine.run_until_idle();
  engine.resume("t", 3);
  engine.resume("t", 4);
  CHECK(after.result<std::vector<int>>() == std::vector<int>{3, 4});
}

Workflow<int> branch_with_hook() {
  auto mine = semel::hook<int>("branch");
  co_return co_await mine;
}

Workflow<void> loses_branch() {
  co_await race(branch_with_hook(), sleep(1h));
  co_await sleep(1h);
}

TEST_CASE("a branch that loses a race takes its hooks with it") {
  testing::FreshEngine engine;
  engine.add("loses_branch", loses_branch);
  Run run = engine.start(loses_branch).run;
  engine.run_until_idle();
  CHECK(engine.hook("branch").run_id == run.id());

  engine.advance(1h);
  CHECK_THROWS_AS(engine.hook("branch"), HookNotFoundError);
  engine.crash();
  engine.advance(1h);
  CHECK(run.status() == RunStatus::completed);
}

TEST_CASE("a graceful cancel reaches a run that waits for its hook") {
  testing::FreshEngine engine;
  engine.add("order", order);
  Run run = engine.start(order, "7").run;
  engine.run_until_idle();

  run.cancel({.grace = 1min});
  engine.run_until_idle();

  CHECK(run.status() == RunStatus::cancelled);
  CHECK_THROWS_AS(engine.hook("order:7"), HookNotFoundError);
}

// ------------------------------------------------------------------------------------------------ leftovers

TEST_CASE("payloads left over when a run ends are kept and shown as undelivered") {
  testing::FreshEngine engine;
  engine.add("order", order);
  Run run = engine.start({.token = "order:7", .delay = 1h}, order, "7").run;
  engine.resume("order:7", Order{true});
  engine.resume("order:7", Order{false});

  engine.advance(1h);
  CHECK(run.result<std::string>() == "processed");

  const Entry last = run.journal().back();
  CHECK(last.kind == "undelivered");
  CHECK(last.name == "order:7");
  CHECK(last.value.at("value").at("confirmed") == false);
}

Workflow<void> fails_after(std::string token) {
  auto numbers = semel::hook<int>(token);
  co_await numbers;
  co_await step("fail", {.retry = {.attempts = 1}}, [](const StepContext& context) {
    if (context.attempt == 1) throw FatalError("no");
  });
}

TEST_CASE("a retry takes its tokens again with what waited there, or says who has them") {
  testing::FreshEngine engine;
  engine.add("fails_after", fails_after);
  engine.add("order", order);
  Run run = engine.start(fails_after, "order:7").run;
  engine.run_until_idle();
  engine.resume("order:7", 1);
  engine.run_until_idle();
  CHECK(run.status() == RunStatus::failed);
  CHECK_THROWS_AS(engine.hook("order:7"), HookNotFoundError);

  Run other = engine.start({.token = "order:7"}, order, "7").run;
  CHECK(thrown<HookConflictError>([&] { run.retry(); }).run_id == other.id());
  other.cancel();
  run.retry();
  CHECK(engine.hook("order:7").run_id == run.id());
  run.result<void>();
  CHECK_THROWS_AS(engine.hook("order:7"), HookNotFoundError);
}

TEST_CASE("a fork takes the tokens of what it copies, or is refused") {
  testing::FreshEngine engine;
  engine.add("collect", collect);
  Run run = engine.start(collect, "n").run;
  engine.run_until_idle();
  engine.resume("n", 1);
  engine.run_until_idle();

  CHECK(thrown<HookConflictError>([&] { run.fork(1); }).run_id == run.id());
  engine.resume("n", -1);
  run.result<std::vector<int>>();
  Run copy = run.fork(1);
  CHECK(engine.hook("n").run_id == copy.id());
  engine.resume("n", 2);
  engine.resume("n", -1);
  CHECK(copy.result<std::vector<int>>() == std::vector<int>{1, 2});
}

Workflow<int> asks_child() { co_return co_await child({.token = "n"}, collect, "n"), 1; }

TEST_CASE("a child may be given a token; taken, the parent hears who has it") {
  testing::FreshEngine engine;
  engine.add("collect", collect);
  engine.add("asks_child", asks_child);
  Run owner = engine.start({.token = "n"}, collect, "n").run;

  Run parent = engine.start(asks_child).run;
  engine.run_until_idle();

  CHECK(parent.status() == RunStatus::failed);
  CHECK(contains(parent.error(), "HOOK_CONFLICT"));
}

TEST_CASE("tokens belong to their workspace") {
  testing::FreshEngine engine;
  engine.add("collect", collect);
  Run mine = engine.start({.token = "n"}, collect, "n").run;
  Run theirs = engine.workspace("acme").start({.token = "n"}, collect, "n").run;

  CHECK(engine.workspace("acme").resume("n", -1).run_id == theirs.id());
  CHECK(engine.hook("n").waiting == 0);
  CHECK_THROWS_AS(engine.workspace("other").resume("n", 1), HookNotFoundError);
}

// ------------------------------------------------------------------------------------------------ from a step

int attempts_made = 0;

Workflow<void> sends_twice() {
  co_await step("send", {.retry = {.attempts = 2, .initial = 1ms}}, [](const StepContext& context) {
    context.client().resume("n", 7);
    context.client().resume("n", 8);
    if (++attempts_made == 1) throw RetryableError("again");
  });
}

TEST_CASE("a step that is retried resumes once") {
  attempts_made = 0;
  testing::FreshEngine engine;
  engine.add("collect", collect);
  engine.add("sends_twice", sends_twice);
  Run run = engine.start({.token = "n"}, collect, "n").run;
  Run sender = engine.start(sends_twice).run;

  engine.advance(1min);
  CHECK(attempts_made == 2);
  engine.resume("n", -1);

  CHECK(run.result<std::vector<int>>() == std::vector<int>{7, 8});
}

TEST_CASE("a duplicate can look at the owner, signal it and cancel it from a step") {
  testing::FreshEngine engine;
  engine.add("order", order);
  auto duplicate = [](std::string) -> Workflow<std::string> {
    auto request = semel::hook<Order>("order:7");
    const auto conflict = co_await request.conflict();
    co_return co_await step(
        "look",
        [](const StepContext& context, std::string owner) {
          const HookInfo info = context.client().hook("order:7");
          context.client().resume("order:7", Order{true});
          return std::string(info.run_id == owner ? "seen" : "wrong");
        },
        conflict->run_id);
  };
  engine.add("duplicate", duplicate);
  Run owner = engine.start(order, "7").run;

  CHECK(engine.start(duplicate, "x").run.result<std::string>() == "seen");
  CHECK(owner.result<std::string>() == "processed");
}

}  // namespace
}  // namespace semel::test
