#include "tests/simulation/clients.hpp"

#include "engine/transacting.hpp"
#include "idempotency/fingerprint.hpp"
#include "tests/simulation/kinds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace semel::sim {

namespace {

const std::array<std::string, 2> workspaces{"default", "other"};

Millis seconds(std::uint64_t count) { return std::chrono::seconds{count}; }

bool any_run(const Known&) { return true; }

bool is_open(const Known& run) { return !run.row.is_over(); }

bool is_asleep(const Known& run) {
  return std::ranges::any_of(run.history.state().pending, [](const journal::Operation& operation) {
    return operation.kind == journal::RequestKind::sleep;
  });
}

bool has_failed(const Known& run) {
  return run.row.status == Status::failed || run.row.status == Status::dead ||
         run.row.status == Status::diverged;
}

/// A copy has the entries of one generation; the checks compare whole journals. And a copy of a clerk may write the same
/// line once more.
bool can_be_forked(const Known& run) {
  return !run.history.entries().empty() && run.row.workflow != "renewing" &&
         run.row.workflow != "clerk";
}

bool can_be_waited_for(const Known& run) {
  const Kind* kind = find_kind(run.row.workflow);
  return run.row.workspace == 1 && kind != nullptr && kind->surely_ends;
}

}  // namespace

template <class T>
engine::Reply<T> Clients::reply(std::string call, std::function<void(const T&)> then) {
  const std::uint64_t number = ++calls_;
  trace_(fmt::format("call {}: {}", number, call));
  open_.emplace(number, call);
  return [this, number, call = std::move(call),
          then = std::move(then)](std::variant<T, engine::Refusal> answer) {
    if (open_.erase(number) == 0)
      checks_.fail("S6", fmt::format("call {} ({}) is answered twice", number, call));
    ++answered_;
    if (const auto* refusal = std::get_if<engine::Refusal>(&answer)) {
      trace_(fmt::format("call {}: refused, {}", number, refusal->code));
      check_refused(call, *refusal);
      return;
    }
    trace_(fmt::format("call {}: done", number));
    then(std::get<T>(answer));
  };
}

void Clients::call(engine::Loop& loop, TimePoint now, bool may_start) {
  if (random_.one_in(4)) return deliver(loop, now);
  if (may_start && random_.one_in(12)) return resume_or_start(loop, now);
  if (random_.one_in(12)) return transact(loop, now);
  const std::uint64_t what = may_start ? random_.below(100) : 60 + random_.below(40);
  std::optional<Target> target;
  if (what >= 92) {
    if ((target = draw_target(any_run))) return watch(loop, *target);
  } else if (what >= 84) {
    if ((target = draw_target(random_.one_in(4) ? any_run : is_asleep)))
      return wake(loop, now, *target);
  } else if (what >= 78) {
    if ((target = draw_target(can_be_forked))) return fork(loop, now, *target);
  } else if (what >= 70) {
    if ((target = draw_target(random_.one_in(8) ? any_run : has_failed))) {
      return retry(loop, now, *target, {.expected_version = draw_version(*target)});
    }
  } else if (what >= 60) {
    if ((target = draw_target(random_.one_in(6) ? any_run : is_open)))
      return cancel(loop, now, *target);
  }
  if (may_start) start(loop, now);
}

// ---------------------------------------------------------------------------------------------- what they ask for

std::optional<Clients::Target> Clients::draw_target(bool (*wanted)(const Known& run)) {
  std::vector<const Known*> found;
  for (const auto& [key, run] : checks_.runs()) {
    if (wanted(run)) found.push_back(&run);
  }
  if (found.empty()) return std::nullopt;
  return target_of(*found[random_.below(found.size())]);
}

std::optional<Clients::Target> Clients::target_of(const Known& run) {
  for (const std::string& workspace : workspaces) {
    if (checks_.find(workspace, run.id()) == &run) return Target{workspace, run.id(), run.key};
  }
  return std::nullopt;
}

/// The run a call was about; null if it is gone or another one has its id.
const Known* Clients::still(const Target& target) {
  const Known* run = checks_.find(target.workspace, target.id);
  return run != nullptr && run->key == target.key ? run : nullptr;
}

std::optional<std::uint64_t> Clients::draw_version(const Target& target) {
  const std::size_t entries = checks_.find(target.key)->history.entries().size();
  if (!random_.one_in(3) || entries == 0) return std::nullopt;
  return random_.one_in(3) ? entries - random_.below(2) : entries - 1;
}

void Clients::draw_policies(StartOptions& options) {
  constexpr std::array on_running{OnRunning::attach, OnRunning::attach, OnRunning::attach,
                                  OnRunning::supersede, OnRunning::reject};
  constexpr std::array after_done{AfterDone::return_result, AfterDone::return_result,
                                  AfterDone::start_new, AfterDone::start_new_if_failed,
                                  AfterDone::reject};
  options.on_running = on_running[random_.below(on_running.size())];
  options.after_done = after_done[random_.below(after_done.size())];
  options.fingerprint = random_.one_in(8) ? Fingerprint::off : Fingerprint::on;
  options.key_ttl.reset();
  if (random_.one_in(3)) options.key_ttl = seconds(random_.below(60));
}

Clients::Start Clients::draw_start() {
  if (!starts_.empty() && random_.one_in(3)) {
    // The same again: a client that got no answer, or two clients with one idea.
    Start again = starts_[random_.below(starts_.size())];
    if (random_.one_in(2)) draw_policies(again.options);
    return again;
  }
  unsigned total = 0;
  for (const Kind& kind : kinds()) total += kind.weight;
  auto drawn = static_cast<unsigned>(random_.below(total));
  const Kind* kind = &kinds().front();
  for (const Kind& candidate : kinds()) {
    kind = &candidate;
    if (drawn < candidate.weight) break;
    drawn -= candidate.weight;
  }
  if (kind->name == "poison" && !with_poison_) kind = &kinds().front();

  int n = static_cast<int>(random_.below(6));
  Start start;
  start.workspace = workspaces[random_.one_in(6) ? 1 : 0];
  start.workflow = kind->name;
  start.input = fmt::format("[{}]", n);
  if (kind->name == "patient") {
    start.workspace = workspaces[0];
    const auto other = draw_target(can_be_waited_for);
    start.input = fmt::format("[\"{}\",{}]", other ? other->id : "nobody", n);
  }
  StartOptions& options = start.options;
  if (random_.one_in(2)) {
    options.key = fmt::format("k{}", random_.below(6));
    // The keys that workflows use for their children.
    if (kind->name == "chain" && n < 2) options.key = fmt::format("leaf-{}", n);
    draw_policies(options);
  }
  if (random_.one_in(12)) {
    options.run_id = fmt::format("id-{}", random_.below(3));
    draw_policies(options);
    // A fork waits for the runs its original waited for by their ids: no child's is given away to another run.
    if (options.key && options.key->starts_with("leaf-")) options.run_id.reset();
  }
  if (kind->name == "mailbox" && random_.one_in(2)) options.token = fmt::format("box-{}", n % 3);
  if (random_.one_in(8)) options.delay = Millis{random_.below(5000)};
  if (random_.one_in(8)) options.deadline = seconds(1 + random_.below(30));
  if (random_.one_in(8)) options.attributes = {{"from", "client"}};
  return start;
}

// ---------------------------------------------------------------------------------------------- calls

void Clients::start(engine::Loop& loop, TimePoint now) {
  Start start = draw_start();
  engine::StartInput input{start.workspace, start.workflow, start.input, {}, start.options};
  if (start.options.key || start.options.run_id) {
    input.fingerprint =
        idempotency::start_fingerprint(start.workflow, value::canonical(start.input));
  }
  const std::string name = fmt::format("start {}{} key={} id={} in {}", start.workflow, start.input,
                                       start.options.key.value_or("-"),
                                       start.options.run_id.value_or("-"), start.workspace);
  starts_.push_back(start);
  loop.start(std::move(input),
             reply<engine::StartReply>(
                 name, [this, start](const auto& started) { check_started(start, started); }),
             now);
}

void Clients::cancel(engine::Loop& loop, TimePoint now, const Target& target) {
  CancelOptions options{.grace = std::nullopt, .expected_version = draw_version(target)};
  if (random_.one_in(2)) options.grace = Millis{random_.below(20'000)};
  const auto then = [this, target, options](const std::monostate&) {
    const Known* run = still(target);
    if (run == nullptr) return;
    const journal::RunState& state = run->history.state();
    const bool told =
        run->row.is_over() || state.grace_until || checks_.has_cancel_in_inbox(run->key);
    const bool cancelled = run->row.status == Status::cancelled || run->reopened_in != 0;
    if (options.grace ? !told : !cancelled) {
      checks_.fail("S6", fmt::format("a cancel of run {} was answered, and there is no trace of it",
                                     target.id));
    }
  };
  loop.cancel(target.workspace, target.id, options,
              reply<std::monostate>(
                  fmt::format("cancel {}{}", target.id, options.grace ? " with grace" : ""), then),
              now);
}

void Clients::retry(engine::Loop& loop, TimePoint now, const Known& run) {
  if (const auto target = target_of(run)) retry(loop, now, *target, {});
}

void Clients::retry(engine::Loop& loop, TimePoint now, const Target& target, RunOptions options) {
  const int reopens = still(target)->history.reopens();
  const auto then = [this, target, reopens](const std::monostate&) {
    const Known* run = still(target);
    if (run != nullptr && run->history.reopens() <= reopens) {
      checks_.fail("S6", fmt::format("a retry of run {} was answered, and there is no trace of it",
                                     target.id));
    }
  };
  loop.retry(target.workspace, target.id, options,
             reply<std::monostate>("retry " + target.id, then), now);
}

void Clients::fork(engine::Loop& loop, TimePoint now, const Target& target) {
  const std::uint64_t seq = random_.below(still(target)->history.entries().size());
  const auto then = [this, target](const std::string& id) {
    if (checks_.find(target.workspace, id) == nullptr) {
      checks_.fail("S6", fmt::format("run {} was forked from {} and is not there", id, target.id));
    }
  };
  loop.fork(target.workspace, target.id, seq, {.expected_version = draw_version(target)},
            reply<std::string>(fmt::format("fork {} at {}", target.id, seq), then), now);
}

void Clients::wake(engine::Loop& loop, TimePoint now, const Target& target) {
  const auto expected = draw_version(target);
  const auto then = [this, target, expected](const int& count) {
    const Known* run = still(target);
    if (run == nullptr || count == 0) return;
    const auto matches = [&](const auto& woken) {
      return woken.second == count && (!expected || woken.first == *expected + 1);
    };
    if (std::ranges::none_of(run->history.woken(), matches)) {
      checks_.fail(expected ? "S2" : "S6",
                   fmt::format("{} sleeps of run {} were ended at version {}, says the answer",
                               count, target.id, expected ? std::to_string(*expected) : "-"));
    }
  };
  loop.wake(target.workspace, target.id, {.expected_version = expected},
            reply<int>("wake " + target.id, then), now);
}

void Clients::deliver(engine::Loop& loop, TimePoint now) {
  store::Deliver deliver{.workspace = workspaces[random_.one_in(6) ? 1 : 0],
                         .token = random_.one_in(3) ? fmt::format("new-{}", random_.below(2))
                                                    : fmt::format("box-{}", random_.below(3))};
  if (!resumes_.empty() && random_.one_in(4)) {
    deliver = resumes_[random_.below(resumes_.size())];  // somebody who got no answer
  } else {
    deliver.payload = std::to_string(++payloads_);
    if (random_.one_in(2)) {
      deliver.resume_id = "resume-" + deliver.payload;
      deliver.fingerprint = deliver.payload;
      resumes_.push_back(deliver);
    }
  }
  const std::int64_t payload = std::stoll(deliver.payload);
  const std::string name = fmt::format("resume {} with {}", deliver.token, payload);
  loop.deliver(std::move(deliver),
               reply<engine::DeliverReply>(
                   name, [this, payload](const auto&) { checks_.payload_accepted(payload); }),
               now);
}

void Clients::resume_or_start(engine::Loop& loop, TimePoint now) {
  const int n = static_cast<int>(random_.below(6));
  const std::string workspace = workspaces[random_.one_in(6) ? 1 : 0];
  const std::int64_t payload = ++payloads_;
  store::Deliver deliver{.workspace = workspace,
                         .token = fmt::format("box-{}", n % 3),
                         .payload = std::to_string(payload)};
  engine::StartInput input{workspace, "mailbox", fmt::format("[{}]", n), {}, {}};
  const std::string name = fmt::format("resume or start {} with {}", deliver.token, payload);
  loop.resume_or_start(
      std::move(deliver), std::move(input),
      reply<engine::DeliverReply>(
          name, [this, payload](const auto&) { checks_.payload_accepted(payload); }),
      now);
}

void Clients::transact(engine::Loop& loop, TimePoint now) {
  const std::string line = fmt::format("client {}", ++transactions_);
  const bool throws = random_.one_in(4);
  const auto then = [this, line](const engine::TransactReply& reply) {
    if (checks_.lines(line) != (reply.error ? 0 : 1)) {
      checks_.fail("S5",
                   fmt::format("a transaction was said to have {}, and {} is {} times there",
                               reply.error ? "failed" : "happened", line, checks_.lines(line)));
    }
  };
  loop.transact(engine::make_work("default",
                                  [line, throws](sql::Transaction& ledger) -> std::string {
                                    ledger.exec("INSERT INTO ledger (line) VALUES (?1)", line);
                                    if (throws) throw std::runtime_error("as drawn");
                                    return "null";
                                  }),
                reply<engine::TransactReply>("transaction of " + line, then), now);
}

void Clients::watch(engine::Loop& loop, const Target& target) {
  const auto then = [this, target](const detail::RunEnd& end) {
    const Known* run = still(target);
    if (run == nullptr || run->reopened_in != 0) return;
    // Dead when the answer was made, cancelled since: the loop has not heard of that yet.
    const bool was_stuck = !store::is_end(static_cast<Status>(end.status));
    if (was_stuck && checks_.is_news(run->ended_in)) return;
    if (run->row.status != static_cast<Status>(end.status) || run->row.output != end.output) {
      checks_.fail(
          "S6", fmt::format("run {} was reported {} with \"{}\", it is {} with \"{}\"", target.id,
                            to_string(end.status), end.output,
                            to_string(static_cast<RunStatus>(run->row.status)), run->row.output));
    }
  };
  loop.watch(target.workspace, target.id, reply<detail::RunEnd>("watch " + target.id, then));
}

}  // namespace semel::sim
