#include "idempotency/owner.hpp"

#include <utility>

namespace semel::idempotency {

namespace {

const std::string nobody;
thread_local const std::string* step = &nobody;

}  // namespace

StepScope::StepScope(const std::string& step_id) : outer_(std::exchange(step, &step_id)) {}

StepScope::~StepScope() { step = outer_; }

const std::string& current_step() { return *step; }

}  // namespace semel::idempotency
