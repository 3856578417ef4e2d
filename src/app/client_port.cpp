#include "app/client_port.hpp"

#include "engine/calls.hpp"
#include "engine/entry_view.hpp"
#include "engine/frame.hpp"
#include "engine/transacting.hpp"

namespace semel::app {

using engine::Loop;
using engine::Refusal;

namespace {

constexpr std::size_t journal_page = 1000;

[[noreturn]] void throw_refusal(const Refusal& refusal) {
  if (refusal.code == "IDEMPOTENCY_CONFLICT")
    throw IdempotencyConflictError(refusal.code, refusal.message);
  if (refusal.code == "CONCURRENCY_ERROR") throw ConcurrencyError(refusal.code, refusal.message);
  if (refusal.code == "HOOK_NOT_FOUND") throw HookNotFoundError(refusal.code, refusal.message);
  if (refusal.code == "HOOK_CONFLICT") {
    HookConflictError error(refusal.code, refusal.message);
    error.run_id = refusal.run_id;
    throw error;
  }
  if (refusal.code == "VALIDATION_ERROR" && !refusal.message.starts_with('/'))
    throw ValidationError(refusal.path, refusal.message);
  if (refusal.code == "RUN_NOT_FOUND") throw RunNotFoundError(refusal.code, refusal.message);
  if (refusal.code == "RUN_NOT_ACTIVE") throw RunNotActiveError(refusal.code, refusal.message);
  throw Error(refusal.code, refusal.message);
}

/// Posts to the loop and waits for the answer.
template <class T, class F>
T call(engine::Driver& driver, const engine::Patience& patience, F ask) {
  refuse_inside_workflow();

  struct State {
    engine::Waiting waiting;
    std::variant<T, Refusal> answer;
  };

  // Shared: a caller that gave up waiting may be gone when the answer comes.
  auto state = std::make_shared<State>();
  const std::weak_ptr<State> caller = state;
  const bool posted = driver.post([caller, ask = std::move(ask)](Loop& loop, TimePoint now) {
    const engine::Reply<T> reply = [caller](std::variant<T, Refusal> answer) {
      const auto waiting = caller.lock();
      if (!waiting) return;
      waiting->answer = std::move(answer);
      waiting->waiting.finish();
    };
    if constexpr (std::invocable<F&, Loop&, TimePoint, engine::Reply<T>, std::weak_ptr<State>>) {
      ask(loop, now, reply, caller);
    } else {
      ask(loop, now, reply);
    }
  });
  if (!posted) throw Error("ENGINE_STOPPED", "the engine has stopped");
  if (!driver.wait(state->waiting, patience)) {
    throw Error("TIMEOUT", patience.limit
                               ? "no answer in the time given"
                               : "the run cannot go on: nothing is left to run at this time");
  }
  if (const auto* refusal = std::get_if<Refusal>(&state->answer)) throw_refusal(*refusal);
  return std::get<T>(std::move(state->answer));
}

template <class T>
T value_or_throw(base::Result<T> result) {
  if (!result) throw Error("STORE_UNAVAILABLE", result.error().message);
  return std::move(*result);
}

}  // namespace

void refuse_inside_workflow() {
  if (engine::inside_workflow()) {
    throw Error(
        "CALL_INSIDE_WORKFLOW",
        "a workflow's own code must not call the engine: it is replayed. Use child, spawn or "
        "result_of, or do it in a step");
  }
  if (engine::inside_transaction()) {
    throw Error("CALL_INSIDE_TRANSACTION",
                "a transaction runs on the thread that commits and must not wait for another "
                "commit: use start_in and resume_in");
  }
}

engine::StartInput WorkspaceClient::start_input(detail::StartSpec spec) {
  return engine::start_input(*registry_, limits_, workspace_, std::move(spec));
}

std::pair<std::string, bool> WorkspaceClient::start(detail::StartSpec spec) {
  engine::StartInput input = start_input(std::move(spec));
  auto started = call<engine::StartReply>(
      *driver_, {}, [input = std::move(input)](Loop& loop, TimePoint now, const auto& reply) {
        loop.start(input, reply, now);
      });
  return {std::move(started.id), started.created};
}

std::pair<std::string, bool> StepClient::start(detail::StartSpec spec) {
  const std::string call = next_call();
  if (!spec.options.key && !spec.options.run_id) spec.options.key = call;
  return inner_->start(std::move(spec));
}

std::string StepClient::next_call() {
  return "step:" + step_id_ + ":" + std::to_string(calls_.fetch_add(1) + 1);
}

Resumed StepClient::resume(const std::string& token, std::string payload,
                           const ResumeOptions& options) {
  ResumeOptions once = options;
  const std::string call = next_call();
  if (!once.resume_id) once.resume_id = call;
  return inner_->resume(token, std::move(payload), once);
}

std::pair<std::string, bool> StepClient::resume_or_start(const std::string& token,
                                                         std::string payload,
                                                         detail::StartSpec spec,
                                                         std::optional<std::string>) {
  return inner_->resume_or_start(token, std::move(payload), std::move(spec), next_call());
}

store::Deliver WorkspaceClient::delivery(const std::string& token, std::string payload,
                                         const ResumeOptions& options) const {
  return engine::delivery(limits_, workspace_, token, std::move(payload), options);
}

Resumed WorkspaceClient::resume(const std::string& token, std::string payload,
                                const ResumeOptions& options) {
  auto reply = call<engine::DeliverReply>(
      *driver_, {},
      [deliver = delivery(token, std::move(payload), options)](
          Loop& loop, TimePoint now, const auto& answer) { loop.deliver(deliver, answer, now); });
  return {std::move(reply.run_id), std::move(reply.hook_id)};
}

std::pair<std::string, bool> WorkspaceClient::resume_or_start(
    const std::string& token, std::string payload, detail::StartSpec spec,
    std::optional<std::string> resume_id) {
  if (spec.options.token || spec.options.key) {
    throw Error("VALIDATION_ERROR",
                "/options: resume_or_start takes neither a token nor a key; the token decides");
  }
  ResumeOptions options;
  options.resume_id = std::move(resume_id);
  auto reply = call<engine::DeliverReply>(
      *driver_, {},
      [deliver = delivery(token, std::move(payload), options),
       input = start_input(std::move(spec))](Loop& loop, TimePoint now, const auto& answer) {
        loop.resume_or_start(deliver, input, answer, now);
      });
  return {std::move(reply.run_id), reply.started};
}

std::pair<std::string, bool> WorkspaceClient::start_in(sql::Transaction& transaction,
                                                       detail::StartSpec spec) {
  thread_local base::SystemRandom random;
  thread_local base::IdSource ids(random);
  store::UnitOfWork& unit = engine::unit_of(transaction);
  const TimePoint now = unit.now();
  store::StartRun command{
      .run = engine::new_run(start_input(std::move(spec)), *registry_, unit.new_run_key(),
                             ids.next(now), now, retention_),
      .first_entry = {},
      .changes = {}};
  store::Answer answer = unit.execute(command);
  if (auto* exists = std::get_if<store::RunExists>(&answer))
    return {std::move(exists->run.id), false};
  if (const auto* refused = std::get_if<store::StartRefused>(&answer))
    throw_refusal(engine::refusal_of(*refused));
  return {std::move(command.run.id), true};
}

Resumed WorkspaceClient::resume_in(sql::Transaction& transaction, const std::string& token,
                                   std::string payload, const ResumeOptions& options) {
  store::UnitOfWork& unit = engine::unit_of(transaction);
  store::Deliver deliver = delivery(token, std::move(payload), options);
  deliver.now = unit.now();
  store::Answer answer = unit.execute(deliver);
  auto* done = std::get_if<store::Delivered>(&answer);
  if (done == nullptr) throw_refusal(engine::delivery_refusal(token, answer));
  return {std::move(done->run_id), std::move(done->hook_id)};
}

void WorkspaceClient::transact(const std::function<void(sql::Transaction&)>& function) {
  auto work = engine::make_work(workspace_, [&function](sql::Transaction& transaction) {
    function(transaction);
    return std::string("null");
  });
  const auto done = call<engine::TransactReply>(
      *driver_, {}, [work = std::move(work)](Loop& loop, TimePoint now, const auto& reply) {
        loop.transact(work, reply, now);
      });
  if (done.error) std::rethrow_exception(done.error);
}

HookInfo WorkspaceClient::hook(const std::string& token) {
  refuse_inside_workflow();
  const auto found = value_or_throw(driver_->reader()->hook(workspace_, token));
  if (!found) throw HookNotFoundError("HOOK_NOT_FOUND", "nobody has the token \"" + token + "\"");
  return {found->token, found->run_id, found->waiting};
}

/// None also where the store cannot be read.
std::optional<store::RunRecord> WorkspaceClient::look_up(const std::string& id) {
  auto found = driver_->reader()->find(workspace_, id);
  return found ? *std::move(found) : std::nullopt;
}

store::RunRecord WorkspaceClient::record(const std::string& id) {
  refuse_inside_workflow();
  auto found = value_or_throw(driver_->reader()->find(workspace_, id));
  if (!found) throw RunNotFoundError("RUN_NOT_FOUND", "there is no run " + id);
  return std::move(*found);
}

detail::RunInfo WorkspaceClient::look(const std::string& id) {
  store::RunRecord run = record(id);
  detail::RunInfo info;
  info.status = static_cast<RunStatus>(run.status);
  info.version = run.version.value_or(0);
  info.input = std::move(run.input);
  if (run.failure) info.error = run.failure->code + ": " + run.failure->message;
  info.attributes = std::move(run.attributes);
  return info;
}

std::vector<std::string> WorkspaceClient::list(const RunFilter& filter) {
  refuse_inside_workflow();
  store::ListFilter wanted;
  wanted.workspace = workspace_;
  wanted.workflow = filter.workflow;
  if (filter.status) wanted.status = static_cast<store::Status>(*filter.status);
  wanted.idempotency_key = filter.key;
  wanted.attributes = filter.attributes;
  wanted.limit = filter.limit;
  std::vector<std::string> ids;
  for (auto& run : value_or_throw(driver_->reader()->list(wanted)))
    ids.push_back(std::move(run.id));
  return ids;
}

std::vector<store::StoredEntry> WorkspaceClient::entries(const std::string& id) {
  const store::RunKey key = record(id).key;
  std::vector<store::StoredEntry> all;
  for (;;) {
    auto page = value_or_throw(
        driver_->reader()->journal(key, all.empty() ? 0 : all.back().seq + 1, journal_page));
    const bool last = page.size() < journal_page;
    std::ranges::move(page, std::back_inserter(all));
    if (last) return all;
  }
}

std::vector<Entry> WorkspaceClient::journal(const std::string& id) {
  std::vector<Entry> views;
  for (const store::StoredEntry& stored : entries(id)) views.push_back(engine::view(stored));
  for (const store::Undelivered& left :
       value_or_throw(driver_->reader()->undelivered(record(id).key))) {
    views.push_back({.seq = views.empty() ? 0 : views.back().seq,
                     .kind = "undelivered",
                     .name = left.token,
                     .value = {{"value", value::from_text(left.value)}},
                     .at = left.at});
  }
  return views;
}

std::vector<std::string> WorkspaceClient::stream(const std::string& id, const std::string& stream,
                                                 std::uint64_t from) {
  std::vector<std::string> values;
  std::uint64_t position = 0;
  std::vector<std::string> generation;
  const auto collect = [&] {
    for (const journal::Record& record : value_or_throw(journal::read_journal(generation))) {
      if (record.requests_void) continue;  // a retried run has emitted them again
      for (const journal::Request& request : record.entry.requests) {
        if (request.kind != journal::RequestKind::emit || request.name != stream) continue;
        if (position++ >= from) values.push_back(request.value);
      }
    }
    generation.clear();
  };
  for (store::StoredEntry& stored : entries(id)) {
    const auto entry = journal::decode(stored.bytes);
    generation.push_back(std::move(stored.bytes));
    if (entry && journal::ends_generation(*entry)) collect();
  }
  collect();
  return values;
}

detail::RunEnd WorkspaceClient::wait(const std::string& id, std::optional<Millis> limit) {
  refuse_inside_workflow();
  // Often it is over by now, and looking takes no turn of the loop. Not where waiting is refused: that must not depend on
  // how far the run has come.
  const auto run = driver_->is_loop_thread() ? std::nullopt : look_up(id);
  if (auto end = run ? engine::end_of(*run) : std::nullopt) return *std::move(end);
  return call<detail::RunEnd>(
      *driver_, {limit, true},
      [workspace = workspace_, id](Loop& loop, TimePoint, const auto& reply, const auto& caller) {
        loop.watch(workspace, id, reply, 0, caller);
      });
}

void WorkspaceClient::when_over(const std::string& id, std::function<void(detail::RunEnd)> then,
                                std::function<void(std::exception_ptr)> failed) {
  refuse_inside_workflow();
  const bool posted = driver_->post([workspace = workspace_, id, then = std::move(then), failed,
                                     &driver = *driver_](Loop& loop, TimePoint) {
    loop.watch(workspace, id,
               [then, failed, &driver](std::variant<detail::RunEnd, Refusal> answer) {
                 // Not from inside the loop: what is resumed may call it.
                 driver.post([then, failed, answer = std::move(answer)](Loop&, TimePoint) {
                   if (const auto* refusal = std::get_if<Refusal>(&answer)) {
                     try {
                       throw_refusal(*refusal);
                     } catch (...) {
                       failed(std::current_exception());
                     }
                   } else {
                     then(std::get<detail::RunEnd>(answer));
                   }
                 });
               });
  });
  if (!posted) failed(std::make_exception_ptr(Error("ENGINE_STOPPED", "the engine has stopped")));
}

void WorkspaceClient::cancel(const std::string& id, const CancelOptions& options) {
  if (options.grace && *options.grace < Millis{0})
    throw Error("VALIDATION_ERROR", "/grace: must not be negative");
  call<std::monostate>(
      *driver_, {},
      [workspace = workspace_, id, options](Loop& loop, TimePoint now, const auto& reply) {
        loop.cancel(workspace, id, options, reply, now);
      });
}

void WorkspaceClient::retry(const std::string& id, const RunOptions& options) {
  call<std::monostate>(
      *driver_, {},
      [workspace = workspace_, id, options](Loop& loop, TimePoint now, const auto& reply) {
        loop.retry(workspace, id, options, reply, now);
      });
}

std::string WorkspaceClient::fork(const std::string& id, std::uint64_t seq,
                                  const RunOptions& options) {
  return call<std::string>(
      *driver_, {},
      [workspace = workspace_, id, seq, options](Loop& loop, TimePoint now, const auto& reply) {
        loop.fork(workspace, id, seq, options, reply, now);
      });
}

int WorkspaceClient::wake(const std::string& id, const RunOptions& options) {
  return call<int>(
      *driver_, {},
      [workspace = workspace_, id, options](Loop& loop, TimePoint now, const auto& reply) {
        loop.wake(workspace, id, options, reply, now);
      });
}

}  // namespace semel::app
