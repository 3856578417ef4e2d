// The fold: what a run is, given its journal.
#include "journal/state.hpp"

#include <doctest/doctest.h>

namespace semel::journal {

namespace {

using namespace std::chrono_literals;

using Phase = Operation::Phase;

const TimePoint noon{std::chrono::sys_days{std::chrono::year{2030} / 1 / 1} + 12h};

Request asks_step(const std::string& op, bool at_most_once = false) {
  Request request;
  request.op = op;
  request.name = "step " + op;
  request.attempt = 1;
  request.at_most_once = at_most_once;
  return request;
}

Request asks(RequestKind kind, const std::string& op = {}, const std::string& name = {}) {
  Request request;
  request.kind = kind;
  request.op = op;
  request.name = name;
  return request;
}

Request asks_sleep(const std::string& op, TimePoint until) {
  Request request = asks(RequestKind::sleep, op);
  request.at = until;
  return request;
}

Arrival arrives(ArrivalKind kind, const std::string& op = {}, std::uint32_t attempt = 0) {
  Arrival arrival;
  arrival.kind = kind;
  arrival.op = op;
  arrival.attempt = attempt;
  return arrival;
}

Arrival fails(ArrivalKind kind, const std::string& op, std::uint32_t attempt = 1) {
  Arrival arrival = arrives(kind, op, attempt);
  arrival.failure = Failure{.code = "X", .message = "no"};
  arrival.at = noon;
  return arrival;
}

Arrival recovers(std::vector<Lost> ops, bool counted = true) {
  Arrival arrival = arrives(ArrivalKind::recovered);
  arrival.ops = std::move(ops);
  arrival.counted = counted;
  return arrival;
}

Entry started(std::vector<Request> requests) {
  return {arrives(ArrivalKind::started), std::move(requests)};
}

RunState state_of(const std::vector<Entry>& entries) {
  RunState state;
  for (const Entry& entry : entries) state.apply(entry);
  return state;
}

std::vector<std::string> encoded(const std::vector<Entry>& entries) {
  std::vector<std::string> bytes;
  for (const Entry& entry : entries) bytes.push_back(encode(entry));
  return bytes;
}

std::vector<std::string> pending(const RunState& state) {
  std::vector<std::string> ops;
  for (const Operation& operation : state.pending) ops.push_back(operation.op);
  return ops;
}

using Ops = std::vector<std::string>;

}  // namespace

TEST_CASE("a run without entries has nothing and its next entry is the first") {
  const RunState state;

  CHECK(state.next == 0);
  CHECK(state.pending.empty());
  CHECK_FALSE(state.has_work());
  CHECK_FALSE(state.ended);
}

TEST_CASE("what was asked for is pending until it settles") {
  RunState state = state_of(
      {started({asks_step("1"), asks_sleep("2", noon), asks(RequestKind::child, "3", "other"),
                asks(RequestKind::result_of, "4", "run-7"), asks(RequestKind::spawn, "5")})});
  CHECK(pending(state) == Ops{"1", "2", "3", "4", "5"});
  CHECK(state.find("4")->run_id == "run-7");

  state.apply({arrives(ArrivalKind::step_completed, "1", 1), {}});
  state.apply({arrives(ArrivalKind::timer_fired, "2"), {}});
  state.apply({arrives(ArrivalKind::result_arrived, "4"), {}});
  state.apply({arrives(ArrivalKind::outcome, "5"), {}});

  CHECK(pending(state) == Ops{"3"});
  CHECK(state.next == 5);
}

TEST_CASE("a child is pending until its result; the outcome only says which run it is") {
  Arrival outcome = arrives(ArrivalKind::outcome, "1");
  outcome.name = "run-8";
  RunState state = state_of({started({asks(RequestKind::child, "1", "other")})});

  state.apply({outcome, {}});
  REQUIRE(pending(state) == Ops{"1"});
  CHECK(state.find("1")->run_id == "run-8");
  state.apply({arrives(ArrivalKind::result_arrived, "1"), {}});

  CHECK(state.pending.empty());
}

TEST_CASE("a child that was refused is not pending any more") {
  Arrival refused = fails(ArrivalKind::outcome, "1");

  CHECK(state_of({started({asks(RequestKind::child, "1")}), {refused, {}}}).pending.empty());
}

TEST_CASE("what is answered at once is never pending") {
  const RunState state =
      state_of({started({asks(RequestKind::now, "1"), asks(RequestKind::uuid, "2"),
                         asks(RequestKind::random, "3"), asks(RequestKind::version, "", "v"),
                         asks(RequestKind::attribute, "4"), asks(RequestKind::emit, "5")})});

  CHECK(state.pending.empty());
}

TEST_CASE("a failed attempt rests, and begins again under the next number") {
  RunState state = state_of({started({asks_step("1")})});
  CHECK(state.has_work());

  state.apply({fails(ArrivalKind::attempt_failed, "1"), {}});
  CHECK(state.find("1")->phase == Phase::backoff);
  CHECK(state.find("1")->at == noon);
  CHECK(state.find("1")->failures == 1);
  CHECK_FALSE(state.has_work());
  state.apply({arrives(ArrivalKind::retry_due, "1", 2), {}});

  CHECK(state.find("1")->phase == Phase::under_way);
  CHECK(state.find("1")->attempt == 2);
  CHECK(state.has_work());
}

TEST_CASE("attempts lost to a crash get the next number and are no failures") {
  RunState state = state_of({started({asks_step("1"), asks_step("2"), asks_sleep("3", noon)})});
  state.apply({arrives(ArrivalKind::step_completed, "2", 1), {}});

  const std::vector<Lost> lost = lost_attempts(state);
  CHECK(lost == std::vector<Lost>{{"1", 2}});
  state.apply({recovers(lost), {}});

  CHECK(state.find("1")->attempt == 2);
  CHECK(state.find("1")->failures == 0);
  CHECK(state.crashes == 1);
}

TEST_CASE("a step that rests is not lost in a crash") {
  const RunState state =
      state_of({started({asks_step("1")}), {fails(ArrivalKind::attempt_failed, "1"), {}}});

  CHECK(lost_attempts(state).empty());
}

TEST_CASE("an at_most_once step is lost for good once it has begun, and not before") {
  RunState state = state_of({started({asks_step("1", true)})});
  CHECK(lost_attempts(state) == std::vector<Lost>{{"1", 2}});

  state.apply({arrives(ArrivalKind::begun, "1", 1), {}});
  const std::vector<Lost> lost = lost_attempts(state);
  CHECK(lost == std::vector<Lost>{{"1", 0}});
  const Failure unknown = outcome_unknown(*state.find("1"));
  state.apply({recovers(lost), {}});

  CHECK(state.pending.empty());
  CHECK(unknown.code == "OUTCOME_UNKNOWN");
  CHECK(unknown.op == "1");
}

TEST_CASE("a step nobody waits for is not run again after a crash, nor after a rest") {
  RunState under_way =
      state_of({started({asks_step("1"), asks_sleep("2", noon)}),
                {arrives(ArrivalKind::timer_fired, "2"), {asks(RequestKind::abandon, "1")}}});
  RunState resting =
      state_of({started({asks_step("1"), asks_sleep("2", noon)}),
                {fails(ArrivalKind::attempt_failed, "1"), {}},
                {arrives(ArrivalKind::timer_fired, "2"), {asks(RequestKind::abandon, "1")}}});

  CHECK(lost_attempts(under_way) == std::vector<Lost>{{"1", 0}});
  CHECK(under_way.find("1")->abandoned);
  CHECK(resting.pending.empty());
}

TEST_CASE("a dropped sleep and a woken sleep are over") {
  Arrival woken = arrives(ArrivalKind::woken);
  woken.ops = {{"2", 0}, {"3", 0}};

  const RunState state = state_of({started({asks_sleep("1", noon), asks_sleep("2", noon),
                                            asks_sleep("3", noon), asks(RequestKind::drop, "1")}),
                                   {woken, {}}});

  CHECK(state.pending.empty());
}

TEST_CASE("crashes count until something is got done") {
  const auto crashed = [](std::vector<Entry> entries) {
    entries.insert(entries.begin(), {started({asks_step("1"), asks_sleep("2", noon)}),
                                     {recovers({{"1", 2}}), {}},
                                     {recovers({{"1", 3}}), {}}});
    return state_of(entries).crashes;
  };
  Arrival woken = arrives(ArrivalKind::woken);

  CHECK(crashed({}) == 2);
  CHECK(crashed({{recovers({{"1", 4}}, false), {}}}) == 2);
  CHECK(crashed({{arrives(ArrivalKind::retry_due, "1", 4), {}}}) == 2);
  CHECK(crashed({{arrives(ArrivalKind::cancel_requested), {}}}) == 2);
  CHECK(crashed({{arrives(ArrivalKind::step_completed, "1", 3), {}}}) == 0);
  CHECK(crashed({{fails(ArrivalKind::attempt_failed, "1", 3), {}}}) == 0);
  CHECK(crashed({{arrives(ArrivalKind::timer_fired, "2"), {}}}) == 0);
  CHECK(crashed({{woken, {}}}) == 0);
}

TEST_CASE("the grace of a cancel can only become shorter") {
  const auto cancel = [](TimePoint until) {
    Arrival arrival = arrives(ArrivalKind::cancel_requested);
    arrival.at = until;
    return Entry{arrival, {}};
  };

  CHECK(state_of({cancel(noon)}).grace_until == noon);
  CHECK(state_of({cancel(noon), cancel(noon + 1h)}).grace_until == noon);
  CHECK(state_of({cancel(noon), cancel(noon - 1h)}).grace_until == noon - 1h);
}

TEST_CASE("ends are ends, from inside and from outside") {
  for (const RequestKind kind :
       {RequestKind::completed, RequestKind::failed, RequestKind::cancelled}) {
    CHECK(state_of({started({asks(kind)})}).ended);
  }
  for (const ArrivalKind kind :
       {ArrivalKind::cancelled, ArrivalKind::timed_out, ArrivalKind::limit_reached}) {
    CHECK(state_of({started({}), {arrives(kind), {}}}).ended);
  }
}

TEST_CASE("a reopened run's end is void, and the failure that it takes back") {
  Arrival reopened = arrives(ArrivalKind::reopened);
  reopened.at_seq = 2;
  reopened.ops = {{"2", 3}};
  const std::vector<Entry> entries{
      started({asks_step("1")}),
      {arrives(ArrivalKind::step_completed, "1", 1), {asks_step("2")}},
      {fails(ArrivalKind::step_failed, "2", 2), {asks(RequestKind::failed)}},
      {reopened, {}},
  };

  const auto records = read_journal(encoded(entries));
  REQUIRE(records.has_value());
  const RunState state = fold(*records);

  CHECK_FALSE((*records)[1].arrival_void);
  CHECK((*records)[2].arrival_void);
  CHECK((*records)[2].requests_void);
  CHECK_FALSE(state.ended);
  CHECK(pending(state) == Ops{"2"});
  CHECK(state.find("2")->attempt == 3);
  CHECK(state.next == 4);
}

TEST_CASE("a reopened run whose code failed by itself keeps every arrival") {
  Arrival reopened = arrives(ArrivalKind::reopened);
  reopened.at_seq = 1;
  const auto records = read_journal(
      encoded({started({asks_step("1")}),
               {arrives(ArrivalKind::step_completed, "1", 1), {asks(RequestKind::failed)}},
               {reopened, {}}}));
  REQUIRE(records.has_value());

  CHECK_FALSE((*records)[1].arrival_void);
  CHECK((*records)[1].requests_void);
  CHECK_FALSE(fold(*records).ended);
  CHECK(fold(*records).pending.empty());
}

TEST_CASE("a reopened run that had missed its deadline, or filled its journal, goes on") {
  for (const ArrivalKind end : {ArrivalKind::timed_out, ArrivalKind::limit_reached}) {
    Arrival reopened = arrives(ArrivalKind::reopened);
    reopened.at_seq = 1;
    const auto records = read_journal(
        encoded({started({asks_sleep("1", noon)}), {fails(end, ""), {}}, {reopened, {}}}));
    REQUIRE(records.has_value());

    CHECK_FALSE(fold(*records).ended);
    CHECK(pending(fold(*records)) == Ops{"1"});
  }
}

TEST_CASE("a reopened entry that points nowhere changes nothing before it") {
  Arrival reopened = arrives(ArrivalKind::reopened);
  reopened.at_seq = 99;

  const auto records = read_journal(encoded({started({asks_step("1")}), {reopened, {}}}));

  REQUIRE(records.has_value());
  CHECK(pending(fold(*records)) == Ops{"1"});
}

TEST_CASE("a journal with an entry that cannot be read is corrupt") {
  std::vector<std::string> entries = encoded({started({asks_step("1")})});
  entries.push_back("\x01garbage");

  const auto records = read_journal(entries);

  REQUIRE_FALSE(records.has_value());
  CHECK(records.error().code == base::Errc::corrupt);
}

}  // namespace semel::journal
