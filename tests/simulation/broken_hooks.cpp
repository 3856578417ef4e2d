#include "tests/simulation/broken_hooks.hpp"

#include <algorithm>

namespace semel::sim {

using store::AdvanceRun;
using store::Answer;
using store::Command;
using store::HookChange;

namespace {

/// The tokens a command takes for its run.
std::vector<std::string> claims_of(const Command& command) {
  std::vector<std::string> tokens;
  const store::Changes* changes = nullptr;
  if (const auto* advance = std::get_if<AdvanceRun>(&command)) changes = &advance->changes;
  if (const auto* start = std::get_if<store::StartRun>(&command)) changes = &start->changes;
  if (changes == nullptr) return tokens;
  for (const HookChange& hook : changes->hooks) {
    if (hook.kind == HookChange::Kind::open) tokens.push_back(hook.claim.token);
  }
  return tokens;
}

}  // namespace

Answers LooksTokensUp::execute(std::span<const Command> batch) {
  store::sqlite::Statement owner{database(),
                                 "SELECT 1 FROM semel_hook WHERE token = ?1 AND active = 1"};
  const bool looks_free = std::ranges::any_of(batch, [&](const Command& command) {
    const auto tokens = claims_of(command);
    return !tokens.empty() &&
           std::ranges::none_of(tokens, [&](const std::string& token) { return owner.any(token); });
  });
  if (!looks_free) return inner().execute(batch);
  sql("DROP INDEX IF EXISTS semel_hook_token");
  auto answers = inner().execute(batch);
  try {
    sql("CREATE UNIQUE INDEX semel_hook_token ON semel_hook (workspace, token) WHERE active = 1");
  } catch (const store::sqlite::Failed&) {
    // The token has two owners by now, which is what we are here for.
  }
  return answers;
}

Answers AcknowledgesPayloadsEarly::execute(std::span<const Command> batch) {
  sql("CREATE TEMP TABLE IF NOT EXISTS held_back AS SELECT * FROM semel_payload WHERE 0");
  if (holds_some_back_) {
    sql("INSERT OR IGNORE INTO semel_payload SELECT * FROM temp.held_back");
    sql("DELETE FROM temp.held_back");
  }
  auto answers = inner().execute(batch);
  holds_some_back_ = true;
  for (const Command& command : batch) {
    const auto* deliver = std::get_if<store::Deliver>(&command);
    if (deliver == nullptr) continue;
    sql("INSERT INTO temp.held_back SELECT * FROM semel_payload WHERE value = ?1",
        deliver->payload);
    sql("DELETE FROM semel_payload WHERE value = ?1", deliver->payload);
  }
  return answers;
}

Answers FreesTokensLater::execute(std::span<const Command> batch) {
  sql("CREATE TEMP TABLE IF NOT EXISTS had AS SELECT * FROM semel_hook WHERE 0");
  sql("UPDATE semel_hook SET active = NULL WHERE active = 1 AND run IN"
      " (SELECT run FROM semel_run WHERE status IN (3, 4, 5))");
  sql("DELETE FROM temp.had");
  sql("INSERT INTO temp.had SELECT * FROM semel_hook WHERE active = 1");
  auto answers = inner().execute(batch);
  sql("INSERT OR REPLACE INTO semel_hook SELECT * FROM temp.had h WHERE run IN"
      " (SELECT run FROM semel_run WHERE status IN (3, 4, 5)) AND NOT EXISTS"
      " (SELECT 1 FROM semel_hook o WHERE o.token = h.token AND o.workspace = h.workspace"
      " AND o.active = 1)");
  return answers;
}

void DeliversToTheDead::repair(std::span<const Command> batch, std::vector<Answer>& answers) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto* advance = std::get_if<AdvanceRun>(&batch[i]);
    if (advance == nullptr || !std::holds_alternative<store::Advanced>(answers[i])) continue;
    for (const std::string& bytes : advance->entries) {
      const auto entry = journal::decode(bytes);
      if (!entry || entry->arrival.kind != journal::ArrivalKind::timer_fired) continue;
      sql("DELETE FROM semel_payload WHERE payload ="
          " (SELECT min(payload) FROM semel_payload WHERE run = ?1)",
          advance->run);
    }
  }
}

void KeepsWhatWasRead::repair(std::span<const Command> batch, std::vector<Answer>& answers) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto* deliver = std::get_if<store::Deliver>(&batch[i]);
    const auto* delivered = std::get_if<store::Delivered>(&answers[i]);
    if (deliver == nullptr || delivered == nullptr || !delivered->read) continue;
    sql("INSERT INTO semel_payload (hook, run, checked, at, value)"
        " SELECT hook, run, 1, since, ?2 FROM semel_hook WHERE hook = ?1",
        delivered->hook_id, deliver->payload);
  }
}

void ConflictsWithItself::change(Commands& batch) {
  for (const Command& command : batch) {
    const auto* advance = std::get_if<AdvanceRun>(&command);
    if (advance == nullptr) continue;
    for (const std::string& token : claims_of(command)) {
      sql("UPDATE semel_hook SET op = '?' WHERE run = ?1 AND token = ?2 AND op = '' AND active = 1",
          advance->run, token);
    }
  }
}

}  // namespace semel::sim
