// Starts that are repeated: keys, ids, fingerprints, and what to do about whoever has them.
#include "tests/support/api.hpp"
#include "tests/support/fresh_engine.hpp"

namespace semel {

using namespace test;

namespace {

struct Parcel {
  std::string to;
  std::optional<std::string> note{};
  double weight = 1;
};
BOOST_DESCRIBE_STRUCT(Parcel, (), (to, note, weight))

Workflow<std::string> send(Parcel parcel) {
  co_await sleep(1h);
  if (parcel.to == "nowhere") throw std::runtime_error("no such place");
  co_return "sent to " + parcel.to;
}

Workflow<std::string> other(Parcel parcel) {
  co_await sleep(1h);
  co_return parcel.to;
}

Workflow<Json> echo(Json value) { co_return value; }

/// An engine with a run that holds the key "k" and the id "id".
struct Held {
  explicit Held(RunStatus status, const std::string& to = "Rome") {
    engine.add("send", send);
    engine.add("other", other);
    const bool fails = status == RunStatus::failed;
    holder.emplace(engine.start({.key = "k", .run_id = "id"}, send, {fails ? "nowhere" : to}).run);
    engine.run_until_idle();
    if (status == RunStatus::cancelled) holder->cancel();
    if (status != RunStatus::waiting) engine.advance(1h);
    REQUIRE(holder->status() == status);
    input = {fails ? "nowhere" : to};
  }

  testing::FreshEngine engine;
  std::optional<Run> holder;
  Parcel input;
};

}  // namespace

TEST_CASE("a start repeated with its key hands back the run it made") {
  testing::FreshEngine engine;
  engine.add("send", send);

  const Started first = engine.start({.key = "order-7"}, send, {"Rome"});
  const Started second = engine.start({.key = "order-7"}, send, {"Rome"});
  engine.advance(1h);
  const Started third = engine.start({.key = "order-7"}, send, {"Rome"});

  CHECK(first.created);
  CHECK_FALSE(second.created);
  CHECK_FALSE(third.created);
  CHECK(second.run.id() == first.run.id());
  CHECK(third.run.id() == first.run.id());
  CHECK(third.run.result<std::string>() == "sent to Rome");
  CHECK(engine.runs().size() == 1);
}

TEST_CASE("starts without a key are different runs") {
  testing::FreshEngine engine;
  engine.add("send", send);

  const Started first = engine.start(send, {"Rome"});
  const Started second = engine.start(send, {"Rome"});

  CHECK(first.created);
  CHECK(second.created);
  CHECK(first.run.id() != second.run.id());
}

TEST_CASE("a key survives a crash") {
  testing::FreshEngine engine;
  engine.add("send", send);
  const std::string id = engine.start({.key = "k"}, send, {"Rome"}).run.id();

  engine.crash();

  CHECK(engine.start({.key = "k"}, send, {"Rome"}).run.id() == id);
}

TEST_CASE("the same key with other input or another workflow is a conflict") {
  for (const bool finished : {false, true}) {
    CAPTURE(finished);
    Held held{finished ? RunStatus::completed : RunStatus::waiting};
    const auto conflict = [&](auto&& start) {
      return thrown<IdempotencyConflictError>(start).code() == "IDEMPOTENCY_CONFLICT";
    };

    CHECK(conflict([&] { held.engine.start({.key = "k"}, send, {"Oslo"}); }));
    CHECK(conflict([&] { held.engine.start({.key = "k"}, other, {"Rome"}); }));
    CHECK(conflict([&] { held.engine.start({.run_id = "id"}, send, {"Oslo"}); }));
    CHECK(conflict([&] {
      held.engine.start({.key = "k", .fingerprint = Fingerprint::off}, other, {"Rome"});
    }));
    CHECK(held.engine.runs().size() == 1);
  }
}

TEST_CASE("without fingerprint the input does not matter") {
  Held held{RunStatus::waiting};

  const Started again =
      held.engine.start({.key = "k", .fingerprint = Fingerprint::off}, send, {"Oslo"});

  CHECK_FALSE(again.created);
  CHECK(again.run.id() == held.holder->id());
}

TEST_CASE("the fingerprint is that of the decoded arguments, from C++ and from JSON") {
  testing::FreshEngine engine;
  engine.add("send", send);
  const std::string id = engine.start({.key = "k"}, send, {.to = "Rome", .weight = 1}).run.id();
  const auto again = [&](const std::string& json) {
    return engine.start({.key = "k"}, "send", boost::json::parse(json)).run.id();
  };

  CHECK(again(R"({"to": "Rome", "weight": 1})") == id);
  CHECK(again(R"({"to": "Rome", "weight": 1.0})") == id);
  CHECK(again(R"({"to": "Rome", "weight": 1e0, "note": null})") == id);
  CHECK(again(R"([{"weight": 1.0, "to": "Rome"}])") == id);
  CHECK(code_of([&] { again(R"({"to": "Rome", "weight": 2})"); }) == "IDEMPOTENCY_CONFLICT");
  CHECK(code_of([&] { again(R"({"to": "Rome", "weight": 1, "note": ""})"); }) ==
        "IDEMPOTENCY_CONFLICT");
}

TEST_CASE("numbers are the same where they are equal, and different where they are not") {
  testing::FreshEngine engine;
  engine.add("echo", echo);
  const auto start = [&](const std::string& key, const std::string& json) {
    return engine.start({.key = key}, "echo", Json(boost::json::array{boost::json::parse(json)}));
  };
  CHECK(start("one", R"({"a": 1, "b": [1.0]})").created);
  CHECK(start("large", "9007199254740993").created);

  CHECK_FALSE(start("one", R"({"b": [1], "a": 1.0})").created);
  CHECK_FALSE(start("large", "9007199254740993").created);
  CHECK(code_of([&] { start("large", "9007199254740992"); }) == "IDEMPOTENCY_CONFLICT");
  CHECK(code_of([&] { start("one", R"({"a": 1, "b": [1.5]})"); }) == "IDEMPOTENCY_CONFLICT");
}

TEST_CASE("what a start does about whoever has its key or id, by policy and by state") {
  enum class Answer { handed_back, created, refused };

  struct Case {
    RunStatus holder;
    OnRunning on_running;
    AfterDone after_done;
    Answer answer;
    std::string code{};
  };
  using enum Answer;
  constexpr auto attach = OnRunning::attach;
  constexpr auto give = AfterDone::return_result;

  const auto cases = std::to_array<Case>({
      {RunStatus::waiting, attach, give, handed_back},
      {RunStatus::waiting, attach, AfterDone::start_new, handed_back},
      {RunStatus::waiting, attach, AfterDone::start_new_if_failed, handed_back},
      {RunStatus::waiting, attach, AfterDone::reject, handed_back},
      {RunStatus::waiting, OnRunning::reject, give, refused, "RUN_ACTIVE"},
      {RunStatus::waiting, OnRunning::reject, AfterDone::start_new, refused, "RUN_ACTIVE"},
      {RunStatus::waiting, OnRunning::supersede, give, created},
      {RunStatus::waiting, OnRunning::supersede, AfterDone::reject, created},
      {RunStatus::completed, attach, give, handed_back},
      {RunStatus::completed, OnRunning::reject, give, handed_back},
      {RunStatus::completed, OnRunning::supersede, give, handed_back},
      {RunStatus::completed, attach, AfterDone::start_new, created},
      {RunStatus::completed, OnRunning::reject, AfterDone::start_new, created},
      {RunStatus::completed, attach, AfterDone::start_new_if_failed, handed_back},
      {RunStatus::completed, attach, AfterDone::reject, refused, "RUN_FINISHED"},
      {RunStatus::failed, attach, give, handed_back},
      {RunStatus::failed, attach, AfterDone::start_new, created},
      {RunStatus::failed, attach, AfterDone::start_new_if_failed, created},
      {RunStatus::failed, attach, AfterDone::reject, refused, "RUN_FINISHED"},
      {RunStatus::cancelled, attach, give, handed_back},
      {RunStatus::cancelled, attach, AfterDone::start_new, created},
      {RunStatus::cancelled, attach, AfterDone::start_new_if_failed, created},
      {RunStatus::cancelled, attach, AfterDone::reject, refused, "RUN_FINISHED"},
  });

  for (const bool by_id : {false, true}) {
    for (const Case& c : cases) {
      const std::string_view state = to_string(c.holder);
      CAPTURE(state);
      CAPTURE(c.on_running);
      CAPTURE(c.after_done);
      CAPTURE(by_id);
      Held held{c.holder};
      StartOptions options{.on_running = c.on_running, .after_done = c.after_done};
      (by_id ? options.run_id : options.key) = by_id ? "id" : "k";

      std::optional<Started> started;
      const std::string code =
          code_of([&] { started.emplace(held.engine.start(options, send, held.input)); });

      CHECK(code == (c.answer == refused ? c.code : "nothing"));
      if (started) CHECK(started->created == (c.answer == created));
      if (c.answer == handed_back) {
        CHECK(started->run.id() == held.holder->id());
        CHECK(held.holder->status() == c.holder);
      }
      if (c.answer == created && !by_id) {
        CHECK(started->run.id() != held.holder->id());
        const bool superseded = c.holder == RunStatus::waiting;
        CHECK(held.holder->status() == (superseded ? RunStatus::cancelled : c.holder));
      }
      if (c.answer == created) {
        CHECK_FALSE(
            held.engine.start({.key = options.key, .run_id = options.run_id}, send, held.input)
                .created);
      }
    }
  }
}

TEST_CASE("superseding cancels the holder and starts the new run in one go") {
  Held held{RunStatus::waiting};

  const Started newer =
      held.engine.start({.key = "k", .on_running = OnRunning::supersede}, send, {"Oslo"});
  held.engine.advance(1h);

  CHECK(newer.created);
  CHECK(held.holder->status() == RunStatus::cancelled);
  CHECK(contains(held.holder->error(), "superseded"));
  CHECK(newer.run.result<std::string>() == "sent to Oslo");
  CHECK(code_of([&] { held.holder->result<std::string>(); }) == "RUN_CANCELLED");
}

TEST_CASE("a chosen id names the run, and can be used again once it is free") {
  Held held{RunStatus::completed};

  const Started again =
      held.engine.start({.run_id = "id", .after_done = AfterDone::start_new}, send, {"Oslo"});

  CHECK(again.created);
  CHECK(again.run.id() == "id");
  CHECK(again.run.status() == RunStatus::waiting);
  CHECK(again.run.journal().size() == 1);
  held.engine.advance(1h);
  CHECK(held.engine.run("id").result<std::string>() == "sent to Oslo");
}

TEST_CASE("the steps of a run that uses an id again have ids of their own") {
  struct Shop {
    Strings ids;

    Workflow<> run() {
      co_await step("one", [this](const StepContext& step) { ids.push_back(step.id); });
    }
  } shop;

  testing::FreshEngine engine;
  const auto workflow = engine.add("run", &Shop::run, &shop);

  for (int i = 0; i < 2; ++i) {
    engine.start({.run_id = "again", .after_done = AfterDone::start_new}, workflow);
    engine.run_until_idle();
  }

  REQUIRE(shop.ids.size() == 2);
  CHECK(shop.ids[0] != shop.ids[1]);
}

TEST_CASE("a key of one run and the id of another cannot be had together") {
  testing::FreshEngine engine;
  engine.add("send", send);
  engine.start({.key = "k"}, send, {"Rome"});
  engine.start({.run_id = "id"}, send, {"Rome"});

  CHECK(code_of([&] { engine.start({.key = "k", .run_id = "id"}, send, {"Rome"}); }) ==
        "IDEMPOTENCY_CONFLICT");
}

TEST_CASE("a key is held while its run is unfinished and for its time after the end") {
  testing::FreshEngine engine;
  engine.add("send", send);
  const auto start = [&] { return engine.start({.key = "k", .key_ttl = 2h}, send, {"Rome"}); };
  CHECK(start().created);
  engine.advance(1h);

  engine.advance(2h - 1ms);
  CHECK_FALSE(start().created);
  engine.advance(1ms);

  CHECK(start().created);
}

TEST_CASE("a key is remembered for thirty days unless told otherwise") {
  testing::FreshEngine engine;
  engine.add("send", send);
  CHECK(engine.start({.key = "k"}, send, {"Rome"}).created);
  engine.advance(1h);

  engine.advance(24h * 30 - 1s);
  CHECK_FALSE(engine.start({.key = "k"}, send, {"Rome"}).created);
  engine.advance(1s);

  CHECK(engine.start({.key = "k"}, send, {"Rome"}).created);
}

TEST_CASE("a key has 1 to 255 bytes") {
  testing::FreshEngine engine;
  engine.add("send", send);
  const auto start = [&](const std::string& key) {
    return code_of([&] { engine.start({.key = key}, send, {"Rome"}); });
  };

  CHECK(start("") == "IDEMPOTENCY_KEY_INVALID");
  CHECK(start("k") == "nothing");
  CHECK(start(std::string(255, 'k')) == "nothing");
  CHECK(start(std::string(256, 'k')) == "IDEMPOTENCY_KEY_INVALID");
  CHECK(engine.runs().size() == 2);
}

TEST_CASE("keys are bytes: what looks alike is not the same") {
  testing::FreshEngine engine;
  engine.add("send", send);
  for (const std::string key : {"key", "KEY", "key ", " key", "k\xc3\xa9y", "ke\xcc\x81y"}) {
    CAPTURE(key);
    CHECK(engine.start({.key = key}, send, {"Rome"}).created);
  }
}

}  // namespace semel
