#include "store/sqlite/sqlite_store.hpp"

#include "store/answering.hpp"
#include "store/sqlite/database.hpp"
#include "store/sqlite/file_lock.hpp"
#include "store/sqlite/key_scan.hpp"
#include "store/sqlite/schema.hpp"
#include "store/sqlite/sqlite_reader.hpp"
#include "store/sqlite/tables.hpp"
#include "store/sqlite/upkeep.hpp"
#include "store/sqlite/user_sql.hpp"
#include "store/transacting.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace semel::store {

using sqlite::Database;
using sqlite::Transaction;

namespace {

constexpr int never_checkpoint = 0;

}  // namespace

struct SqliteStore::Impl {
  /// What code of somebody else's gets: a savepoint, and the store's own commands.
  class Units final : public UnitHost {
   public:
    explicit Units(Impl& impl) : impl_(impl) {}

    Tables& tables() override { return impl_.tables.common; }

    void begin() override { impl_.user.begin(); }

    void keep() override { impl_.user.keep(); }

    void undo(bool has_commands) override {
      impl_.user.undo();
      if (has_commands) impl_.tables.forget();
    }

    void run(std::string_view sql, std::span<const sql::Value> parameters,
             const std::function<void(const sql::Row&)>& each) override {
      impl_.user.run(sql, parameters, each);
    }

    void run_own(std::string_view sql, std::span<const sql::Value> parameters,
                 const std::function<void(const sql::Row&)>& each) override {
      impl_.user.run_own(sql, parameters, each);
    }

    Answer execute(const Command& command) override { return impl_.answer(command); }

    RunKey new_run_key() override { return impl_.new_run_key(); }

   private:
    Impl& impl_;
  };

  Impl(std::optional<sqlite::FileLock> file_lock, std::shared_ptr<Database> connection, int pages)
      : lock(std::move(file_lock)), database(std::move(connection)), checkpoint_pages(pages) {}

  Answer answer(const Command& command) {
    return std::visit(
        [this](const auto& each) -> Answer {
          if constexpr (requires { store::answer(tables.common, each); }) {
            return store::answer(tables.common, each);
          } else {
            return execute(each);
          }
        },
        command);
  }

  /// What others may have stored while the file was nobody's is found anew.
  void use(std::shared_ptr<KeyClaims> shared) {
    claims = std::move(shared);
    tables.common.claims = claims.get();
    if (!claims) return;
    if (database->in_memory()) {
      claims->begin_anew(
          [this](const KeyClaims::Visit& visit) { sqlite::scan_keys(*database, visit); },
          KeyClaims::Fill::at_once);
      return;
    }
    claims->begin_anew(
        [path = database->path()](const KeyClaims::Visit& visit) {
          sqlite::scan_keys(*Database::open(path, Database::Access::read, {}), visit);
        },
        sqlite::has_no_keys(*database) ? KeyClaims::Fill::empty : KeyClaims::Fill::in_background);
  }

  NodeOpened execute(const OpenNode& command) { return upkeep.open_node(command); }

  KeysReserved execute(const ReserveKeys& command) {
    return {upkeep.reserve_keys(command.keys_count)};
  }

  Done execute(const NodeWell& command) {
    upkeep.node_well(command);
    return {};
  }

  /// The file is one process's, whole.
  NodeKept execute(const KeepNode&) { return {}; }

  Done execute(const GiveUp&) { return {}; }

  /// There is nobody else who could.
  RunsFound execute(const MoveRuns& command) {
    RunsFound found;
    std::ranges::copy_if(command.runs, std::back_inserter(found.runs), [this](RunKey run) {
      const auto status = tables.common.runs.status(run);
      return status && *status < Status::completed;
    });
    return found;
  }

  RunsFound execute(const FindEnded& command) {
    RunsFound found;
    std::ranges::copy_if(command.runs, std::back_inserter(found.runs), [this](RunKey run) {
      const auto status = tables.common.runs.status(run);
      return !status || *status >= Status::completed;
    });
    return found;
  }

  Swept execute(const Sweep& command) { return sqlite::sweep(tables, command); }

  TimersDue execute(const FindDue& command) {
    return tables.wakeups.timers_due(command.now, command.limit);
  }

  RunsFound execute(const FindWork& command) {
    return {tables.wakeups.work(command.after, command.limit)};
  }

  Answer execute(const Transact& command) { return transact(units, command); }

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
    tables.reservations.sweeps().begin();
    try {
      auto answers = answer_all(batch, poison);
      tables.reservations.sweeps().write();
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
  std::shared_ptr<KeyClaims> claims;
  sqlite::Tables tables{*database};
  sqlite::Upkeep upkeep{*database};
  sqlite::UserSql user{*database};
  Units units{*this};
  int checkpoint_pages;
  int checkpoint_due_at = checkpoint_pages;
  int pages_seen = 0;
  std::string broken;  ///< why every call is refused; empty: all is well
};

SqliteStore::SqliteStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

SqliteStore::~SqliteStore() = default;

base::Result<std::unique_ptr<SqliteStore>> SqliteStore::open(const SqliteOptions& options) {
  if (options.path.empty())
    return open(make_memory_database(), options.claims, options.keys_per_era);
  auto lock = sqlite::FileLock::acquire(options.path + ".lock");
  if (!lock) return lock.error();
  try {
    auto database = Database::open(
        options.path, Database::Access::write,
        {.busy_timeout = options.busy_timeout, .cache_kib = options.cache_kib, .vfs = options.vfs});
    sqlite::migrate(*database);
    sqlite::refuse_moved(*database);
    // What we are about to show must be on disk. If the last owner's sync failed, the log may be readable and yet not
    // written; a checkpoint writes its pages anew.
    database->checkpoint();
    auto impl =
        std::make_unique<Impl>(*std::move(lock), std::move(database), options.checkpoint_pages);
    impl->tables.runs.key_eras().open(options.keys_per_era);
    impl->use(options.claims);
    return std::unique_ptr<SqliteStore>{new SqliteStore{std::move(impl)}};
  } catch (const Failed& failed) {
    return failed.fault();
  }
}

base::Result<std::unique_ptr<SqliteStore>> SqliteStore::open(
    const std::shared_ptr<Database>& memory, std::shared_ptr<KeyClaims> claims,
    std::int64_t keys_per_era) {
  try {
    const std::lock_guard guard{memory->mutex()};
    sqlite::migrate(*memory);
    auto impl = std::make_unique<Impl>(std::nullopt, memory, never_checkpoint);
    impl->tables.runs.key_eras().open(keys_per_era);
    impl->use(std::move(claims));
    return std::unique_ptr<SqliteStore>{new SqliteStore{std::move(impl)}};
  } catch (const Failed& failed) {
    return failed.fault();
  }
}

base::Result<std::vector<Answer>> SqliteStore::execute(std::span<const Command> batch) {
  return guarded([&]() -> std::vector<Answer> {
    Impl::Poison poison;
    if (!std::ranges::any_of(batch, writes)) return impl_->answer_all(batch, poison);

    std::optional<std::vector<Answer>> answers;
    while (!answers) answers = impl_->commit(batch, poison);
    ++impl_->tables.counters.commits;
    impl_->checkpoint_if_due();
    if (impl_->claims) impl_->claims->renew_if_due();
    impl_->tables.runs.key_eras().renew_if_due();
    return *std::move(answers);
  });
}

base::Result<std::vector<Answer>> SqliteStore::guarded(
    const std::function<std::vector<Answer>()>& executed) {
  if (!impl_->broken.empty()) {
    return base::Fault{base::Errc::refused,
                       "the store failed and must be opened again: " + impl_->broken};
  }
  const std::lock_guard guard{impl_->database->mutex()};
  try {
    ++impl_->tables.counters.batches;
    return executed();
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
  } catch (const sqlite::Failed& failed) {
    if ((failed.result() & 0xFF) == SQLITE_CANTOPEN) {
      return base::Fault{base::Errc::refused,
                         fmt::format("there is no store at {}: {}", path, failed.fault().message)};
    }
    return failed.fault();
  }
}

}  // namespace semel::store
