#include "store/sqlite/sqlite_store.hpp"

#include "store/sqlite/changing.hpp"
#include "store/sqlite/database.hpp"
#include "store/sqlite/ending.hpp"
#include "store/sqlite/file_lock.hpp"
#include "store/sqlite/hooks.hpp"
#include "store/sqlite/reservations.hpp"
#include "store/sqlite/schema.hpp"
#include "store/sqlite/sqlite_reader.hpp"
#include "store/sqlite/starting.hpp"
#include "store/sqlite/tables.hpp"
#include "store/sqlite/transacting.hpp"
#include "store/sqlite/upkeep.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace semel::store {

using sqlite::Database;
using sqlite::Failed;
using sqlite::Transaction;

namespace {

constexpr int never_checkpoint = 0;

struct ReadsOnly {
  bool operator()(const LoadRun&) const { return true; }

  bool operator()(const ReadInbox&) const { return true; }

  bool operator()(const FindDue&) const { return true; }

  bool operator()(const FindWork&) const { return true; }

  bool operator()(const FindRun&) const { return true; }

  bool operator()(const FindReservation&) const { return true; }

  template <class Writing>
  bool operator()(const Writing&) const {
    return false;
  }
};

bool writes(const Command& command) { return !std::visit(ReadsOnly{}, command); }

}  // namespace

struct SqliteStore::Impl {
  Impl(std::optional<sqlite::FileLock> file_lock, std::shared_ptr<Database> connection, int pages)
      : lock(std::move(file_lock)), database(std::move(connection)), checkpoint_pages(pages) {}

  Answer answer(const Command& command) {
    return std::visit([this](const auto& each) -> Answer { return execute(each); }, command);
  }

  NodeOpened execute(const OpenNode& command) { return upkeep.open_node(command); }

  KeysReserved execute(const ReserveKeys& command) {
    return {upkeep.reserve_keys(command.keys_count)};
  }

  Done execute(const NodeWell& command) {
    upkeep.node_well(command);
    return {};
  }

  Answer execute(const StartRun& command) { return sqlite::start_run(tables, command); }

  Answer execute(const AdvanceRun& command) { return sqlite::advance_run(tables, command); }

  Answer execute(const CancelRun& command) { return sqlite::cancel_run(tables, command); }

  Answer execute(const ReopenRun& command) { return sqlite::reopen_run(tables, command); }

  Answer execute(const MarkRun& command) { return sqlite::mark_run(tables, command); }

  Done execute(const SaveProgress& command) {
    tables.wakeups.save_progress(command.run, command.op, command.value);
    return {};
  }

  Swept execute(const Sweep& command) { return sqlite::sweep(tables, command); }

  Answer execute(const LoadRun& command) {
    auto record = tables.runs.record(command.run);
    if (!record) return RunMissing{};
    const auto starts_at = record->status == Status::pending
                               ? tables.wakeups.due(command.run, TimerKind::start, "")
                               : std::nullopt;
    return RunLoaded{.run = *record,
                     .starts_at = starts_at,
                     .entries = tables.journal.entries(command.run, record->first_seq),
                     .inbox = tables.wakeups.inbox(command.run),
                     .payloads = tables.hooks.oldest_of_each(command.run),
                     .progress = tables.wakeups.progress(command.run)};
  }

  InboxRead execute(const ReadInbox& command) {
    return {tables.wakeups.inbox(command.run), tables.hooks.oldest_of_each(command.run)};
  }

  Answer execute(const Deliver& command) { return sqlite::deliver(tables, command); }

  Answer execute(const ResumeOrStart& command) { return sqlite::resume_or_start(tables, command); }

  Answer execute(const Reserve& command) { return sqlite::reserve(tables, command); }

  Answer execute(const Complete& command) { return sqlite::complete(tables, command); }

  Answer execute(const Release& command) { return sqlite::release(tables, command); }

  Answer execute(const Renew& command) { return sqlite::renew(tables, command); }

  Answer execute(const Forget& command) { return sqlite::forget(tables, command); }

  Answer execute(const FindReservation& command) {
    return sqlite::find_reservation(tables, command);
  }

  TimersDue execute(const FindDue& command) {
    return tables.wakeups.timers_due(command.now, command.limit);
  }

  RunsFound execute(const FindWork& command) {
    return {tables.wakeups.work(command.after, command.limit)};
  }

  Answer execute(const FindRun& command) {
    const auto workspace = tables.runs.workspace(command.workspace);
    const auto run = workspace ? tables.runs.find(*workspace, command.id) : std::nullopt;
    if (!run) return RunMissing{};
    return RunLoaded{.run = *tables.runs.record(*run)};
  }

  Answer execute(const Transact& command) {
    return sqlite::transact(
        tables, user, command, [this](const Command& inner) { return answer(inner); },
        [this] { return new_run_key(); });
  }

  /// Set aside many at a time: most starts that turn out to be duplicates then write nothing.
  RunKey new_run_key() {
    constexpr std::int64_t keys_count = 4096;
    if (tables.next_key == tables.keys_end) {
      tables.next_key = upkeep.reserve_keys(keys_count);
      tables.keys_end = tables.next_key + keys_count;
    }
    return tables.next_key++;
  }

  /// Commands that poisoned the transaction before, and what they are told instead of being executed.
  using Poison = std::map<std::size_t, std::exception_ptr>;

  std::vector<Answer> answer_all(std::span<const Command> batch, Poison& poison) {
    std::vector<Answer> answers;
    answers.reserve(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (const auto known = poison.find(i); known != poison.end()) {
        answers.emplace_back(Transacted{.value = {}, .error = known->second, .entry = {}});
        continue;
      }
      try {
        answers.push_back(answer(batch[i]));
      } catch (const sqlite::Poisoned& poisoned) {
        poison.emplace(i, poisoned.error);
        throw;
      }
    }
    return answers;
  }

  /// One try; none: a command ended the transaction, and the batch has to be done over without it.
  std::optional<std::vector<Answer>> commit(std::span<const Command> batch, Poison& poison) {
    Transaction transaction{*database, Transaction::Kind::write};
    try {
      auto answers = answer_all(batch, poison);
      transaction.commit();
      return answers;
    } catch (const sqlite::Poisoned&) {
      ++tables.counters.batches_redone;
      tables.forget();
      return std::nullopt;
    }
  }

  /// A disk that failed once is not believed again: what is cached may differ from what is written.
  void give_up(const std::string& why) {
    broken = why;
    database->keep_wal_on_close();
  }

  /// Behind a commit, so that a failure here takes nothing back: it only stops the store.
  void checkpoint_if_due() {
    const int pages = database->wal_pages();
    if (pages < pages_seen) checkpoint_due_at = checkpoint_pages;  // the log began anew
    pages_seen = pages;
    if (checkpoint_pages == never_checkpoint || pages < checkpoint_due_at) return;
    try {
      database->checkpoint();
      ++tables.counters.checkpoints;
      // A reader may keep the log from beginning anew; then it is not worth a try at every commit.
      checkpoint_due_at = pages + checkpoint_pages;
    } catch (const Failed& failed) {
      give_up(failed.fault().message);
    }
  }

  // The lock goes last: the connection must be closed before another process may open the file.
  std::optional<sqlite::FileLock> lock;
  std::shared_ptr<Database> database;
  sqlite::Tables tables{*database};
  sqlite::Upkeep upkeep{*database};
  sqlite::UserSql user{*database};
  int checkpoint_pages;
  int checkpoint_due_at = checkpoint_pages;
  int pages_seen = 0;
  std::string broken;  ///< why every call is refused; empty: all is well
};

SqliteStore::SqliteStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

SqliteStore::~SqliteStore() = default;

base::Result<std::unique_ptr<SqliteStore>> SqliteStore::open(const SqliteOptions& options) {
  if (options.path.empty()) return open(make_memory_database());
  auto lock = sqlite::FileLock::acquire(options.path + ".lock");
  if (!lock) return lock.error();
  try {
    auto database = Database::open(
        options.path, Database::Access::write,
        {.busy_timeout = options.busy_timeout, .cache_kib = options.cache_kib, .vfs = options.vfs});
    sqlite::migrate(*database);
    // What we are about to show must be on disk. If the last owner's sync failed, the log may be readable and yet not
    // written; a checkpoint writes its pages anew.
    database->checkpoint();
    return std::unique_ptr<SqliteStore>{new SqliteStore{
        std::make_unique<Impl>(*std::move(lock), std::move(database), options.checkpoint_pages)}};
  } catch (const Failed& failed) {
    return failed.fault();
  }
}

base::Result<std::unique_ptr<SqliteStore>> SqliteStore::open(
    const std::shared_ptr<Database>& memory) {
  try {
    const std::lock_guard guard{memory->mutex()};
    sqlite::migrate(*memory);
    return std::unique_ptr<SqliteStore>{
        new SqliteStore{std::make_unique<Impl>(std::nullopt, memory, never_checkpoint)}};
  } catch (const Failed& failed) {
    return failed.fault();
  }
}

base::Result<std::vector<Answer>> SqliteStore::execute(std::span<const Command> batch) {
  if (!impl_->broken.empty()) {
    return base::Fault{base::Errc::refused,
                       "the store failed and must be opened again: " + impl_->broken};
  }
  const std::lock_guard guard{impl_->database->mutex()};
  try {
    ++impl_->tables.counters.batches;
    Impl::Poison poison;
    if (!std::ranges::any_of(batch, writes)) return impl_->answer_all(batch, poison);

    std::optional<std::vector<Answer>> answers;
    while (!answers) answers = impl_->commit(batch, poison);
    ++impl_->tables.counters.commits;
    impl_->checkpoint_if_due();
    return *std::move(answers);
  } catch (const Failed& failed) {
    impl_->tables.forget();
    if (failed.fault().code == base::Errc::unavailable) impl_->give_up(failed.fault().message);
    return failed.fault();
  } catch (...) {
    impl_->tables.forget();
    throw;
  }
}

base::Result<std::unique_ptr<Reader>> SqliteStore::reader() const {
  if (impl_->database->in_memory()) return sqlite::make_reader(impl_->database);
  return open_reader(impl_->database->path());
}

const SqliteCounters& SqliteStore::counters() const { return impl_->tables.counters; }

std::shared_ptr<Database> make_memory_database() {
  return Database::open("", Database::Access::write, {});
}

base::Result<std::unique_ptr<Reader>> open_reader(const std::string& path) {
  try {
    auto database = Database::open(path, Database::Access::read, {});
    sqlite::require_schema(*database);
    return sqlite::make_reader(std::move(database));
  } catch (const Failed& failed) {
    if ((failed.result() & 0xFF) == SQLITE_CANTOPEN) {
      return base::Fault{base::Errc::refused,
                         fmt::format("there is no store at {}: {}", path, failed.fault().message)};
    }
    return failed.fault();
  }
}

}  // namespace semel::store
