// SQLite's C API with owners: a connection, its prepared statements, the rows they select.
//
// Inside this module a failure is thrown as `Failed`; the store's and the reader's calls turn it into a Fault.
#pragma once

#include "base/result.hpp"
#include "store/failed.hpp"

#include <semel/error.hpp>

#include <sqlite3.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace semel::store::sqlite {

/// With SQLite's (extended) result code.
class Failed final : public store::Failed {
 public:
  Failed(int result, base::Fault fault) : store::Failed(std::move(fault)), result_(result) {}

  int result() const { return result_; }

 private:
  int result_;
};

/// A value that is bytes, not text.
struct Blob {
  std::string_view bytes;
};

constexpr std::int64_t to_ns(TimePoint time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

constexpr TimePoint from_ns(std::int64_t ns) {
  return TimePoint{std::chrono::duration_cast<TimePoint::duration>(std::chrono::nanoseconds{ns})};
}

/// One connection. Used by one thread at a time: whoever shares one holds `mutex` while using it.
class Database {
 public:
  /// What the connection is for. A reader can neither write nor checkpoint.
  enum class Access { write, read };

  struct Options {
    std::chrono::milliseconds busy_timeout{5000};
    std::int64_t cache_kib = std::int64_t{32} * 1024;
    const char* vfs = nullptr;  ///< tests put faults between SQLite and the disk
  };

  /// Throws `Failed`. An empty path is a new database in memory.
  static std::shared_ptr<Database> open(const std::string& path, Access access,
                                        const Options& options);

  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  std::mutex& mutex() { return mutex_; }

  const std::string& path() const { return path_; }

  bool in_memory() const { return path_.empty(); }

  sqlite3* handle() { return handle_; }

  /// Runs SQL that selects nothing and is not worth a prepared statement; several statements are fine.
  void run(const char* sql);

  std::int64_t rows_changed() { return sqlite3_changes64(handle_); }

  bool in_transaction() { return sqlite3_get_autocommit(handle_) == 0; }

  /// While it is restricted, statements can neither be prepared nor go on that end transactions, attach files, set pragmas
  /// or change what belongs to semel. (Taking the rules away would make SQLite prepare all its statements anew.)
  void restrict(bool restricted) { restricted_ = restricted; }

  /// Copies the write-ahead log into the database, as far as readers allow it; a reader in the way is no error.
  void checkpoint();

  /// The pages in the write-ahead log after the last commit.
  int wal_pages() const { return wal_pages_; }

  /// The log stays as it is when the connection closes; for one whose disk failed.
  void keep_wal_on_close();

  [[noreturn]] void fail(int result, std::string_view doing);

 private:
  explicit Database(std::string path);

  std::string path_;
  sqlite3* handle_ = nullptr;
  std::mutex mutex_;
  int wal_pages_ = 0;
  bool restricted_ = false;

  friend class Transaction;
  struct Control;  ///< the statements around every transaction
  std::unique_ptr<Control> control_;
};

class Statement;

/// The rows of one selection, in turn. The statement can be used again when this is gone.
class Rows {
 public:
  explicit Rows(Statement& statement) : statement_(&statement) {}

  Rows(Rows&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}

  Rows& operator=(Rows&&) = delete;
  ~Rows();

  /// On to the next row; false behind the last.
  bool next();

  bool is_null(int column) const;
  std::int64_t integer(int column) const;
  std::string_view view(int column) const;  ///< valid until `next`

  std::string text(int column) const { return std::string{view(column)}; }

  TimePoint time(int column) const { return from_ns(integer(column)); }

  std::optional<std::int64_t> optional_integer(int column) const {
    return is_null(column) ? std::nullopt : std::optional{integer(column)};
  }

  std::optional<TimePoint> optional_time(int column) const {
    return is_null(column) ? std::nullopt : std::optional{time(column)};
  }

  std::optional<std::string> optional_text(int column) const {
    return is_null(column) ? std::nullopt : std::optional{text(column)};
  }

 private:
  Statement* statement_;
};

/// A statement prepared when it is first used and kept. `sql` is a literal, or lives as long.
class Statement {
 public:
  Statement(Database& database, const char* sql) : database_(database), sql_(sql) {}

  ~Statement() { sqlite3_finalize(handle_); }

  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// Executes it with these values for ?1, ?2, …; says how many rows it changed.
  template <class... Values>
  std::int64_t run(const Values&... values) {
    prepare();
    int index = 0;
    // Without copies: the caller's values outlive the call.
    (bind(++index, values, SQLITE_STATIC), ...);
    return finish();
  }

  /// What it selects with these values.
  template <class... Values>
  Rows select(const Values&... values) {
    prepare();
    int index = 0;
    // Copied: a temporary would be gone before the rows are.
    (bind(++index, values, SQLITE_TRANSIENT), ...);
    return Rows{*this};
  }

  /// True if it selects anything at all.
  template <class... Values>
  bool any(const Values&... values) {
    return select(values...).next();
  }

  /// For statements whose values are known only at run time; otherwise use `select`.
  template <class Value>
  void bind_one(int index, const Value& value) {
    prepare();
    bind(index, value, SQLITE_TRANSIENT);
  }

  Rows select_bound() { return Rows{*this}; }

 private:
  friend class Rows;

  using Lifetime = sqlite3_destructor_type;

  template <class Value>
    requires std::integral<Value> || std::is_enum_v<Value>
  void bind(int index, Value value, Lifetime) {
    check(sqlite3_bind_int64(handle_, index, static_cast<sqlite3_int64>(value)));
  }

  void bind(int index, TimePoint time, Lifetime) {
    check(sqlite3_bind_int64(handle_, index, to_ns(time)));
  }

  void bind(int index, std::string_view text, Lifetime lifetime) {
    // A null pointer would bind NULL, not the empty string.
    const char* data = text.data() == nullptr ? "" : text.data();
    check(sqlite3_bind_text64(handle_, index, data, text.size(), lifetime, SQLITE_UTF8));
  }

  void bind(int index, Blob blob, Lifetime lifetime) {
    const char* data = blob.bytes.data() == nullptr ? "" : blob.bytes.data();
    check(sqlite3_bind_blob64(handle_, index, data, blob.bytes.size(), lifetime));
  }

  template <class Value>
  void bind(int index, const std::optional<Value>& value, Lifetime lifetime) {
    if (value) {
      bind(index, *value, lifetime);
    } else {
      check(sqlite3_bind_null(handle_, index));
    }
  }

  void check(int result) {
    if (result != SQLITE_OK) database_.fail(result, sql_);
  }

  void prepare();
  std::int64_t finish();

  Database& database_;
  const char* sql_;
  sqlite3_stmt* handle_ = nullptr;
};

/// A transaction that is rolled back unless it was committed.
class Transaction {
 public:
  enum class Kind { write, read };

  Transaction(Database& database, Kind kind);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  /// Throws `Failed` with `Errc::unavailable` where nobody knows whether it happened.
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace semel::store::sqlite
