#include "idempotency/memory_store.hpp"

#include "idempotency/memory_reservations.hpp"

namespace semel::idempotency {

namespace {

class MemoryPort final : public Port {
 public:
  explicit MemoryPort(std::shared_ptr<const base::Clock> clock) : clock_(std::move(clock)) {}

  void execute(store::Command command, Reply reply) override { reply(call(std::move(command))); }

  base::Result<store::Answer> call(store::Command command) override {
    set_now(command, now());
    return reservations_.execute(command);
  }

  void go_on(std::function<void()> action) override { action(); }

  TimePoint now() const override { return clock_->now(); }

 private:
  std::shared_ptr<const base::Clock> clock_;
  MemoryReservations reservations_;
};

class MemoryStore final : public IdempotencyStore {
 public:
  explicit MemoryStore(std::shared_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}

  Kernel& kernel() override { return *kernel_; }

  const std::string& workspace() const override { return workspace_; }

 private:
  std::shared_ptr<Kernel> kernel_;
  std::string workspace_ = "default";
};

}  // namespace

std::shared_ptr<Port> make_memory_port(std::shared_ptr<const base::Clock> clock) {
  return std::make_shared<MemoryPort>(std::move(clock));
}

std::unique_ptr<IdempotencyStore> make_memory_store(std::shared_ptr<const base::Clock> clock,
                                                    const KernelOptions& options) {
  return std::make_unique<MemoryStore>(Kernel::make(make_memory_port(std::move(clock)), options));
}

}  // namespace semel::idempotency

namespace semel {

std::unique_ptr<IdempotencyStore> memory_idempotency_store() {
  return idempotency::make_memory_store(std::make_shared<base::SystemClock>());
}

}  // namespace semel
