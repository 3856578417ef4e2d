// Payloads: taken in for whoever has the token, handed to whoever awaits them.
#include "engine/loop.hpp"
#include "idempotency/fingerprint.hpp"
#include "store/outcome.hpp"

#include <algorithm>

namespace semel::engine {

using journal::Arrival;
using journal::ArrivalKind;
using journal::OpenHook;
using journal::Operation;
using journal::Request;
using journal::RequestKind;
using store::Answer;
using store::HookChange;

namespace {

store::HookClaim claim_of(const Request& request) {
  return {.op = request.op,
          .token = request.name,
          .shape = request.value,
          .webhook = (request.attempt & journal::hook_webhook) != 0};
}

/// Two may meet in one place; then one of them is found there, which is as good as none.
std::uint64_t listening_place(std::string_view workspace, std::string_view token) {
  constexpr std::uint64_t spread = 0x9E3779B97F4A7C15;
  constexpr std::hash<std::string_view> hash;
  return (hash(workspace) * spread) ^ hash(token);
}

}  // namespace

Refusal delivery_refusal(const std::string& token, const Answer& answer) {
  if (const auto* refused = std::get_if<store::PayloadRefused>(&answer)) {
    return {"VALIDATION_ERROR", refused->message, "", refused->path};
  }
  if (const auto* reused = std::get_if<store::ResumeIdReused>(&answer)) {
    return {"IDEMPOTENCY_CONFLICT",
            "this resume id was used for \"" + token + "\" with another payload", reused->run_id};
  }
  if (std::holds_alternative<store::VersionMoved>(answer))
    return {"CONCURRENCY_ERROR", "the run that has \"" + token + "\" has moved on", ""};
  if (const auto* refused = std::get_if<store::StartRefused>(&answer)) return refusal_of(*refused);
  return {"HOOK_NOT_FOUND", "nobody has the token \"" + token + "\"", ""};
}

std::vector<store::HookClaim> claims_of(const journal::RunState& state) {
  std::vector<store::HookClaim> claims;
  claims.reserve(state.hooks.size());
  for (const OpenHook& hook : state.hooks) {
    claims.push_back(
        {.op = hook.op, .token = hook.token, .shape = hook.shape, .webhook = hook.is_webhook});
  }
  return claims;
}

/// What `entry`, which `state` has in it already, asks of the store about hooks.
std::vector<HookChange> hook_changes(const journal::Entry& entry, const journal::RunState& state) {
  std::vector<HookChange> changes;
  for (const Request& request : entry.requests) {
    switch (request.kind) {
      case RequestKind::hook:
        changes.push_back({.kind = HookChange::Kind::open,
                           .op = request.op,
                           .claim = claim_of(request),
                           .awaited = (request.attempt & journal::hook_implied) == 0});
        break;
      case RequestKind::hook_next: {
        // Only the first in line looks for a payload that waits; it is not in line any more where it lost a race at once.
        const Operation* first = state.awaiter(request.name);
        if (first != nullptr && first->op == request.op) {
          changes.push_back(
              {.kind = HookChange::Kind::next, .op = request.op, .hook = request.name});
        }
        break;
      }
      case RequestKind::hook_try:
        // Given up at once: what it took would be nobody's.
        if (state.find(request.op) == nullptr) break;
        changes.push_back(
            {.kind = HookChange::Kind::try_next, .op = request.op, .hook = request.name});
        break;
      case RequestKind::hook_close:
        if (state.find(request.op) == nullptr) break;
        changes.push_back(
            {.kind = HookChange::Kind::close, .op = request.op, .hook = request.name});
        break;
      case RequestKind::hook_release:
        changes.push_back({.kind = HookChange::Kind::release, .hook = request.op});
        break;
      default:
        break;
    }
  }
  return changes;
}

/// True where the run cannot go on before the store has answered.
bool asks_store(const store::Changes& changes) {
  return !changes.children.empty() || !changes.waits.empty() ||
         std::ranges::any_of(changes.hooks, [](const HookChange& change) {
           return change.kind != HookChange::Kind::release;
         });
}

void Loop::deliver(store::Deliver deliver, const Reply<DeliverReply>& reply, TimePoint now) {
  now_ = now;
  deliver.now = now_;
  const std::string token = deliver.token;
  auto ahead = run_ahead(deliver);
  submit(
      std::move(deliver),
      [this, token, reply, ahead = std::move(ahead)](Answer& answer) {
        delivered(token, answer, reply, ahead);
      },
      [reply](const base::Fault& fault) {
        reply(Refusal{"STORE_UNAVAILABLE", fault.message, ""});
      });
}

void Loop::resume_or_start(store::Deliver deliver, StartInput input,
                           const Reply<DeliverReply>& reply, TimePoint now) {
  now_ = now;
  if (registry_.find(input.workflow) == nullptr) {
    reply(Refusal{"WORKFLOW_NOT_FOUND",
                  "no workflow named \"" + input.workflow + "\" is registered", ""});
    return;
  }
  if (!opened_ && !lost_) {
    before_open_.emplace_back([this, deliver = std::move(deliver), input = std::move(input),
                               reply] { resume_or_start(deliver, input, reply, now_); });
    return;
  }
  if (lost_) {
    reply(Refusal{"STORE_UNAVAILABLE", "the store is not available", ""});
    return;
  }
  deliver.now = now_;
  const std::string token = deliver.token;
  auto ahead = run_ahead(deliver);
  input.options.token = token;
  store::ResumeOrStart command{std::move(deliver), new_run(std::move(input))};
  if (command.run.start_at) note_timer(*command.run.start_at);
  if (command.run.deadline) note_timer(*command.run.deadline);
  submit(
      std::move(command),
      [this, token, reply, ahead = std::move(ahead)](Answer& answer) {
        delivered(token, answer, reply, ahead);
      },
      [reply](const base::Fault& fault) {
        reply(Refusal{"STORE_UNAVAILABLE", fault.message, ""});
      });
}

/// A run at rest that awaits the payload goes on with it at once, as the first segment of a start does: its code has no
/// effects, and taking the payload in and reading it are one commit. Where the store finds that it was wrong to, the run
/// is read anew.
std::optional<Loop::Ahead> Loop::run_ahead(store::Deliver& deliver) {
  if (stopping_ || lost_) return std::nullopt;
  const auto listener = listeners_.find(listening_place(deliver.workspace, deliver.token));
  const RunPtr run = listener == listeners_.end() ? nullptr : live(listener->second);
  if (!run || !run->is_idle || run->workspace != deliver.workspace) return std::nullopt;
  if (is_full(*run)) return std::nullopt;  // it would end, and with it what it has not read
  const auto hook = std::ranges::find(run->state.hooks, deliver.token, &OpenHook::token);
  const Operation* awaiter =
      hook == run->state.hooks.end() ? nullptr : run->state.awaiter(hook->op);
  if (awaiter == nullptr || shapes_.check(hook->shape, deliver.payload)) return std::nullopt;

  Arrival arrival;
  arrival.kind = ArrivalKind::payload_arrived;
  arrival.op = awaiter->op;
  arrival.name = deliver.token;
  arrival.value = deliver.payload;
  std::string op = hook->op;
  auto entry = go_on_with(run, std::move(arrival));
  if (!entry) return std::nullopt;
  auto step = prepare(run, *entry);
  deliver.reading = store::Deliver::Reading{std::move(op), std::move(step)};
  return Ahead{run, *std::move(entry)};
}

void Loop::delivered(const std::string& token, Answer& answer, const Reply<DeliverReply>& reply,
                     const std::optional<Ahead>& ahead) {
  auto* done = std::get_if<store::Delivered>(&answer);
  if (ahead) {
    --ahead->run->uncommitted;
    if (done == nullptr || !done->read) read_anew(ahead->run);
  }
  if (done == nullptr) {
    reply(delivery_refusal(token, answer));
    return;
  }
  reply(DeliverReply{done->run_id, done->hook_id, done->started});
  if (done->read) {
    after_commit(ahead->run, ahead->entry, done->effects);
  } else {
    run_effects(done->effects);
  }
}

void Loop::listen(LiveRun& run) {
  if (run.state.hooks.empty() && !run.listens) return;
  std::vector<std::uint64_t> places;
  for (const OpenHook& hook : run.state.hooks) {
    if (run.state.awaiter(hook.op) != nullptr)
      places.push_back(listening_place(run.workspace, hook.token));
  }
  if (run.listens && *run.listens == places) return;
  stop_listening(run);
  if (places.empty()) return;
  for (const std::uint64_t place : places) listeners_[place] = run.key;
  run.listens = std::move(places);
}

void Loop::stop_listening(LiveRun& run) {
  if (!run.listens) return;
  for (const std::uint64_t place : *run.listens) {
    const auto found = listeners_.find(place);
    if (found != listeners_.end() && found->second == run.key) listeners_.erase(found);
  }
  run.listens.reset();
}

/// Each to the oldest await of its hook; where nobody awaits it stays where it is, and whoever asks next finds it there.
void Loop::take_payloads(const RunPtr& run, const std::vector<store::PayloadItem>& items) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (run->dropped || run->state.is_over()) return;
    if (run->blocked) {
      const std::vector<store::PayloadItem> rest(items.begin() + static_cast<std::ptrdiff_t>(i),
                                                 items.end());
      when_ready(run, [this, run, rest] { take_payloads(run, rest); });
      return;
    }
    const store::PayloadItem& item = items[i];
    const OpenHook* hook = run->state.find_hook(item.hook);
    const Operation* awaiter = run->state.awaiter(item.hook);
    // It may have been taken since it was read.
    if (hook == nullptr || awaiter == nullptr || static_cast<journal::Seq>(item.id) <= hook->taken)
      continue;
    Arrival arrival;
    arrival.kind = ArrivalKind::payload_arrived;
    arrival.op = awaiter->op;
    arrival.name = hook->token;
    store::take_payload(arrival, item,
                        item.checked ? std::nullopt : shapes_.check(hook->shape, item.value));
    const auto in_line = std::ranges::count_if(run->state.pending, [&](const Operation& operation) {
      return operation.kind == RequestKind::hook_next && operation.name == item.hook;
    });
    transition(run, std::move(arrival), {.payloads = {item.id}});
    // Only the oldest payload was read; the next in line may be waiting for another one.
    if (in_line > 1) read_inbox(run->key);
  }
}

}  // namespace semel::engine
