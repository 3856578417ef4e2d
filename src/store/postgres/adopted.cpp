#include "store/postgres/adopted.hpp"

#include "store/postgres/decider.hpp"
#include "store/postgres/schema.hpp"
#include "store/postgres/user_sql.hpp"

#include <optional>
#include <utility>

namespace semel::store::postgres {

namespace {

constexpr int attempts_max = 20;

/// Stored as these numbers: never reuse one.
enum class HintKind : std::uint8_t { got_something = 0, is_new = 1, is_over = 2 };

class AdoptedUnit final : public UnitOfWork {
 public:
  AdoptedUnit(pg_conn* handle, AdoptedNeeds needs)
      : connection_(handle), needs_(std::move(needs)) {}

  void run(std::string_view sql, std::span<const sql::Value> parameters,
           const std::function<void(const sql::Row&)>& each) override {
    borrow([&] {
      sql_.run(sql, parameters, each);
      sql_.unmark();
    });
  }

  void run_own(std::string_view sql, std::span<const sql::Value> parameters,
               const std::function<void(const sql::Row&)>& each) override {
    borrow([&] {
      sql_.run_own(sql, parameters, each);
      sql_.unmark();
    });
  }

  Answer execute(const Command& command) override {
    Answer answer;
    borrow([&] {
      connection_.run("SAVEPOINT semel_command");
      try {
        answer = insist(command);
        leave_hints(command, answer);
      } catch (...) {
        if (!connection_.is_lost()) connection_.run("ROLLBACK TO SAVEPOINT semel_command");
        throw;
      }
      connection_.run("RELEASE SAVEPOINT semel_command");
    });
    return answer;
  }

  RunKey new_run_key() override { return needs_.new_run_key(); }

  TimePoint now() const override { return needs_.clock(); }

 private:
  /// Failures are told in words that are the program's business. What was done before stays, and the connection is as it was.
  template <class Action>
  void borrow(const Action& action) {
    try {
      const Borrowed borrowed{connection_};
      if (!std::exchange(is_checked_, true)) check();
      action();
    } catch (const store::Failed& failed) {
      const bool is_ours = connection_.is_lost() || failed.fault().code != base::Errc::refused;
      throw Error(is_ours ? "STORE_UNAVAILABLE" : "VALIDATION_ERROR", failed.fault().message);
    }
  }

  /// Rules rest on what is read behind locks: a snapshot of before them would not do.
  void check() {
    require_schema(connection_);
    bool is_fit = false;
    Pipeline pipeline{connection_};
    pipeline.add("SELECT (current_setting('transaction_isolation') = 'read committed')::int", {},
                 [&](const Rows& rows) { is_fit = rows.flag(0, 0); });
    pipeline.run();
    if (!is_fit)
      throw Failed{"", {base::Errc::refused, "the transaction must be at READ COMMITTED"}};
  }

  /// Where another transaction was in the way it is decided again from what that one left.
  Answer insist(const Command& command) {
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
      std::set<std::string> workspaces;
      try {
        return decider_.decide_and_write(command);
      } catch (const Failed& failed) {
        if (!failed.was_in_the_way()) throw;
      } catch (const NewWorkspaces& unnamed) {
        workspaces = unnamed.names;
      }
      connection_.run("ROLLBACK TO SAVEPOINT semel_command");
      if (!workspaces.empty()) decider_.make_workspaces(workspaces, workspaces);
    }
    throw Failed{"", {base::Errc::conflict, "other transactions were in the way again and again"}};
  }

  void leave_hints(const Command& command, const Answer& answer) {
    Columns hints{"ii"};
    const auto add = [&](const Effects& effects) {
      for (const RunKey run : effects.wake) hints.add(run, HintKind::got_something);
      for (const RunKey run : effects.created) hints.add(run, HintKind::is_new);
      for (const RunKey run : effects.ended) hints.add(run, HintKind::is_over);
    };
    if (const auto* started = std::get_if<RunStarted>(&answer)) {
      add(started->effects);
      hints.add(std::get<StartRun>(command).run.key, HintKind::is_new);
    } else if (const auto* delivered = std::get_if<Delivered>(&answer)) {
      add(delivered->effects);
    }
    if (hints.empty()) return;
    Pipeline pipeline{connection_};
    pipeline.add(
        "INSERT INTO semel.hint (run, kind) SELECT * FROM unnest($1::bigint[], $2::bigint[])",
        hints.parameters());
    pipeline.run();
  }

  Connection connection_;
  AdoptedNeeds needs_;
  bool is_checked_ = false;
  Known known_;  ///< of this transaction: it may be rolled back
  base::ShapeChecker shapes_;
  PostgresCounters counters_;
  UserSql sql_{connection_};
  Decider decider_{connection_, known_, shapes_, counters_};
};

class PostgresHints final : public Hints {
 public:
  explicit PostgresHints(std::string url) : url_(std::move(url)) {}

  base::Result<Effects> take() override {
    try {
      if (!connection_ || connection_->is_lost())
        connection_.emplace(ConnectionOptions{.url = url_});
      Effects effects;
      Pipeline pipeline{*connection_};
      pipeline.add("DELETE FROM semel.hint RETURNING run, kind", {},
                   [&](const Rows& rows) { read(rows, effects); });
      pipeline.run();
      return effects;
    } catch (const store::Failed& failed) {
      return failed.fault();
    }
  }

 private:
  static void read(const Rows& rows, Effects& effects) {
    for (int i = 0; i < rows.size(); ++i) {
      const RunKey run = rows.integer(i, 0);
      switch (static_cast<HintKind>(rows.integer(i, 1))) {
        case HintKind::is_new:
          effects.created.push_back(run);
          break;
        case HintKind::is_over:
          effects.ended.push_back(run);
          break;
        default:
          effects.wake.push_back(run);
      }
    }
  }

  std::string url_;
  std::optional<Connection> connection_;
};

}  // namespace

std::shared_ptr<UnitOfWork> adopt(pg_conn* connection, AdoptedNeeds needs) {
  return std::make_shared<AdoptedUnit>(connection, std::move(needs));
}

std::unique_ptr<Hints> make_hints(std::string url) {
  return std::make_unique<PostgresHints>(std::move(url));
}

}  // namespace semel::store::postgres
