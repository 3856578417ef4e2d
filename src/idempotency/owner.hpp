// Who calls: the step whose body runs on this thread.
#pragma once

#include <string>

namespace semel::idempotency {

/// While it lives, what is reserved from this thread belongs to the step.
class StepScope {
 public:
  /// `step_id` outlives the scope.
  explicit StepScope(const std::string& step_id);
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;
  ~StepScope();

 private:
  const std::string* outer_;
};

/// The step's id; empty outside of one.
const std::string& current_step();

}  // namespace semel::idempotency
