// Hooks and payloads, as the specification has them.
#include "store/outcome.hpp"
#include "store/start_text.hpp"
#include "tests/contract/model_commands.hpp"

#include <algorithm>

namespace semel::store {

std::optional<std::int64_t> ModelStore::find_hook(const std::string& workspace,
                                                  const std::string& token) {
  for (const auto& [id, hook] : model_.hooks) {
    if (hook.active && hook.claim.token == token && run(hook.run).made.workspace == workspace)
      return id;
  }
  return std::nullopt;
}

std::optional<std::int64_t> ModelStore::find_hook_of(RunKey key, const std::string& op) {
  for (const auto& [id, hook] : model_.hooks) {
    if (hook.active && hook.run == key && hook.claim.op == op) return id;
  }
  return std::nullopt;
}

std::optional<std::int64_t> ModelStore::oldest_payload(std::int64_t hook) {
  for (const auto& [id, payload] : model_.payloads) {
    if (payload.hook == hook) return id;
  }
  return std::nullopt;
}

bool ModelStore::has_payload(RunKey key) {
  return std::ranges::any_of(model_.payloads, [&](const auto& payload) {
    return model_.hooks.at(payload.second.hook).run == key;
  });
}

PayloadItem ModelStore::item_of(std::int64_t id) {
  const Model::Payload& payload = model_.payloads.at(id);
  return {.id = id,
          .hook = model_.hooks.at(payload.hook).claim.op,
          .value = payload.value,
          .checked = payload.checked};
}

std::vector<PayloadItem> ModelStore::oldest_payloads(RunKey key) {
  std::vector<PayloadItem> found;
  for (const auto& [id, hook] : model_.hooks) {
    const auto payload = hook.active && hook.run == key ? oldest_payload(id) : std::nullopt;
    if (payload) found.push_back(item_of(*payload));
  }
  std::ranges::sort(found, {}, &PayloadItem::id);
  return found;
}

void ModelStore::consume_payload(RunKey key, std::int64_t id) {
  const auto payload = model_.payloads.find(id);
  if (payload == model_.payloads.end()) return;
  Model::Hook& hook = model_.hooks.at(payload->second.hook);
  if (hook.run != key) return;
  hook.fed = false;
  model_.payloads.erase(payload);
}

std::vector<std::int64_t> ModelStore::change_hooks(RunKey key, const Changes& changes,
                                                   TimePoint now, Effects& effects) {
  std::map<std::string, std::pair<std::string, std::string>> conflicts;
  std::vector<std::int64_t> released;
  for (const HookChange& change : changes.hooks) {
    if (changes.continue_as_new && change.kind != HookChange::Kind::release) continue;
    const auto answer = [&](const std::string& entry) { decide(key, entry, true, now, effects); };
    if (change.kind == HookChange::Kind::open) {
      if (const auto owner = open_hook(key, change.claim, now)) {
        conflicts[change.op] = {change.claim.token, *owner};
        answer(conflict_outcome(change.op, change.claim.token, *owner));
      } else if (change.awaited) {
        answer(hook_outcome(change.op));
      }
      continue;
    }
    const bool is_release = change.kind == HookChange::Kind::release;
    const auto conflict = conflicts.find(change.hook);
    if (conflict != conflicts.end() && !is_release) {
      const bool is_asked =
          change.kind == HookChange::Kind::try_next || change.kind == HookChange::Kind::close;
      if (is_asked)
        answer(conflict_outcome(change.op, conflict->second.first, conflict->second.second));
      continue;
    }
    const auto hook = find_hook_of(key, change.hook);
    const auto payload = hook ? oldest_payload(*hook) : std::nullopt;
    if (change.kind == HookChange::Kind::close) {
      if (hook && !payload) model_.hooks.erase(*hook);
      answer(close_outcome(change.op, !payload));
    } else if (change.kind == HookChange::Kind::release) {
      if (!hook) continue;
      model_.hooks.at(*hook).active = false;
      if (payload) released.push_back(*hook);
    } else if (payload) {
      const PayloadItem item = item_of(*payload);
      const auto misfit = item.checked
                              ? std::nullopt
                              : shapes_.check(model_.hooks.at(*hook).claim.shape, item.value);
      consume_payload(key, *payload);
      answer(payload_outcome(change.op, item, misfit));
    } else if (change.kind == HookChange::Kind::try_next) {
      answer(payload_outcome(change.op, std::nullopt, std::nullopt));
    }
  }
  return released;
}

std::optional<std::string> ModelStore::open_hook(RunKey key, const HookClaim& claim,
                                                 TimePoint now) {
  const auto holder = find_hook(run(key).made.workspace, claim.token);
  if (!holder) {
    model_.hooks[model_.next_hook++] = {.run = key, .claim = claim, .since = now};
    return std::nullopt;
  }
  Model::Hook& hook = model_.hooks.at(*holder);
  if (hook.run == key && hook.claim.op == claim.op && !claim.op.empty()) return std::nullopt;
  if (hook.run != key || !hook.claim.op.empty()) return run(hook.run).made.id;
  if (hook.claim.shape != claim.shape) {
    for (auto& [id, payload] : model_.payloads) {
      if (payload.hook == *holder) payload.checked = false;
    }
  }
  hook.claim = claim;
  return std::nullopt;
}

void ModelStore::continue_as_new(RunKey key, const std::string& input) {
  Model::Run& again = run(key);
  again.status = Status::running;
  again.input = input;
  ++again.generation;
  again.first_seq = again.entries.size();
  std::erase_if(model_.timers, [&](const auto& timer) {
    const auto& [of, kind, op] = timer.first;
    return of == key && (kind == TimerKind::sleep || kind == TimerKind::retry);
  });
  std::erase_if(model_.inbox, [&](const auto& item) {
    return item.second.run == key && item.second.item.kind == InboxItem::Kind::result;
  });
  std::erase_if(model_.waits, [&](const auto& wait) { return wait.first.first == key; });
  std::erase_if(model_.progress, [&](const auto& progress) { return progress.first.first == key; });
  for (auto& [id, hook] : model_.hooks) {
    if (hook.run == key && hook.active) hook.claim.op.clear();
  }
}

void ModelStore::release_at_end(RunKey key, TimePoint now, Effects& effects) {
  std::vector<std::int64_t> released;
  for (auto& [id, hook] : model_.hooks) {
    if (hook.run != key || !hook.active) continue;
    hook.active = false;
    hook.at_end = run(key).status == Status::failed;
    released.push_back(id);
  }
  if (run(key).status == Status::cancelled) return;
  for (const std::int64_t hook : released) pass_on(hook, now, effects);
}

void ModelStore::pass_on(std::int64_t gone_id, TimePoint now, Effects& effects) {
  const Model::Hook gone = model_.hooks.at(gone_id);
  std::vector<std::int64_t> left;
  std::optional<std::int64_t> starter;
  for (const auto& [id, payload] : model_.payloads) {
    if (payload.hook != gone_id || !payload.or_start) continue;
    left.push_back(id);
    if (payload.start && !starter) starter = id;
  }
  const std::string workspace = run(gone.run).made.workspace;
  auto taken = find_hook(workspace, gone.claim.token);
  if (taken) {
    model_.hooks.at(*taken).fed |= gone.fed;
    effects.wake.push_back(model_.hooks.at(*taken).run);
  } else {
    if (gone.fed || !starter) return;
    NewRun made = started_later(*model_.payloads.at(*starter).start, now);
    const Status status = made.start_at ? Status::pending : Status::running;
    const Claim claim = create(made, status, std::nullopt, effects);
    if (claim.refused || claim.handed_back) return;
    if (status == Status::running) effects.created.push_back(made.key);
    taken = find_hook(workspace, gone.claim.token);
    model_.hooks.at(*taken).fed = true;
    model_.payloads.at(*starter).start.reset();
  }
  const bool same_shape = model_.hooks.at(*taken).claim.shape == gone.claim.shape;
  for (const std::int64_t id : left) {
    model_.payloads.at(id).hook = *taken;
    model_.payloads.at(id).checked &= same_shape;
  }
}

std::optional<Answer> ModelStore::repeated(const Deliver& deliver) {
  if (!deliver.resume_id) return std::nullopt;
  const auto found = model_.receipts.find({deliver.workspace, deliver.token, *deliver.resume_id});
  if (found == model_.receipts.end() || found->second.until <= deliver.now) return std::nullopt;
  if (found->second.fingerprint != deliver.fingerprint)
    return ResumeIdReused{found->second.answer.run_id};
  return found->second.answer;
}

void ModelStore::put(std::int64_t hook_id, const Deliver& deliver, bool or_start,
                     std::optional<NewRun> start) {
  const Model::Hook& hook = model_.hooks.at(hook_id);
  model_.payloads[model_.next_payload++] = {.hook = hook_id,
                                            .value = deliver.payload,
                                            .at = deliver.now,
                                            .checked = !hook.claim.shape.empty(),
                                            .or_start = or_start,
                                            .start = std::move(start)};
}

Delivered ModelStore::receipt(std::int64_t hook_id, const Deliver& deliver, bool started) {
  Delivered answer{.run_id = run(model_.hooks.at(hook_id).run).made.id,
                   .hook_id = std::to_string(hook_id),
                   .started = started};
  if (deliver.resume_id) {
    model_.receipts[{deliver.workspace, deliver.token, *deliver.resume_id}] = {
        deliver.fingerprint, answer, deliver.now + resume_id_kept};
  }
  return answer;
}

Answer ModelStore::deliver_to(std::int64_t hook_id, const Deliver& deliver,
                              std::optional<NewRun> start) {
  const Model::Hook& hook = model_.hooks.at(hook_id);
  const auto version = record_of(run(hook.run)).version;
  if (deliver.expected_version && *deliver.expected_version != version.value_or(0))
    return VersionMoved{version};
  if (const auto misfit = shapes_.check(hook.claim.shape, deliver.payload))
    return PayloadRefused{misfit->path, misfit->message};
  Delivered answer = receipt(hook_id, deliver, false);
  answer.read = read_at_once(hook_id, deliver, answer.effects);
  if (answer.read) return answer;
  put(hook_id, deliver, start.has_value(), std::move(start));
  answer.effects.wake.push_back(hook.run);
  return answer;
}

bool ModelStore::read_at_once(std::int64_t hook_id, const Deliver& deliver, Effects& effects) {
  const Model::Hook& hook = model_.hooks.at(hook_id);
  const bool others_wait = std::ranges::any_of(
      model_.payloads, [&](const auto& each) { return each.second.hook == hook_id; });
  if (!deliver.reading || deliver.reading->step.run != hook.run ||
      deliver.reading->hook != hook.claim.op || hook.fed || others_wait) {
    return false;
  }
  Answer advanced = answer(deliver.reading->step);
  if (std::holds_alternative<Stale>(advanced)) return false;
  effects = std::get<Advanced>(std::move(advanced)).effects;
  return true;
}

Answer ModelStore::answer(const Deliver& command) {
  if (const auto before = repeated(command)) return *before;
  const auto hook = find_hook(command.workspace, command.token);
  if (!hook) return HookMissing{};
  return deliver_to(*hook, command, std::nullopt);
}

Answer ModelStore::answer(const ResumeOrStart& command) {
  if (const auto before = repeated(command.deliver)) return *before;
  if (const auto hook = find_hook(command.deliver.workspace, command.deliver.token))
    return deliver_to(*hook, command.deliver, command.run);
  if (const auto misfit = shapes_.check(command.run.hooks.front().shape, command.deliver.payload)) {
    return PayloadRefused{misfit->path, misfit->message};
  }
  Effects effects;
  const Status status = command.run.start_at ? Status::pending : Status::running;
  const Claim claim = create(command.run, status, std::nullopt, effects);
  if (claim.refused) return *claim.refused;
  if (claim.handed_back) {
    const Model::Run& holder = run(*claim.handed_back);
    return StartRefused{
        is_end(holder.status) ? StartRefused::Why::run_finished : StartRefused::Why::run_active,
        holder.made.id};
  }
  const auto hook = find_hook(command.deliver.workspace, command.deliver.token);
  model_.hooks.at(*hook).fed = true;
  put(*hook, command.deliver, true, std::nullopt);
  Delivered answer = receipt(*hook, command.deliver, true);
  answer.effects = std::move(effects);
  if (status == Status::running) answer.effects.created.push_back(command.run.key);
  return answer;
}

}  // namespace semel::store
