// Replay: the same journal brings the code to the same place, or says where they disagree.
#include "engine/replay.hpp"

#include <semel/semel.hpp>

#include <doctest/doctest.h>

namespace semel::engine {

namespace {

using namespace std::chrono_literals;

using journal::Arrival;
using journal::ArrivalKind;
using journal::Entry;
using journal::Record;
using journal::Request;
using journal::RequestKind;

const TimePoint noon{std::chrono::sys_days{std::chrono::year{2030} / 1 / 1} + 12h};

Workflow<> other() { co_return; }

class Replayer {
 public:
  template <class F>
  explicit Replayer(F workflow) : type_(detail::workflow_type("w", workflow, 1, workflow)) {
    registry_.add(detail::workflow_type("w", workflow, 1, workflow));
    registry_.add(detail::workflow_type("other", other, 1, other));
  }

  std::variant<Replayed, Divergence> replay(const std::vector<Entry>& entries,
                                            const std::string& input = "[]") {
    records_.clear();
    for (const Entry& entry : entries) records_.push_back({entry});
    return engine::replay(std::make_unique<Frame>(registry_, random_, FrameLimits{}), type_, input,
                          records_, noon);
  }

  Replayed replayed(const std::vector<Entry>& entries) {
    auto outcome = replay(entries);
    const auto* diverged = std::get_if<Divergence>(&outcome);
    REQUIRE_MESSAGE(diverged == nullptr, (diverged == nullptr ? "" : diverged->message()));
    return std::get<Replayed>(std::move(outcome));
  }

  std::string divergence(const std::vector<Entry>& entries) {
    auto outcome = replay(entries);
    const auto* diverged = std::get_if<Divergence>(&outcome);
    return diverged == nullptr ? "none" : diverged->message();
  }

 private:
  Registry registry_;
  detail::WorkflowType type_;
  base::SeededRandom random_{1};
  std::vector<Record> records_;
};

Request request(RequestKind kind, const std::string& op, const std::string& name = {}) {
  Request made;
  made.kind = kind;
  made.op = op;
  made.name = name;
  return made;
}

Entry started(std::vector<Request> requests) {
  Entry entry;
  entry.arrival.kind = ArrivalKind::started;
  entry.requests = std::move(requests);
  return entry;
}

Entry entry(ArrivalKind kind, const std::string& op, const std::string& value = {},
            std::vector<Request> requests = {}) {
  Entry made;
  made.arrival.kind = kind;
  made.arrival.op = op;
  made.arrival.value = value;
  made.requests = std::move(requests);
  return made;
}

Workflow<int> two_steps() {
  const int a = co_await step("a", [] { return 1; });
  const int b = co_await step("b", [a] { return a + 1; });
  co_return a + b;
}

Workflow<std::string> remembers() {
  const TimePoint time = co_await now();
  const std::uint64_t number = co_await random();
  const std::string id = co_await uuid();
  co_await sleep(1h);
  co_return value::encode(time) + std::to_string(number) + id;
}

Workflow<int> spawner() {
  co_await spawn(other);
  co_return co_await step("after", [] { return 1; });
}

Workflow<int> sized(int count) {
  for (int i = 0; i < count; ++i) co_await step("step", [] {});
  co_return count;
}

Request completed(const std::string& value) {
  Request made = request(RequestKind::completed, "");
  made.value = value;
  return made;
}

}  // namespace

TEST_CASE("a journal brings the code to where it left it, and no further") {
  Replayer replayer{two_steps};

  const Replayed once = replayer.replayed({started({request(RequestKind::step, "1", "a")})});
  const Replayed twice = replayer.replayed(
      {started({request(RequestKind::step, "1", "a")}),
       entry(ArrivalKind::step_completed, "1", "20", {request(RequestKind::step, "2", "b")})});

  CHECK(once.fresh.empty());
  CHECK(once.frame->step("1") != nullptr);
  CHECK(twice.fresh.empty());
  CHECK(twice.frame->step("1") == nullptr);
  CHECK(twice.frame->step("2") != nullptr);
  CHECK(twice.state.next == 2);
}

TEST_CASE("the end of a run is replayed like everything else") {
  Replayer replayer{two_steps};
  const std::vector<Entry> whole{
      started({request(RequestKind::step, "1", "a")}),
      entry(ArrivalKind::step_completed, "1", "20", {request(RequestKind::step, "2", "b")}),
      entry(ArrivalKind::step_completed, "2", "22", {completed("42")})};

  CHECK(replayer.replayed(whole).state.ended);
  CHECK(replayer.divergence(whole) == "none");
}

TEST_CASE("what the code asks for behind the last note is fresh") {
  Replayer replayer{spawner};
  Entry outcome = entry(ArrivalKind::outcome, "1", "true");
  outcome.arrival.name = "run-2";

  const Replayed replayed =
      replayer.replayed({started({request(RequestKind::spawn, "1", "other")}), outcome});

  REQUIRE(replayed.fresh.size() == 1);
  CHECK(replayed.fresh[0].kind == RequestKind::step);
  CHECK(replayed.fresh[0].op == "2");
}

TEST_CASE("what the code asked for behind a note is compared with the entry that continued it") {
  Replayer replayer{spawner};
  Entry outcome = entry(ArrivalKind::outcome, "1", "true");
  outcome.arrival.name = "run-2";
  const auto continued = [&](const std::string& name) {
    return std::vector<Entry>{
        started({request(RequestKind::spawn, "1", "other")}), outcome,
        entry(ArrivalKind::continued, "", "", {request(RequestKind::step, "2", name)})};
  };

  CHECK(replayer.replayed(continued("after")).fresh.empty());
  CHECK(replayer.divergence(continued("before")) ==
        "recorded: step \"before\" (operation 2); asked: step \"after\" (operation 2)");
}

TEST_CASE("recorded answers are given again") {
  Replayer replayer{remembers};
  Request time = request(RequestKind::now, "1");
  time.at = noon - 24h;
  Request number = request(RequestKind::random, "2");
  number.value = "18446744073709551615";
  Request id = request(RequestKind::uuid, "3");
  id.value = "not even a uuid";
  Request sleeping = request(RequestKind::sleep, "4");
  sleeping.at = noon;
  const std::string expected =
      value::encode(value::encode(TimePoint{noon - 24h}) + "18446744073709551615not even a uuid");

  const std::vector<Entry> journal{started({time, number, id, sleeping}),
                                   entry(ArrivalKind::timer_fired, "4", "", {completed(expected)})};

  CHECK(replayer.divergence(journal) == "none");
}

TEST_CASE("code and journal disagree by kind, name, operation or number of requests") {
  struct Case {
    std::vector<Entry> journal;
    std::string message;
  };

  Replayer replayer{two_steps};
  const std::vector<Case> cases{
      {{started({request(RequestKind::sleep, "1")})},
       "recorded: sleep (operation 1); asked: step \"a\" (operation 1)"},
      {{started({request(RequestKind::step, "1", "z")})},
       "recorded: step \"z\" (operation 1); asked: step \"a\" (operation 1)"},
      {{started({request(RequestKind::step, "1.1", "a")})},
       "recorded: step \"a\" (operation 1.1); asked: step \"a\" (operation 1)"},
      {{started({})}, "recorded: nothing more; asked: step \"a\" (operation 1)"},
      {{started({request(RequestKind::step, "1", "a"), request(RequestKind::step, "2", "b")})},
       "recorded: step \"b\" (operation 2); asked: nothing more"},
      {{started({request(RequestKind::step, "1", "a")}),
        entry(ArrivalKind::step_completed, "1", "1", {completed("1")})},
       "recorded: completed; asked: step \"b\" (operation 2)"},
  };

  for (const Case& c : cases) CHECK(replayer.divergence(c.journal) == c.message);
}

TEST_CASE("arguments that no longer fit are a disagreement, not a crash") {
  Replayer replayer{sized};

  const auto outcome = replayer.replay({started({})}, R"(["three"])");

  REQUIRE(std::holds_alternative<Divergence>(outcome));
  CHECK(std::get<Divergence>(outcome).asked.find("/0") != std::string::npos);
}

TEST_CASE("other arguments of a step are noted and change nothing") {
  Request asked = request(RequestKind::step, "1", "a");
  asked.hash = 12345;
  Replayer replayer{two_steps};

  const Replayed replayed = replayer.replayed({started({asked})});

  CHECK(replayed.frame->changed_arguments().size() == 1);
}

TEST_CASE("arrivals that nobody waits for are passed over") {
  Replayer replayer{two_steps};

  const Replayed replayed = replayer.replayed({started({request(RequestKind::step, "1", "a")}),
                                               entry(ArrivalKind::result_arrived, "7", "1"),
                                               entry(ArrivalKind::timer_fired, "8")});

  CHECK(replayed.frame->step("1") != nullptr);
}

TEST_CASE("coroutine frames are charged to their run and given back") {
  Replayer replayer{two_steps};
  Replayed replayed = replayer.replayed({started({request(RequestKind::step, "1", "a")})});

  CHECK(replayed.frame->bytes() > 0);
  CHECK(detail::current_meter() == nullptr);
}

}  // namespace semel::engine
