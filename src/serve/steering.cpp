// What an operator does with a run: cancel, retry, fork, wake.
#include "engine/steering.hpp"

#include "http/problem.hpp"
#include "serve/route.hpp"
#include "serve/view.hpp"
#include "serve/wire.hpp"

#include <boost/json.hpp>

namespace semel::serve {

namespace {

/// The run, with its journal. Throws what it is refused with: missing, or moved on.
store::RunLoaded load(store::UnitOfWork& unit, const store::FindRun& wanted,
                      std::optional<std::uint64_t> version) {
  store::Answer found = unit.execute(wanted);
  const auto* there = std::get_if<store::RunLoaded>(&found);
  if (there == nullptr) throw engine::not_found(wanted.id);
  if (!engine::is_at(there->run, version)) throw engine::moved_on(wanted.id);
  store::Answer loaded = unit.execute(store::LoadRun{there->run.key});
  return std::get<store::RunLoaded>(std::move(loaded));
}

}  // namespace

http::Response Api::cancel(store::UnitOfWork& unit, const store::CancelRun& command) {
  const store::Answer answer = unit.execute(command);
  if (const auto* done = std::get_if<store::Cancelled>(&answer))
    return json_answer(200, run_in(unit, done->run));
  if (const auto* over = std::get_if<store::NotActive>(&answer)) {
    return http::problem("RUN_NOT_ACTIVE", engine::not_active(over->run).message,
                         {{"runId", over->run.id}, {"run", run_in(unit, over->run)}});
  }
  const bool is_missing = std::holds_alternative<store::RunMissing>(answer);
  return refused(is_missing ? engine::not_found(command.id) : engine::moved_on(command.id));
}

http::Response Api::retry(Unit& inside, const store::FindRun& wanted,
                          std::optional<std::uint64_t> version) {
  store::UnitOfWork& unit = inside.store;
  const store::RunLoaded loaded = load(unit, wanted, version);
  if (const auto refusal = engine::refuse_retry(loaded.run)) return refused(*refusal);
  const auto made = engine::reopening(loaded, unit.now());
  if (const auto* refusal = std::get_if<engine::Refusal>(&made)) return refused(*refusal);
  store::Answer answer;
  within_limits(inside, wanted.workspace, 0, [&] {
    answer = unit.execute(std::get<store::ReopenRun>(made));
    return std::holds_alternative<store::Advanced>(answer);
  });
  if (const auto* refusal = std::get_if<store::StartRefused>(&answer))
    return refused(engine::refusal_of(*refusal));
  if (!std::holds_alternative<store::Advanced>(answer)) return refused(engine::moved_on(wanted.id));
  return json_answer(200, run_in(unit, load(unit, wanted, std::nullopt).run));
}

http::Response Api::fork(Unit& inside, const store::FindRun& wanted, std::uint64_t seq,
                         std::optional<std::uint64_t> version) {
  store::UnitOfWork& unit = inside.store;
  thread_local base::SystemRandom random;
  thread_local base::IdSource ids(random);
  const store::RunLoaded loaded = load(unit, wanted, version);
  const TimePoint now = unit.now();
  engine::StartInput input{loaded.run.workspace, loaded.run.workflow, loaded.run.input, {}, {}};
  if (parts_.registry->find(loaded.run.workflow) == nullptr) {
    return http::problem("WORKFLOW_NOT_FOUND",
                         "no workflow named \"" + loaded.run.workflow + "\" is registered");
  }
  const auto made =
      engine::forking(loaded, seq,
                      engine::new_run(std::move(input), *parts_.registry, unit.new_run_key(),
                                      ids.next(now), now, parts_.retention),
                      now);
  if (const auto* refusal = std::get_if<engine::Refusal>(&made)) return refused(*refusal);
  const auto& [start, rest] = std::get<engine::Forking>(made);
  store::Answer answer;
  within_limits(inside, loaded.run.workspace, loaded.run.input.size(), [&] {
    answer = unit.execute(start);
    return !std::holds_alternative<store::StartRefused>(answer);
  });
  if (const auto* refusal = std::get_if<store::StartRefused>(&answer))
    return refused(engine::refusal_of(*refusal));
  unit.execute(rest);
  const store::RunLoaded copy = load(unit, {loaded.run.workspace, start.run.id}, std::nullopt);
  return json_answer(201, {{"run", run_in(unit, copy.run)}});
}

http::Response Api::wake(const Unit& inside, const store::FindRun& wanted,
                         std::optional<std::uint64_t> version) {
  store::UnitOfWork& unit = inside.store;
  const store::RunLoaded loaded = load(unit, wanted, version);
  if (store::is_end(loaded.run.status)) {
    return http::problem("RUN_NOT_ACTIVE", "run " + wanted.id + " is over",
                         {{"runId", wanted.id}, {"run", run_in(unit, loaded.run)}});
  }
  const auto made = engine::waking(loaded, unit.now());
  if (made && !std::holds_alternative<store::Advanced>(unit.execute(made->command)))
    return refused(engine::moved_on(wanted.id));
  return json_answer(200, {{"woken", made ? made->sleeps : 0}});
}

void Api::add_steering() {
  const auto guarded = [](const auto& effect) -> Effect {
    return [effect](Unit& unit) {
      try {
        return effect(unit);
      } catch (const engine::Refusal& refusal) {
        return refused(refusal);
      }
    };
  };
  const auto wanted = [](const http::Call& call) {
    return store::FindRun{call.tenant, call.path.at("id")};
  };

  act<wire::Cancel, wire::Run>(
      "/api/v1/runs/{id}/cancel", "runs.cancel", Needs::write,
      [this](const http::Request& request, const http::Call& call, const wire::Cancel& body) {
        store::CancelRun command;
        command.workspace = call.tenant;
        command.id = call.path.at("id");
        command.expected_version = expected_version(request);
        const auto grace =
            body.grace ? std::optional(duration_at("/grace", *body.grace)) : std::nullopt;
        return [this, command, grace](Unit& unit) mutable {
          command.now = unit.store.now();
          if (grace) command.grace_until = command.now + base::bounded(*grace);
          return cancel(unit.store, command);
        };
      });

  act<wire::Nothing, wire::Run>(
      "/api/v1/runs/{id}/retry", "runs.retry", Needs::write,
      [this, guarded, wanted](const http::Request& request, const http::Call& call,
                              const wire::Nothing&) {
        return guarded([this, run = wanted(call), version = expected_version(request)](Unit& unit) {
          return retry(unit, run, version);
        });
      });

  act<wire::Fork, wire::Forked>(
      "/api/v1/runs/{id}/fork", "runs.fork", Needs::write,
      [this, guarded, wanted](const http::Request& request, const http::Call& call,
                              const wire::Fork& body) {
        return guarded([this, run = wanted(call), seq = body.seq,
                        version = expected_version(request)](Unit& unit) {
          return fork(unit, run, seq, version);
        });
      });

  act<wire::Nothing, wire::Woken>(
      "/api/v1/runs/{id}/wake", "runs.wake", Needs::write,
      [this, guarded, wanted](const http::Request& request, const http::Call& call,
                              const wire::Nothing&) {
        return guarded([this, run = wanted(call), version = expected_version(request)](Unit& unit) {
          return wake(unit, run, version);
        });
      });
}

}  // namespace semel::serve
