// A loop with a store, a clock and hands: what its own tests share.
#pragma once

#include "engine/loop.hpp"
#include "tests/contract/model_store.hpp"

#include <semel/semel.hpp>

#include <doctest/doctest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace semel::engine {

using Strings = std::vector<std::string>;

/// Each commit and each body happens when the test says so.
class World : public Host {
 public:
  explicit World(LoopOptions options = {}) : options_(options) { boot(); }

  /// The process ends; another one opens the store.
  void boot() {
    jobs.clear();
    loop_.emplace(registry, random_, *this, options_);
    store_ = store::make_model_store(model);
    loop().open(now);
    loop().start_workers(now);
  }

  Loop& loop() { return *loop_; }

  bool commit() {
    if (!loop().has_batch()) return false;
    Batch batch = loop().take_batch();
    ++commits;
    auto done = store_->execute(batch.commands);
    loop().committed(std::move(batch), std::move(done), now);
    return true;
  }

  /// Executes the next batch; its answers are taken up when the test says so.
  ExecutedBatch execute() {
    Batch batch = loop().take_batch();
    ++commits;
    auto done = store_->execute(batch.commands);
    return {std::move(batch), std::move(done)};
  }

  void commit_all() {
    while (commit()) {
    }
  }

  /// The commit happens, or not, and its answer is lost.
  void lose_commit(bool happens) {
    Batch batch = loop().take_batch();
    if (happens) static_cast<void>(store_->execute(batch.commands));
    loop().committed(std::move(batch), base::Fault{base::Errc::unavailable, "connection lost"},
                     now);
  }

  void tick() {
    loop().tick(now);
    commit_all();
  }

  /// The body of the oldest attempt that was handed out.
  StepOutcome run_body(const StepJob& job) {
    StepContext context;
    context.attempt = static_cast<int>(job.attempt);
    context.id = job.step_id;
    StepOutcome outcome;
    try {
      outcome.value = job.body->run(context);
    } catch (...) {
      outcome = outcome_of(std::current_exception());
    }
    return outcome;
  }

  StepJob take_job() {
    REQUIRE(!jobs.empty());
    StepJob job = std::move(jobs.front());
    jobs.pop_front();
    return job;
  }

  void finish(const StepJob& job) {
    loop().step_finished(job.run, job.op, job.attempt, run_body(job), now);
  }

  void run_all() {
    commit_all();
    while (!jobs.empty()) {
      finish(take_job());
      commit_all();
    }
  }

  template <class F>
  void add(const std::string& name, F workflow) {
    registry.add(detail::workflow_type(name, workflow, 1, workflow));
  }

  void start(const std::string& workflow, const std::string& id, const std::string& input = "[]") {
    StartInput start;
    start.workflow = workflow;
    start.input = input;
    start.options.run_id = id;
    loop().start(start, answer<StartReply>(), now);
  }

  void cancel(const std::string& id) {
    loop().cancel("default", id, {}, answer<std::monostate>(), now);
  }

  void resume(const std::string& token, const std::string& payload,
              const std::optional<std::string>& resume_id = std::nullopt) {
    loop().deliver({.token = token,
                    .payload = payload,
                    .resume_id = resume_id,
                    .fingerprint = resume_id ? payload : ""},
                   answer<DeliverReply>(), now);
  }

  void wake(const std::string& id) { loop().wake("default", id, {}, answer<int>(), now); }

  void retry(const std::string& id) {
    loop().retry("default", id, {}, answer<std::monostate>(), now);
  }

  void fork(const std::string& id) {
    loop().fork("default", id, 0, {}, answer<std::string>(), now);
  }

  void watch(const std::string& id, const std::weak_ptr<const void>& caller) {
    loop().watch("default", id, answer<detail::RunEnd>(), 0, caller);
  }

  void watch(const std::string& id) { loop().watch("default", id, answer<detail::RunEnd>()); }

  const store::Model::Run& run(const std::string& id) const {
    for (const auto& [key, run] : model->runs) {
      if (run.made.id == id) return run;
    }
    FAIL("no run " << id);
    std::abort();
  }

  store::Status status(const std::string& id) const { return run(id).status; }

  std::vector<std::string> kinds(const std::string& id) const {
    std::vector<std::string> found;
    for (const auto& [at, bytes] : run(id).entries) {
      found.emplace_back(to_string(journal::decode(bytes)->arrival.kind));
    }
    return found;
  }

  Registry registry;
  std::shared_ptr<store::Model> model = std::make_shared<store::Model>();
  TimePoint now{std::chrono::sys_days{std::chrono::year{2030} / 1 / 1}};
  std::deque<StepJob> jobs;
  std::vector<LogEvent> logged;
  std::vector<std::string> answers;  ///< "ok" or the code of a refusal, in the order they came
  int commits = 0;

 private:
  void run_step(StepJob job) override { jobs.push_back(std::move(job)); }

  void log(const LogEvent& event) override { logged.push_back(event); }

  template <class T>
  Reply<T> answer() {
    return [this](const std::variant<T, Refusal>& answer) {
      const auto* refusal = std::get_if<Refusal>(&answer);
      answers.push_back(refusal == nullptr ? "ok" : refusal->code);
    };
  }

  LoopOptions options_;
  base::SeededRandom random_{1};
  std::unique_ptr<store::Store> store_;
  std::optional<Loop> loop_;
};

}  // namespace semel::engine
