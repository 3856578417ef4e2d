// libpq with owners: a connection, pipelines of statements, the rows they give.
//
// Inside this module a failure is thrown as `Failed`; the store's and the reader's calls turn it into a Fault.
#pragma once

#include "store/failed.hpp"
#include "store/postgres/parameters.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct pg_conn;
struct pg_result;

namespace semel::store::postgres {

/// The SQLSTATE where a lock did not come in time.
inline constexpr const char* lock_timed_out = "55P03";

/// With PostgreSQL's SQLSTATE; empty where the connection is at fault.
class Failed final : public store::Failed {
 public:
  Failed(std::string state, base::Fault fault, std::string reason = {})
      : store::Failed(std::move(fault)), state_(std::move(state)), reason_(std::move(reason)) {}

  const std::string& state() const { return state_; }

  /// What PostgreSQL says about a statement, without the details.
  const std::string& reason() const { return reason_; }

  /// Somebody else's transaction was in the way (a unique index, a deadlock, a lock held too long): done over, it decides
  /// by what that one left.
  bool was_in_the_way() const;

 private:
  std::string state_;
  std::string reason_;
};

/// What a statement gave. Valid while its pipeline's call-back runs.
class Rows {
 public:
  explicit Rows(const pg_result* result) : result_(result) {}

  int size() const;
  bool is_null(int row, int column) const;
  /// Of smallint, integer or bigint.
  std::int64_t integer(int row, int column) const;
  std::string_view view(int row, int column) const;

  std::string text(int row, int column) const { return std::string{view(row, column)}; }

  bool flag(int row, int column) const { return integer(row, column) != 0; }

  TimePoint time(int row, int column) const { return from_ns(integer(row, column)); }

  std::optional<std::int64_t> optional_integer(int row, int column) const {
    return is_null(row, column) ? std::nullopt : std::optional{integer(row, column)};
  }

  std::optional<std::string> optional_text(int row, int column) const {
    return is_null(row, column) ? std::nullopt : std::optional{text(row, column)};
  }

  std::optional<TimePoint> optional_time(int row, int column) const {
    return is_null(row, column) ? std::nullopt : std::optional{time(row, column)};
  }

  /// Rows an INSERT, UPDATE or DELETE changed.
  std::int64_t changed() const;

  int columns() const;
  std::string name(int column) const;
  /// The number PostgreSQL has for its type.
  std::uint32_t type(int column) const;
  /// Of a description: the types of the parameters.
  std::vector<std::uint32_t> parameter_types() const;

 private:
  const pg_result* result_;
};

struct ConnectionOptions {
  std::string url;
  /// From the last sign of life to giving up. A server that does not answer is a server that is lost.
  std::chrono::milliseconds patience{30'000};
  std::chrono::milliseconds lock_timeout{10'000};
  /// From the last statement of a transaction to its end by the server: the locks of a process that was stopped.
  std::chrono::milliseconds idle_timeout{60'000};
  bool read_only = false;
  /// Of the statements sent, where somebody counts them.
  std::shared_ptr<std::atomic<std::uint64_t>> statements{};
};

/// One connection, used by one thread at a time. Once it is lost it stays so.
class Connection {
 public:
  /// Throws `Failed`.
  explicit Connection(const ConnectionOptions& options);

  /// One of the program's own, which is given back as it was: used inside `Borrowed` only. Nothing is left prepared there.
  explicit Connection(pg_conn* handle) : handle_(handle), is_own_(false) {}

  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Runs SQL that gives nothing and is not worth a prepared statement; several statements are fine.
  void run(const std::string& sql);

  /// Returns once the server has notified of something that was LISTENed for, `interrupt` can be read, or the time is up.
  void await_notification(std::chrono::milliseconds timeout, int interrupt);

  bool is_lost() const { return lost_; }

  /// It is not to be used again.
  void give_up() { lost_ = true; }

  bool in_transaction() const;

  /// From the answer before the last COMMIT to its own. None: there was none.
  std::optional<std::chrono::nanoseconds> commit_time() const { return commit_time_; }

  /// The statement by which its settings are as they were made, whatever the program's functions did to them.
  const std::string& settings() const { return settings_; }

  /// False: other code uses it too, and may know statements by the same names.
  bool keeps_statements() const { return is_own_; }

 private:
  friend class Pipeline;
  friend class Borrowed;

  pg_result* next_result();
  void count_statement() const;
  [[noreturn]] void lose(const std::string& why);
  void wait(bool for_writing);

  pg_conn* handle_ = nullptr;
  bool is_own_ = true;
  std::chrono::milliseconds patience_ = ConnectionOptions{}.patience;
  std::string settings_;  ///< empty where they are the program's
  bool lost_ = false;
  bool warned_ = false;  ///< since the last pipeline began
  std::optional<std::chrono::nanoseconds> commit_time_;
  std::map<std::string, std::string, std::less<>> prepared_;  ///< names by text
  int statements_ = 0;                                        ///< that were ever prepared
  std::shared_ptr<std::atomic<std::uint64_t>> sent_;          ///< statements; none: nobody counts
};

/// While a connection of the program's is ours.
class Borrowed {
 public:
  /// Throws `Failed` where it is not inside a transaction that goes on.
  explicit Borrowed(Connection& connection);
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed();

 private:
  Connection& connection_;
  bool was_nonblocking_;
};

/// Statements that are sent together and answered together: one round trip.
class Pipeline {
 public:
  using Then = std::function<void(const Rows&)>;

  explicit Pipeline(Connection& connection) : connection_(connection) {}

  /// `sql` is prepared when it is first met.
  void add(std::string_view sql, const Parameters& parameters = {}, Then then = {});

  /// A statement whose types only PostgreSQL knows: prepared under a name (empty: until the next such), described,
  /// executed with values as text (or as bytes), its rows given as text. The caller looks after the names.
  void prepare(const std::string& name, const std::string& sql,
               const std::vector<std::uint32_t>& types);
  void describe(const std::string& name, Then then);

  struct Given {
    std::optional<std::string> value;
    bool is_bytes = false;
  };

  void execute(const std::string& name, const std::vector<Given>& values, Then then);

  /// COMMIT, as the last statement.
  void add_commit();

  /// Sends what was added and hears the answers, in order. Where a statement fails those behind it do not happen and
  /// `Failed` says why. `Errc::unavailable` where a COMMIT was sent and nobody knows what came of it.
  void run();

  /// The same outside of a transaction: all of it is one, committed behind the last statement. As with COMMIT, nobody may
  /// know what came of it.
  void run_as_transaction();

 private:
  struct Step {
    std::string prepares;  ///< text whose prepared statement this makes; empty: it executes one
    Then then;
    bool commits = false;
  };

  void begin();
  void expect(int is_sent, Step step);
  void send_prepare(std::string_view sql, const std::string& name);
  void read_answers();
  void check(const pg_result* result);

  Connection& connection_;
  std::vector<Step> steps_;
  std::optional<Failed> failure_;
  bool has_begun_ = false;
  bool commits_ = false;
};

}  // namespace semel::store::postgres
