#include "tests/simulation/outside.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace semel::sim {

const Outside::Step* Outside::find(const std::string& id) const {
  const auto found = steps_.find(id);
  return found == steps_.end() ? nullptr : &found->second;
}

void Outside::note_due(TimePoint now) {
  for (auto& [id, step] : steps_) {
    for (auto& [number, attempt] : step.attempts)
      attempt.was_due = attempt.was_due || attempt.deadline <= now;
  }
}

void Outside::count_effect(Step& step) {
  ++effects_;
  if (step.effects++ == 0) step.first_effect = effects_;
}

int Outside::work(const StepContext& context, int x) {
  count_effect(step(context.id));
  return 2 * x + 1;
}

int Outside::flaky_work(const StepContext& context, int x, int throws_max) {
  Step& self = step(context.id);
  if (self.thrown < throws_max && random_.one_in(2)) {
    ++self.thrown;
    if (random_.one_in(3)) throw RetryableError("not yet", Millis{100 + random_.below(2000)});
    throw std::runtime_error("no luck");
  }
  return work(context, x);
}

int Outside::stubborn_work(const StepContext& context, int x, int until) {
  if (step(context.id).begun <= until) throw FatalError("it cannot be done", {{"x", x}});
  return work(context, x);
}

void Outside::trip(const std::string& who, int throws_max) {
  if (trips_[who] == throws_max || random_.one_in(2)) return;
  ++trips_[who];
  throw std::runtime_error("tripped");
}

int Outside::poison(const StepContext& context) {
  if (!poison_kills) return work(context, 0);
  killed_ = true;
  throw std::runtime_error("nobody will hear of this");
}

void Outside::beat(const StepContext& context) {
  Step& self = step(context.id);
  const int handed = context.progress.is_null() ? 0 : static_cast<int>(context.progress.as_int64());
  // What the attempt before reported may be lost with its process, but never comes from nowhere.
  if (handed > self.progress) {
    complaint = fmt::format("step {} was handed progress {}, but {} was the last reported",
                            context.id, handed, self.progress);
  }
  context.heartbeat(++self.progress);
}

std::coroutine_handle<> Outside::take_paused(const std::string& step_id) {
  const auto found = paused_.find(step_id);
  if (found == paused_.end()) return {};
  const std::coroutine_handle<> waiting = found->second;
  paused_.erase(found);
  return waiting;
}

}  // namespace semel::sim
