#include "app/engine_core.hpp"

namespace semel::detail {

EngineCore::EngineCore(const EngineOptions& options, const MakeDriver& make_driver,
                       Surroundings surroundings)
    : options_(options), node_(std::move(surroundings.node)) {
  driver_ = make_driver(*registry_, [this](const std::string& workspace,
                                           const std::string& step_id) {
    return std::make_shared<Client>(std::make_shared<app::StepClient>(port(workspace), step_id));
  });
  kernel_ = idempotency::Kernel::make(std::make_shared<app::EnginePort>(driver_),
                                      {.answer_bytes_max = options.limits.payload_bytes_max,
                                       .has_timers = surroundings.has_timers,
                                       .is_shared = surroundings.is_shared});
  reservations_ = std::make_unique<app::WorkspaceReservations>(kernel_, "default");
}

EngineCore::~EngineCore() {
  adoption_.reset();
  driver_->stop();
  kernel_->dismiss_waiters();
}

void EngineCore::add(WorkflowType type) {
  const std::string name = type.name;
  registry_->add(std::move(type));
  driver_->post([name](engine::Loop& loop, TimePoint) { loop.workflow_added(name); });
}

std::shared_ptr<ClientPort> EngineCore::port(const std::string& workspace) {
  if (workspace.empty() || workspace.size() > 255) {
    throw Error("VALIDATION_ERROR", "a workspace's name has 1 to 255 bytes");
  }
  const std::lock_guard lock(mutex_);
  auto& port = ports_[workspace];
  if (!port) port = std::make_shared<app::WorkspaceClient>(registry_, driver_, workspace, options_);
  return port;
}

Client& EngineCore::client(const std::string& workspace) {
  auto connected = port(workspace);
  const std::lock_guard lock(mutex_);
  auto& client = clients_[workspace];
  if (!client) client = std::make_unique<Client>(std::move(connected));
  return *client;
}

}  // namespace semel::detail
