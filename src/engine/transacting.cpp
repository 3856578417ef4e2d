#include "engine/transacting.hpp"

#include "idempotency/kernel.hpp"

#include <semel/idempotency.hpp>

#include <optional>

namespace semel::engine {

namespace {

thread_local bool is_inside_transaction = false;

class InsideTransaction {
 public:
  InsideTransaction() { is_inside_transaction = true; }

  InsideTransaction(const InsideTransaction&) = delete;
  InsideTransaction& operator=(const InsideTransaction&) = delete;

  ~InsideTransaction() { is_inside_transaction = false; }
};

/// Reservations in the transaction itself. Nobody else sees one before it is committed, so nothing waits and no lease
/// is renewed.
class UnitPort final : public idempotency::Port {
 public:
  explicit UnitPort(store::UnitOfWork& unit) : unit_(unit) {}

  void execute(store::Command command, Reply reply) override { reply(call(std::move(command))); }

  base::Result<store::Answer> call(store::Command command) override {
    idempotency::set_now(command, now());
    return unit_.execute(command);
  }

  void go_on(std::function<void()> action) override { action(); }

  TimePoint now() const override { return unit_.now(); }

 private:
  store::UnitOfWork& unit_;
};

class UnitReservations final : public IdempotencyStore {
 public:
  UnitReservations(store::UnitOfWork& unit, std::string workspace)
      : kernel_(idempotency::Kernel::make(std::make_shared<UnitPort>(unit),
                                          {.cache_bytes_max = 0, .has_timers = false})),
        workspace_(std::move(workspace)) {}

  idempotency::Kernel& kernel() override { return *kernel_; }

  const std::string& workspace() const override { return workspace_; }

 private:
  std::shared_ptr<idempotency::Kernel> kernel_;
  std::string workspace_;
};

class UnitSession final : public sql::Session {
 public:
  UnitSession(store::UnitOfWork& unit, const std::string& workspace)
      : unit_(unit), workspace_(workspace) {}

  void run(std::string_view sql, std::span<const sql::Value> parameters,
           const std::function<void(const sql::Row&)>& each) override {
    unit_.run(sql, parameters, each);
  }

  IdempotencyStore& idempotency() override {
    if (!reservations_) reservations_.emplace(unit_, workspace_);
    return *reservations_;
  }

  store::UnitOfWork& unit() { return unit_; }

 private:
  store::UnitOfWork& unit_;
  const std::string& workspace_;
  std::optional<UnitReservations> reservations_;
};

struct KeptSession {
  KeptSession(std::shared_ptr<store::UnitOfWork> with, std::string of)
      : unit(std::move(with)), workspace(std::move(of)) {}

  std::shared_ptr<store::UnitOfWork> unit;
  std::string workspace;
  UnitSession session{*unit, workspace};
};

class FunctionWork final : public store::Work {
 public:
  FunctionWork(std::string workspace, std::function<std::string(sql::Transaction&)> function)
      : workspace_(std::move(workspace)), function_(std::move(function)) {}

  std::string run(store::UnitOfWork& unit) override {
    const InsideTransaction inside;
    UnitSession session(unit, workspace_);
    sql::Transaction transaction(session);
    return function_(transaction);
  }

 private:
  std::string workspace_;
  std::function<std::string(sql::Transaction&)> function_;
};

}  // namespace

std::shared_ptr<store::Work> make_work(std::string workspace,
                                       std::function<std::string(sql::Transaction&)> function) {
  return std::make_shared<FunctionWork>(std::move(workspace), std::move(function));
}

bool inside_transaction() { return is_inside_transaction; }

std::shared_ptr<sql::Session> make_session(std::shared_ptr<store::UnitOfWork> unit,
                                           std::string workspace) {
  const auto kept = std::make_shared<KeptSession>(std::move(unit), std::move(workspace));
  return {kept, &kept->session};
}

store::UnitOfWork& unit_of(sql::Transaction& transaction) {
  return static_cast<UnitSession&>(transaction.session()).unit();
}

}  // namespace semel::engine
