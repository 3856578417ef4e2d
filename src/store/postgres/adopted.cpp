#include "store/postgres/adopted.hpp"

#include "store/postgres/decider.hpp"
#include "store/postgres/schema.hpp"
#include "store/postgres/user_sql.hpp"

#include <utility>

namespace semel::store::postgres {

namespace {

constexpr int attempts_max = 20;

class AdoptedUnit final : public UnitOfWork {
 public:
  AdoptedUnit(pg_conn* handle, AdoptedNeeds needs) : connection_(handle), needs_(std::move(needs)) {
    // Whoever drives what it touches hears of it by a hint.
    known_.owned.is_all = false;
  }

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

  Connection connection_;
  AdoptedNeeds needs_;
  bool is_checked_ = false;
  Known known_;  ///< of this transaction: it may be rolled back
  base::ShapeChecker shapes_;
  PostgresCounters counters_;
  UserSql sql_{connection_};
  Decider decider_{connection_, known_, shapes_, counters_};
};

}  // namespace

std::shared_ptr<UnitOfWork> adopt(pg_conn* connection, AdoptedNeeds needs) {
  return std::make_shared<AdoptedUnit>(connection, std::move(needs));
}

}  // namespace semel::store::postgres
