#include "store/sqlite/database.hpp"

#include "base/assert.hpp"

#include <fmt/format.h>

namespace semel::store::sqlite {

namespace {

/// What a caller may conclude from a statement that failed before COMMIT: nothing of the transaction is durable.
base::Errc code_of(int result) {
  switch (result & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return base::Errc::corrupt;
    default:
      return base::Errc::refused;
  }
}

/// For connections that write: the durable settings, and the ones that are only about speed.
void set_up_writer(Database& database, const Database::Options& options) {
  if (!database.in_memory()) {
    // Before the tables: readers go on while we write, and a commit is one write and one sync of the log.
    database.run("PRAGMA journal_mode = WAL");
    // NORMAL loses acknowledged commits on power loss.
    database.run("PRAGMA synchronous = FULL");
    // We checkpoint ourselves, behind a commit: SQLite's own hook swallows the errors.
    database.run("PRAGMA wal_autocheckpoint = 0");
    // A log that one huge batch blew up is cut down again; below this it is overwritten, which is faster than growing.
    database.run("PRAGMA journal_size_limit = 67108864");
  }
  // A program's SQL must not get at the pages behind the tables.
  sqlite3_db_config(database.handle(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  // Our tables have none; a program's own may.
  database.run("PRAGMA foreign_keys = ON");
  // Debian's SQLite zeroes what is deleted: more pages to write at every end of a run, and no promise of ours.
  database.run("PRAGMA secure_delete = OFF");
  // The default of 2 MiB holds the inner pages of a small store only; memory is taken as it is used.
  database.run(fmt::format("PRAGMA cache_size = -{}", options.cache_kib).c_str());
}

void set_up_reader(Database& database) {
  database.run("PRAGMA query_only = ON");
  // The last connection to close would checkpoint; only the writer may.
  database.keep_wal_on_close();
}

bool is_ours(const char* name) {
  constexpr const char* prefix = "semel_";
  constexpr int prefix_bytes = 6;
  return name != nullptr && (sqlite3_strnicmp(name, prefix, prefix_bytes) == 0 ||
                             sqlite3_stricmp(name, "sqlite_sequence") == 0);
}

/// What a user's statement may do. The names are of tables for all actions that change one; which of the two depends on the
/// action, and neither may be ours.
bool is_allowed(int action, const char* first, const char* second) {
  switch (action) {
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
    case SQLITE_PRAGMA:
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
      return false;
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_FUNCTION:
    case SQLITE_RECURSIVE:
      return true;
    default:
      return !is_ours(first) && !is_ours(second);
  }
}

}  // namespace

struct Database::Control {
  explicit Control(Database& database)
      : begin_write(database, "BEGIN IMMEDIATE"),
        begin_read(database, "BEGIN"),
        commit(database, "COMMIT") {}

  // IMMEDIATE: a lock somebody else holds shows before anything is decided, not in the middle of it.
  Statement begin_write;
  Statement begin_read;
  Statement commit;
};

std::shared_ptr<Database> Database::open(const std::string& path, Access access,
                                         const Options& options) {
  // Debian's SQLite allocates for every statement and counts it under a global mutex; nobody reads the count. Once
  // SQLite is in use by the program this is refused, and nothing is lost but the few percent.
  static const int without_statistics = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  static_cast<void>(without_statistics);
  const std::shared_ptr<Database> database{new Database{path}};
  // No memory mapping: an I/O error there is a signal, not a result. No mutex: see the class.
  const int flags =
      (access == Access::read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
      SQLITE_OPEN_NOMUTEX;
  const char* name = path.empty() ? ":memory:" : path.c_str();
  const int result = sqlite3_open_v2(name, &database->handle_, flags, options.vfs);
  if (result != SQLITE_OK) database->fail(result, "opening it");

  sqlite3_extended_result_codes(database->handle_, 1);
  sqlite3_busy_timeout(database->handle_, static_cast<int>(options.busy_timeout.count()));
  database->run("PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF");
  if (access == Access::write) {
    set_up_writer(*database, options);
  } else {
    set_up_reader(*database);
  }
  sqlite3_set_authorizer(
      database->handle_,
      [](void* self, int action, const char* first, const char* second, const char*, const char*) {
        if (!static_cast<Database*>(self)->restricted_) return SQLITE_OK;
        return is_allowed(action, first, second) ? SQLITE_OK : SQLITE_DENY;
      },
      database.get());
  // Last: setting wal_autocheckpoint takes the hook away.
  sqlite3_wal_hook(
      database->handle_,
      [](void* self, sqlite3*, const char*, int pages) {
        static_cast<Database*>(self)->wal_pages_ = pages;
        return SQLITE_OK;
      },
      database.get());
  return database;
}

Database::Database(std::string path)
    : path_(std::move(path)), control_(std::make_unique<Control>(*this)) {}

Database::~Database() {
  control_.reset();
  // v2: a statement that still lives keeps the connection until it goes.
  sqlite3_close_v2(handle_);
}

void Database::run(const char* sql) {
  const int result = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  if (result != SQLITE_OK) fail(result, sql);
}

void Database::checkpoint() {
  const int result =
      sqlite3_wal_checkpoint_v2(handle_, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  const int basic = result & 0xFF;
  if (result != SQLITE_OK && basic != SQLITE_BUSY && basic != SQLITE_LOCKED)
    fail(result, "a checkpoint");
}

void Database::keep_wal_on_close() {
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, static_cast<int*>(nullptr));
}

void Database::fail(int result, std::string_view doing) {
  const char* reason = handle_ == nullptr ? sqlite3_errstr(result) : sqlite3_errmsg(handle_);
  throw Failed{result, base::Fault{code_of(result), fmt::format("SQLite {}: {} (code {}) in {}",
                                                                in_memory() ? "in memory" : path_,
                                                                reason, result, doing)}};
}

// ------------------------------------------------------------------------------------------------ statements

void Statement::prepare() {
  if (handle_ == nullptr) {
    check(sqlite3_prepare_v3(database_.handle(), sql_, -1, SQLITE_PREPARE_PERSISTENT, &handle_,
                             nullptr));
  }
  // Selecting again while the rows of the last selection are still read would silently restart those.
  SEMEL_ASSERT(sqlite3_stmt_busy(handle_) == 0);
}

std::int64_t Statement::finish() {
  const int result = sqlite3_step(handle_);
  if (result != SQLITE_DONE) {
    SEMEL_ASSERT(result != SQLITE_ROW);
    sqlite3_reset(handle_);
    check(result);
  }
  sqlite3_reset(handle_);
  return database_.rows_changed();
}

Rows::~Rows() {
  if (statement_ != nullptr) sqlite3_reset(statement_->handle_);
}

bool Rows::next() {
  const int result = sqlite3_step(statement_->handle_);
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE) statement_->check(result);
  return false;
}

bool Rows::is_null(int column) const {
  return sqlite3_column_type(statement_->handle_, column) == SQLITE_NULL;
}

std::int64_t Rows::integer(int column) const {
  return sqlite3_column_int64(statement_->handle_, column);
}

std::string_view Rows::view(int column) const {
  const void* data = sqlite3_column_blob(statement_->handle_, column);
  const int size = sqlite3_column_bytes(statement_->handle_, column);
  return data == nullptr
             ? std::string_view{}
             : std::string_view{static_cast<const char*>(data), static_cast<std::size_t>(size)};
}

// ------------------------------------------------------------------------------------------------ transactions

Transaction::Transaction(Database& database, Kind kind) : database_(database) {
  (kind == Kind::write ? database_.control_->begin_write : database_.control_->begin_read).run();
}

Transaction::~Transaction() {
  // Some errors have rolled it back already. If this fails nothing is committed either: the connection is the
  // transaction's only owner, and BEGIN refuses to go on inside one.
  if (open_ && database_.in_transaction())
    sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  try {
    database_.control_->commit.run();
  } catch (const Failed& failed) {
    if ((failed.result() & 0xFF) == SQLITE_BUSY) throw;
    // The log may hold the whole commit although its sync failed.
    throw Failed{failed.result(), base::Fault{base::Errc::unavailable, failed.fault().message}};
  }
  open_ = false;
}

}  // namespace semel::store::sqlite
