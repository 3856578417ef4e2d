// The clients of the simulated engine: they make calls by chance and hold the engine to its answers.
#pragma once

#include "base/random.hpp"
#include "engine/loop.hpp"
#include "tests/simulation/checks.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace semel::sim {

class Clients {
 public:
  using Trace = std::function<void(const std::string& line)>;

  Clients(Checks& checks, base::SeededRandom& random, bool with_poison, Trace trace)
      : checks_(checks), random_(random), with_poison_(with_poison), trace_(std::move(trace)) {}

  /// One call, chosen by chance; a start only if it may be.
  void call(engine::Loop& loop, TimePoint now, bool may_start);
  /// An operator's retry of this run.
  void retry(engine::Loop& loop, TimePoint now, const Known& run);

  /// The process is gone: nobody is answered any more.
  void disconnect() { open_.clear(); }

  /// Calls that were not answered.
  const std::map<std::uint64_t, std::string>& open() const { return open_; }

  std::uint64_t answered() const { return answered_; }

 private:
  struct Start {
    std::string workspace;
    std::string workflow;
    std::string input;
    StartOptions options;
  };

  struct Target {
    std::string workspace;
    std::string id;
    RunKey key;
  };

  void start(engine::Loop& loop, TimePoint now);
  void cancel(engine::Loop& loop, TimePoint now, const Target& target);
  void retry(engine::Loop& loop, TimePoint now, const Target& target, RunOptions options);
  void fork(engine::Loop& loop, TimePoint now, const Target& target);
  void wake(engine::Loop& loop, TimePoint now, const Target& target);
  void watch(engine::Loop& loop, const Target& target);
  void deliver(engine::Loop& loop, TimePoint now);
  void resume_or_start(engine::Loop& loop, TimePoint now);
  void transact(engine::Loop& loop, TimePoint now);

  Start draw_start();
  void draw_policies(StartOptions& options);
  std::optional<Target> draw_target(bool (*wanted)(const Known& run));
  std::optional<Target> target_of(const Known& run);
  std::optional<std::uint64_t> draw_version(const Target& target);
  const Known* still(const Target& target);

  void check_started(const Start& start, const engine::StartReply& reply);
  void check_created(const Start& start, const Known& run, RunKey before, bool by_key);
  void check_attached(const Start& start, const Known& run);
  std::string why_not_attached(const Start& start, const Known& run) const;
  void check_refused(const std::string& call, const engine::Refusal& refusal);

  /// A reply that is counted and checked; `then` gets what was answered unless it was refused.
  template <class T>
  engine::Reply<T> reply(std::string call, std::function<void(const T&)> then);

  Checks& checks_;
  base::SeededRandom& random_;
  bool with_poison_;
  Trace trace_;
  std::vector<Start> starts_;
  std::vector<store::Deliver> resumes_;  ///< with a resume id: may be sent again
  std::int64_t payloads_ = 0;
  int transactions_ = 0;
  std::map<std::uint64_t, std::string> open_;
  std::uint64_t calls_ = 0;
  std::uint64_t answered_ = 0;
};

}  // namespace semel::sim
