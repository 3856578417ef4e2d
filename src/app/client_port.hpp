// A workspace's calls, on top of a driver.
#pragma once

#include "engine/driver.hpp"
#include "engine/registry.hpp"

#include <semel/engine.hpp>

#include <atomic>
#include <memory>
#include <string>

namespace semel::app {

/// Throws CALL_INSIDE_WORKFLOW from a workflow's own code.
void refuse_inside_workflow();

class WorkspaceClient final : public detail::ClientPort {
 public:
  WorkspaceClient(std::shared_ptr<const engine::Registry> registry,
                  std::shared_ptr<engine::Driver> driver, std::string workspace,
                  const EngineOptions& options)
      : registry_(std::move(registry)),
        driver_(std::move(driver)),
        workspace_(std::move(workspace)),
        limits_(options.limits),
        retention_(base::bounded(options.retention)) {}

  std::pair<std::string, bool> start(detail::StartSpec spec) override;
  std::vector<std::string> list(const RunFilter& filter) override;
  Resumed resume(const std::string& token, std::string payload,
                 const ResumeOptions& options) override;
  std::pair<std::string, bool> resume_or_start(const std::string& token, std::string payload,
                                               detail::StartSpec spec,
                                               std::optional<std::string> resume_id) override;
  std::pair<std::string, bool> start_in(sql::Transaction& transaction,
                                        detail::StartSpec spec) override;
  Resumed resume_in(sql::Transaction& transaction, const std::string& token, std::string payload,
                    const ResumeOptions& options) override;
  void transact(const std::function<void(sql::Transaction&)>& function) override;
  HookInfo hook(const std::string& token) override;
  detail::RunInfo look(const std::string& id) override;
  std::vector<Entry> journal(const std::string& id) override;
  std::vector<std::string> stream(const std::string& id, const std::string& stream,
                                  std::uint64_t from) override;
  detail::RunEnd wait(const std::string& id, std::optional<Millis> limit) override;
  void when_over(const std::string& id, std::function<void(detail::RunEnd)> then,
                 std::function<void(std::exception_ptr)> failed) override;
  void cancel(const std::string& id, const CancelOptions& options) override;
  void retry(const std::string& id, const RunOptions& options) override;
  std::string fork(const std::string& id, std::uint64_t seq, const RunOptions& options) override;
  int wake(const std::string& id, const RunOptions& options) override;

 private:
  engine::StartInput start_input(detail::StartSpec spec);
  store::Deliver delivery(const std::string& token, std::string payload,
                          const ResumeOptions& options) const;
  std::optional<store::RunRecord> look_up(const std::string& id);
  store::RunRecord record(const std::string& id);
  std::vector<store::StoredEntry> entries(const std::string& id);

  // Shared: a handle to a run may outlive the engine; its calls are then refused.
  std::shared_ptr<const engine::Registry> registry_;
  std::shared_ptr<engine::Driver> driver_;
  std::string workspace_;
  Limits limits_;
  std::chrono::nanoseconds retention_;
};

/// What a step body is given: starts without a key and resumes without an id get one from the step's id and the call's
/// number, so a retried step does not do them twice.
class StepClient final : public detail::ClientPort {
 public:
  StepClient(std::shared_ptr<detail::ClientPort> inner, std::string step_id)
      : inner_(std::move(inner)), step_id_(std::move(step_id)) {}

  std::pair<std::string, bool> start(detail::StartSpec spec) override;

  Resumed resume(const std::string& token, std::string payload,
                 const ResumeOptions& options) override;
  std::pair<std::string, bool> resume_or_start(const std::string& token, std::string payload,
                                               detail::StartSpec spec,
                                               std::optional<std::string> resume_id) override;

  std::pair<std::string, bool> start_in(sql::Transaction& transaction,
                                        detail::StartSpec spec) override {
    return inner_->start_in(transaction, std::move(spec));
  }

  Resumed resume_in(sql::Transaction& transaction, const std::string& token, std::string payload,
                    const ResumeOptions& options) override {
    return inner_->resume_in(transaction, token, std::move(payload), options);
  }

  void transact(const std::function<void(sql::Transaction&)>& function) override {
    inner_->transact(function);
  }

  HookInfo hook(const std::string& token) override { return inner_->hook(token); }

  std::vector<std::string> list(const RunFilter& filter) override { return inner_->list(filter); }

  detail::RunInfo look(const std::string& id) override { return inner_->look(id); }

  std::vector<Entry> journal(const std::string& id) override { return inner_->journal(id); }

  std::vector<std::string> stream(const std::string& id, const std::string& stream,
                                  std::uint64_t from) override {
    return inner_->stream(id, stream, from);
  }

  detail::RunEnd wait(const std::string& id, std::optional<Millis> limit) override {
    return inner_->wait(id, limit);
  }

  void when_over(const std::string& id, std::function<void(detail::RunEnd)> then,
                 std::function<void(std::exception_ptr)> failed) override {
    inner_->when_over(id, std::move(then), std::move(failed));
  }

  void cancel(const std::string& id, const CancelOptions& options) override {
    inner_->cancel(id, options);
  }

  void retry(const std::string& id, const RunOptions& options) override {
    inner_->retry(id, options);
  }

  std::string fork(const std::string& id, std::uint64_t seq, const RunOptions& options) override {
    return inner_->fork(id, seq, options);
  }

  int wake(const std::string& id, const RunOptions& options) override {
    return inner_->wake(id, options);
  }

 private:
  std::string next_call();

  std::shared_ptr<detail::ClientPort> inner_;
  std::string step_id_;
  std::atomic<int> calls_{0};
};

}  // namespace semel::app
