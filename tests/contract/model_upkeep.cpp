// What is swept and what is looked for, as the specification has it.
#include "tests/contract/model_commands.hpp"

#include <algorithm>

namespace semel::store {

Answer ModelStore::answer(const FindReservation& command) {
  return ModelReservations{model_}.answer(command);
}

Answer ModelStore::answer(const Sweep& command) {
  Swept swept;
  std::int64_t left = command.limit;
  for (const RunKey key : passed(&Model::Run::keep_until, command.now)) {
    if (left == 0) break;
    remove(key);
    ++swept.runs;
    --left;
  }
  for (const RunKey key : passed(&Model::Run::key_until, command.now)) {
    if (left == 0) break;
    forget_key(key);
    ++swept.keys;
    --left;
  }
  swept.resume_ids = forget_receipts(command.now, left);
  left -= swept.resume_ids;
  swept.reservations = ModelReservations{model_}.sweep(command.now, left);
  left -= swept.reservations;
  while (left > 0 && !model_.garbage.empty()) {
    const auto oldest = model_.garbage.begin();
    const std::int64_t taken = std::min(left, oldest->second);
    swept.entries += taken;
    oldest->second -= taken;
    left -= taken;
    if (oldest->second == 0) model_.garbage.erase(oldest);
  }
  swept.more = left == 0;
  return swept;
}

std::int64_t ModelStore::forget_receipts(TimePoint now, std::int64_t limit) {
  std::vector<std::pair<TimePoint, decltype(model_.receipts)::key_type>> passed;
  for (const auto& [id, receipt] : model_.receipts) {
    if (receipt.until <= now) passed.emplace_back(receipt.until, id);
  }
  std::ranges::sort(passed);
  std::int64_t forgotten = 0;
  for (const auto& [until, id] : passed) {
    if (forgotten == limit) break;
    model_.receipts.erase(id);
    ++forgotten;
  }
  return forgotten;
}

std::vector<RunKey> ModelStore::passed(std::optional<TimePoint> Model::Run::* until,
                                       TimePoint now) {
  std::vector<std::pair<TimePoint, RunKey>> found;
  for (const auto& [key, each] : model_.runs) {
    if (has_passed(each.*until, now)) found.emplace_back(*(each.*until), key);
  }
  std::ranges::sort(found);
  std::vector<RunKey> keys;
  for (const auto& [time, key] : found) keys.push_back(key);
  return keys;
}

bool ModelStore::has_passed(const std::optional<TimePoint>& until, TimePoint now) {
  return until && *until <= now;
}

void ModelStore::forget_key(RunKey key) {
  run(key).holds_key = false;
  run(key).key_until.reset();
}

void ModelStore::remove(RunKey key) {
  model_.garbage[key] = std::ssize(run(key).entries);
  std::erase_if(model_.payloads, [&](const auto& payload) {
    return model_.hooks.at(payload.second.hook).run == key;
  });
  std::erase_if(model_.hooks, [&](const auto& hook) { return hook.second.run == key; });
  model_.runs.erase(key);
}

Answer ModelStore::answer(const LoadRun& command) {
  const auto found = model_.runs.find(command.run);
  if (found == model_.runs.end()) return RunMissing{};
  RunLoaded loaded{.run = record_of(found->second)};
  const auto start = model_.timers.find({command.run, TimerKind::start, ""});
  if (start != model_.timers.end()) loaded.starts_at = start->second;
  for (Seq seq = found->second.first_seq; seq < found->second.entries.size(); ++seq)
    loaded.entries.push_back(found->second.entries[seq].second);
  loaded.inbox = inbox(command.run);
  loaded.payloads = oldest_payloads(command.run);
  for (const auto& [operation, value] : model_.progress) {
    if (operation.first == command.run) loaded.progress.emplace_back(operation.second, value);
  }
  return loaded;
}

Answer ModelStore::answer(const ReadInbox& command) {
  return InboxRead{inbox(command.run), oldest_payloads(command.run)};
}

std::vector<InboxItem> ModelStore::inbox(RunKey key) {
  std::vector<InboxItem> items;
  for (const auto& [id, item] : model_.inbox) {
    if (item.run == key) items.push_back(item.item);
  }
  return items;
}

Answer ModelStore::answer(const FindEnded& command) {
  RunsFound found;
  for (const RunKey key : command.runs) {
    const auto at = model_.runs.find(key);
    if (at == model_.runs.end() || !can_advance(at->second)) found.runs.push_back(key);
  }
  return found;
}

Answer ModelStore::answer(const FindDue& command) {
  std::vector<std::tuple<TimePoint, RunKey, TimerKind, std::string>> all;
  for (const auto& [timer, due] : model_.timers) {
    const auto& [key, kind, op] = timer;
    if (can_advance(run(key))) all.emplace_back(due, key, kind, op);
  }
  std::ranges::sort(all);
  TimersDue found;
  for (const auto& [due, key, kind, op] : all) {
    if (due > command.now || std::ssize(found.timers) == command.limit) {
      found.next = due;
      break;
    }
    found.timers.push_back({.run = key, .kind = kind, .op = op, .due = due});
  }
  return found;
}

Answer ModelStore::answer(const FindWork& command) {
  RunsFound found;
  for (const auto& [key, each] : model_.runs) {
    if (key <= command.after || !can_advance(each)) continue;
    if (std::ssize(found.runs) == command.limit) break;
    if (each.status == Status::running || !inbox(key).empty() || has_payload(key))
      found.runs.push_back(key);
  }
  return found;
}

Answer ModelStore::answer(const FindRun& command) {
  const auto key = find(command.workspace, command.id);
  if (!key) return RunMissing{};
  return RunLoaded{.run = record_of(run(*key))};
}

std::optional<RunKey> ModelStore::find(const std::string& workspace, const std::string& id) {
  for (const auto& [key, each] : model_.runs) {
    if (each.made.workspace == workspace && each.made.id == id) return key;
  }
  return std::nullopt;
}

std::optional<RunKey> ModelStore::find_key(const std::string& workspace,
                                           const std::string& idempotency_key) {
  for (const auto& [key, each] : model_.runs) {
    if (each.holds_key && each.made.workspace == workspace &&
        each.made.idempotency_key == idempotency_key)
      return key;
  }
  return std::nullopt;
}

}  // namespace semel::store
