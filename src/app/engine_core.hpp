// What is behind `semel::Engine`: the registry, a driver, and clients of the workspaces.
#pragma once

#include "app/adoption.hpp"
#include "app/client_port.hpp"
#include "app/idempotency_port.hpp"
#include "engine/driver.hpp"
#include "engine/registry.hpp"
#include "store/key_reader.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace semel::detail {

/// What an engine stands on.
struct Surroundings {
  bool has_timers =
      true;  ///< leases are renewed and duplicates may wait; not where the clock moves when told to
  bool is_shared = false;  ///< others have the store open, too
  std::string node{};      ///< what this process is called among them
};

class EngineCore {
 public:
  using MakeDriver = std::function<std::unique_ptr<engine::Driver>(const engine::Registry&,
                                                                   engine::StepClientFactory)>;

  EngineCore(const EngineOptions& options, const MakeDriver& make_driver,
             Surroundings surroundings = {});
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;
  ~EngineCore();

  void add(WorkflowType type);
  std::shared_ptr<ClientPort> port(const std::string& workspace);
  Client& client(const std::string& workspace);

  engine::Driver& driver() { return *driver_; }

  /// On PostgreSQL, where transactions of the program's own may do what the engine has to look at.
  void allow_adoption(std::unique_ptr<store::Hints> hints, bool has_thread) {
    adoption_ = std::make_unique<app::Adoption>(std::move(hints), driver_, has_thread);
  }

  /// None: not on this store.
  app::Adoption* adoption() { return adoption_.get(); }

  using MakeKeyReader = std::function<std::unique_ptr<store::KeyReader>()>;

  /// On a store whose API keys other processes change, too.
  void share_keys(MakeKeyReader make) { make_key_reader_ = std::move(make); }

  /// None: only this process has the store.
  std::unique_ptr<store::KeyReader> make_key_reader() const {
    return make_key_reader_ ? make_key_reader_() : nullptr;
  }

  IdempotencyStore& idempotency() { return *reservations_; }

  /// For what is served from outside.
  std::shared_ptr<const engine::Registry> registry() const { return registry_; }

  std::shared_ptr<engine::Driver> shared_driver() const { return driver_; }

  std::shared_ptr<idempotency::Kernel> kernel() const { return kernel_; }

  const EngineOptions& options() const { return options_; }

  const std::string& node() const { return node_; }

 private:
  std::shared_ptr<engine::Registry> registry_ = std::make_shared<engine::Registry>();
  EngineOptions options_;
  std::string node_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<ClientPort>> ports_;
  std::map<std::string, std::unique_ptr<Client>> clients_;
  std::shared_ptr<engine::Driver> driver_;
  std::shared_ptr<idempotency::Kernel> kernel_;
  std::unique_ptr<IdempotencyStore> reservations_;
  std::unique_ptr<app::Adoption> adoption_;
  MakeKeyReader make_key_reader_;
};

}  // namespace semel::detail
