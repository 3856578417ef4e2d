// Reservations on top of a driver: they share the engine's commits.
#pragma once

#include "engine/driver.hpp"
#include "idempotency/kernel.hpp"

#include <semel/idempotency.hpp>

#include <memory>
#include <string>

namespace semel::app {

class EnginePort final : public idempotency::Port {
 public:
  explicit EnginePort(std::shared_ptr<engine::Driver> driver) : driver_(std::move(driver)) {}

  /// The reply comes from inside the engine. Throws CALL_INSIDE_WORKFLOW.
  void execute(store::Command command, Reply reply) override;
  void execute(idempotency::Errand& errand) override;
  /// Throws CALL_INSIDE_WORKFLOW, CALL_ON_LOOP, ENGINE_STOPPED.
  base::Result<store::Answer> call(store::Command command) override;
  void go_on(std::function<void()> action) override;

  TimePoint now() const override { return driver_->now(); }

  store::KeyClaims* claims() override { return driver_->claims(); }

 private:
  std::shared_ptr<engine::Driver> driver_;
};

/// A workspace's view of the engine's kernel.
class WorkspaceReservations final : public IdempotencyStore {
 public:
  WorkspaceReservations(std::shared_ptr<idempotency::Kernel> kernel, std::string workspace)
      : kernel_(std::move(kernel)), workspace_(std::move(workspace)) {}

  idempotency::Kernel& kernel() override { return *kernel_; }

  const std::string& workspace() const override { return workspace_; }

 private:
  std::shared_ptr<idempotency::Kernel> kernel_;
  std::string workspace_;
};

}  // namespace semel::app
