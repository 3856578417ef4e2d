#include "tests/simulation/broken_stores.hpp"

#include "base/assert.hpp"

#include <algorithm>
#include <functional>

namespace semel::sim {

using journal::ArrivalKind;
using store::AdvanceRun;
using store::Answer;
using store::Command;

namespace {

void copy(sqlite3* to, sqlite3* from) {
  sqlite3_backup* backup = sqlite3_backup_init(to, "main", from, "main");
  SEMEL_ASSERT(backup != nullptr);
  const int result = sqlite3_backup_step(backup, -1);
  SEMEL_ASSERT(result == SQLITE_DONE);
  sqlite3_backup_finish(backup);
}

/// The changes a command makes beside its entries; null: it makes none.
store::Changes* changes_of(Command& command) {
  if (auto* advance = std::get_if<AdvanceRun>(&command)) return &advance->changes;
  if (auto* start = std::get_if<store::StartRun>(&command)) return &start->changes;
  return nullptr;
}

/// Lets `change` have every entry that is appended to a run.
template <class Change>
void change_entries(Commands& batch, Change change) {
  for (Command& command : batch) {
    auto* advance = std::get_if<AdvanceRun>(&command);
    if (advance == nullptr) continue;
    for (std::string& bytes : advance->entries) {
      auto entry = journal::decode(bytes);
      change(entry->arrival);
      bytes = journal::encode(*entry);
    }
  }
}

/// Lets `change` have the entries of every run that was read to be driven, not to be tried again.
template <class Change>
void for_each_loaded(std::vector<Answer>& answers, Change change) {
  for (Answer& answer : answers) {
    auto* loaded = std::get_if<store::RunLoaded>(&answer);
    if (loaded != nullptr && loaded->run.status <= store::Status::waiting) change(loaded->entries);
  }
}

}  // namespace

// ------------------------------------------------------------------------------------------------ tools

Snapshot::Snapshot() { sqlite3_open_v2(":memory:", &copy_, SQLITE_OPEN_READWRITE, nullptr); }

Snapshot::~Snapshot() { sqlite3_close(copy_); }

void Snapshot::take(store::sqlite::Database& database) {
  copy(copy_, database.handle());
  taken_ = true;
}

void Snapshot::restore(store::sqlite::Database& database) {
  if (taken_) copy(database.handle(), copy_);
}

Answers BrokenStore::execute(std::span<const Command> batch) {
  Commands changed(batch.begin(), batch.end());
  change(changed);
  auto answers = inner_->execute(changed);
  if (answers) repair(batch, *answers);
  return answers;
}

// ------------------------------------------------------------------------------------------------ time and order

AcknowledgesEarly::AcknowledgesEarly(std::unique_ptr<store::Store> inner,
                                     std::shared_ptr<store::sqlite::Database> database)
    : BrokenStore(std::move(inner), std::move(database)) {
  // The store remembers the numbers of workspaces: they must not go away with a batch.
  sql("INSERT OR IGNORE INTO semel_workspace (name) VALUES ('default'), ('other')");
}

Answers AcknowledgesEarly::execute(std::span<const Command> batch) {
  if (!later_.empty()) static_cast<void>(inner().execute(std::exchange(later_, {})));
  before_.take(database());
  auto answers = inner().execute(batch);
  before_.restore(database());
  later_.assign(batch.begin(), batch.end());
  return answers;
}

Answers SetsTimersLater::execute(std::span<const Command> batch) {
  for (const store::Timer& timer : std::exchange(later_, {})) {
    sql("INSERT OR REPLACE INTO semel_timer (due, run, kind, op) VALUES (?1, ?2, ?3, ?4)",
        timer.due, timer.run, timer.kind, timer.op);
  }
  Commands changed(batch.begin(), batch.end());
  std::vector<std::vector<store::Timer>> taken;
  for (Command& command : changed) {
    store::Changes* changes = changes_of(command);
    taken.push_back(changes == nullptr ? std::vector<store::Timer>{}
                                       : std::exchange(changes->timers_set, {}));
  }
  auto answers = inner().execute(changed);
  if (!answers) return answers;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Answer& answer = (*answers)[i];
    const bool is_done = std::holds_alternative<store::Advanced>(answer) ||
                         std::holds_alternative<store::RunStarted>(answer);
    if (is_done) later_.insert(later_.end(), taken[i].begin(), taken[i].end());
  }
  return answers;
}

void FillsInboxesLater::change(Commands&) {
  sql("CREATE TEMP TABLE IF NOT EXISTS late_inbox AS SELECT * FROM semel_inbox WHERE 0");
  sql("INSERT INTO semel_inbox SELECT * FROM temp.late_inbox");
  sql("DELETE FROM temp.late_inbox");
}

void FillsInboxesLater::repair(std::span<const Command>, std::vector<Answer>&) {
  sql("INSERT INTO temp.late_inbox SELECT * FROM semel_inbox");
  sql("DELETE FROM semel_inbox");
}

Answers SendsEntriesTwice::execute(std::span<const Command> batch) {
  Commands doubled;
  for (const Command& command : batch) {
    doubled.push_back(command);
    const auto* advance = std::get_if<AdvanceRun>(&command);
    if (advance == nullptr || advance->changes.end) continue;
    AdvanceRun again = *advance;
    again.changes = {};
    doubled.emplace_back(std::move(again));
  }
  auto answers = inner().execute(doubled);
  if (!answers) return answers;
  std::vector<Answer> first;
  auto answer = answers->begin();
  for (const Command& command : batch) {
    first.push_back(std::move(*answer++));
    const auto* advance = std::get_if<AdvanceRun>(&command);
    if (advance != nullptr && !advance->changes.end) ++answer;
  }
  return first;
}

void CallsTimersEarly::change(Commands& batch) {
  for (Command& command : batch) {
    if (auto* find = std::get_if<store::FindDue>(&command)) find->now += std::chrono::seconds{30};
  }
}

// ------------------------------------------------------------------------------------------------ things lost

void LosesTimers::change(Commands& batch) {
  for (Command& command : batch) {
    store::Changes* changes = changes_of(command);
    if (changes != nullptr && !changes->timers_set.empty() && random.one_in(20))
      changes->timers_set.pop_back();
  }
}

void ForgetsWaiters::repair(std::span<const Command>, std::vector<Answer>&) {
  if (random.one_in(20))
    sql("DELETE FROM semel_waiter WHERE op = (SELECT min(op) FROM semel_waiter)");
}

void OverlooksRuns::repair(std::span<const Command>, std::vector<Answer>& answers) {
  for (Answer& answer : answers) {
    auto* found = std::get_if<store::RunsFound>(&answer);
    if (found != nullptr && !found->runs.empty()) found->runs.pop_back();
  }
}

void ForgetsLastResult::repair(std::span<const Command>, std::vector<Answer>& answers) {
  for_each_loaded(answers, [](std::vector<std::string>& entries) {
    if (entries.empty()) return;
    const auto last = journal::decode(entries.back());
    if (last->arrival.kind == ArrivalKind::step_completed)
      entries.back() = journal::encode(journal::Entry{});
  });
}

void RoundsSleepsDown::repair(std::span<const Command>, std::vector<Answer>& answers) {
  for_each_loaded(answers, [](std::vector<std::string>& entries) {
    for (std::string& bytes : entries) {
      auto entry = journal::decode(bytes);
      for (journal::Request& request : entry->requests) {
        if (request.kind == journal::RequestKind::sleep)
          request.at = std::chrono::floor<std::chrono::seconds>(request.at);
      }
      bytes = journal::encode(*entry);
    }
  });
}

/// The timers themselves are right, and cleared as they are.
void RoundsSleepsDown::change(Commands& batch) {
  store::sqlite::Statement find{
      database(), "SELECT due FROM semel_timer WHERE run = ?1 AND kind = ?2 AND op = ?3"};
  for (Command& command : batch) {
    store::Changes* changes = changes_of(command);
    if (changes == nullptr) continue;
    for (store::Timer& timer : changes->timers_cleared) {
      auto found = find.select(timer.run, timer.kind, timer.op);
      if (found.next()) timer.due = found.time(0);
    }
  }
}

void RewindsAttempts::change(Commands& batch) {
  change_entries(batch, [](journal::Arrival& arrival) {
    if (arrival.kind == ArrivalKind::retry_due) --arrival.attempt;
  });
}

void ForgetsLostAttempts::change(Commands& batch) {
  change_entries(batch, [](journal::Arrival& arrival) {
    if (arrival.kind == ArrivalKind::recovered) arrival.ops.clear();
  });
}

// ------------------------------------------------------------------------------------------------ guards gone

void TrustsStaleOwners::change(Commands& commands) {
  for (Command& command : commands) {
    auto* complete = std::get_if<store::Complete>(&command);
    if (complete == nullptr) continue;
    store::sqlite::Statement holder{
        database(),
        "SELECT fence FROM semel_reservation JOIN semel_workspace USING (workspace)"
        " WHERE name = ?1 AND key = ?2"};
    store::sqlite::Rows rows = holder.select(complete->id.workspace, complete->id.key);
    if (rows.next()) complete->fence = rows.integer(0);
  }
}

void IgnoresClaims::change(Commands& commands) {
  for (Command& command : commands) {
    if (auto* reserve = std::get_if<store::Reserve>(&command)) reserve->is_claimed = true;
  }
}

void SwallowsStale::repair(std::span<const Command> batch, std::vector<Answer>& answers) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (std::holds_alternative<store::Stale>(answers[i])) answers[i] = store::Advanced{};
  }
}

DropsJournalIndex::DropsJournalIndex(std::unique_ptr<store::Store> inner,
                                     std::shared_ptr<store::sqlite::Database> database)
    : SendsEntriesTwice(std::move(inner), std::move(database)) {
  sql("DROP INDEX IF EXISTS semel_journal_position");
}

DropsKeyIndex::DropsKeyIndex(std::unique_ptr<store::Store> inner,
                             std::shared_ptr<store::sqlite::Database> database)
    : BrokenStore(std::move(inner), std::move(database)) {
  sql("DROP INDEX IF EXISTS semel_run_key");
}

Answers LooksKeysUp::execute(std::span<const Command> batch) {
  store::sqlite::Statement holders{
      database(), "SELECT 1 FROM semel_run WHERE idempotency_key = ?1 AND holds_key = 1"};
  std::vector<bool> looks_free;
  for (const Command& command : batch) {
    const auto* start = std::get_if<store::StartRun>(&command);
    const bool has_key = start != nullptr && start->run.idempotency_key;
    looks_free.push_back(has_key && !holders.any(*start->run.idempotency_key));
  }
  if (std::ranges::none_of(looks_free, std::identity{})) return inner().execute(batch);

  std::vector<Answer> answers;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (looks_free[i]) sql("DROP INDEX IF EXISTS semel_run_key");
    auto answer = inner().execute(batch.subspan(i, 1));
    if (!answer) return answer;
    answers.push_back(std::move(answer->front()));
    if (looks_free[i]) make_key_index();
  }
  return answers;
}

void LooksKeysUp::make_key_index() {
  try {
    sql("CREATE UNIQUE INDEX semel_run_key ON semel_run (key_era, workspace, idempotency_key, "
        "holds_key)"
        " WHERE idempotency_key IS NOT NULL");
  } catch (const store::sqlite::Failed&) {
    // The key has two holders by now, which is what we are here for.
  }
}

void ForgetsOlderKeys::repair(std::span<const Command>, std::vector<Answer>&) {
  sql("DELETE FROM semel_key_era WHERE era < (SELECT max(era) FROM semel_key_era)");
}

void FreesKeysEarly::repair(std::span<const Command>, std::vector<Answer>&) {
  sql("UPDATE semel_run SET holds_key = NULL, key_until = NULL WHERE status = 3 AND holds_key = 1");
}

Answers CancelsWithoutChildren::execute(std::span<const Command> batch) {
  sql("CREATE TEMP TABLE IF NOT EXISTS orphaned (run, parent)");
  for (const Command& command : batch) {
    const auto* cancel = std::get_if<store::CancelRun>(&command);
    if (cancel == nullptr) continue;
    sql("INSERT INTO temp.orphaned SELECT run, parent FROM semel_run"
        " WHERE parent = (SELECT run FROM semel_run WHERE id = ?1)",
        cancel->id);
  }
  sql("UPDATE semel_run SET parent = NULL WHERE run IN (SELECT run FROM temp.orphaned)");
  auto answers = inner().execute(batch);
  sql("UPDATE semel_run SET parent = (SELECT parent FROM temp.orphaned o WHERE o.run = "
      "semel_run.run)"
      " WHERE run IN (SELECT run FROM temp.orphaned)");
  sql("DELETE FROM temp.orphaned");
  return answers;
}

void OverwritesEnds::repair(std::span<const Command> batch, std::vector<Answer>& answers) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto* advance = std::get_if<AdvanceRun>(&batch[i]);
    if (advance == nullptr || !advance->changes.end ||
        !std::holds_alternative<store::Stale>(answers[i]))
      continue;
    sql("UPDATE semel_run SET status = ?2, output = ?3 WHERE run = ?1", advance->run,
        advance->changes.end->status, advance->changes.end->output);
  }
}

void RewritesEntries::repair(std::span<const Command>, std::vector<Answer>&) {
  if (!random.one_in(100)) return;
  sql("UPDATE semel_journal SET at = at + 1 WHERE id = (SELECT max(id) FROM semel_journal)");
}

}  // namespace semel::sim
