// The rules of hooks: who gets a token, what becomes of payloads. Each in the transaction of the command that asks.
#pragma once

#include "store/tables.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace semel::store {

/// The id of the run that has the token; none: the hook is open.
std::optional<std::string> open_hook(Tables& tables, std::int64_t workspace, RunKey run,
                                     const HookClaim& claim, TimePoint now);

/// Applies hook changes of one command, in order.
class HookChanges {
 public:
  /// `answer` writes an outcome entry of the run.
  HookChanges(Tables& tables, RunKey run, std::int64_t workspace, TimePoint now,
              std::function<void(std::string)> answer)
      : tables_(tables), run_(run), workspace_(workspace), now_(now), answer_(std::move(answer)) {}

  void apply(const HookChange& change);

  /// Hooks that were released and left payloads.
  const std::vector<HookRow>& released() const { return released_; }

 private:
  void open(const HookChange& change);
  void next(const HookChange& change);
  void close(const HookChange& change);
  void release(const HookRow& hook);
  bool answered_conflict(const HookChange& change);

  Tables& tables_;
  RunKey run_;
  std::int64_t workspace_;
  TimePoint now_;
  std::function<void(std::string)> answer_;
  std::map<std::string, std::pair<std::string, std::string>> conflicts_;  ///< op: token, owner
  std::vector<HookRow> released_;
};

/// Frees the tokens of a run that is over.
void release_at_end(Tables& tables, RunKey run, Status status, TimePoint now, Effects& effects);

/// Payloads that can start a run and whose hook is gone go to whoever has the token now, or start one run.
void pass_on(Tables& tables, const HookRow& gone, TimePoint now, Effects& effects);

/// Answers for `Deliver` and `ResumeOrStart`.
Answer deliver(Tables& tables, const Deliver& command);
Answer resume_or_start(Tables& tables, const ResumeOrStart& command);

}  // namespace semel::store
