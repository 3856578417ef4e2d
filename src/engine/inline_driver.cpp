#include "engine/inline_driver.hpp"

#include "base/assert.hpp"

namespace semel::engine {

InlineDriver::InlineDriver(const Registry& registry, StoreFactory stores, StepClientFactory clients,
                           LoopOptions options)
    : registry_(registry),
      stores_(std::move(stores)),
      clients_(std::move(clients)),
      options_(options),
      // A round date, so that times in a failing test can be read.
      clock_(TimePoint{std::chrono::sys_days{std::chrono::year{2030} / 1 / 1}}) {
  open();
}

InlineDriver::~InlineDriver() {
  jobs_.clear();
  loop_.reset();
}

void InlineDriver::open() {
  auto opened = stores_();
  if (!opened) throw Error("STORE_UNAVAILABLE", opened.error().message);
  store_ = std::move(*opened);
  loop_ = std::make_unique<Loop>(registry_, random_, static_cast<Host&>(*this), options_);
  loop_->open(now());
  loop_->start_workers(now());
}

void InlineDriver::crash() {
  inputs_.clear();
  jobs_.clear();
  loop_.reset();
  store_ = {};
  open();
}

void InlineDriver::commit_all() {
  while (!inputs_.empty() || loop_->has_batch()) {
    while (!inputs_.empty()) {
      Input input = std::move(inputs_.front());
      inputs_.pop_front();
      feed(*loop_, input, now());
    }
    if (!loop_->has_batch()) continue;
    Batch batch = loop_->take_batch();
    auto answers = store_.store->execute(batch.commands);
    if (!answers) throw Error("STORE_UNAVAILABLE", answers.error().message);
    loop_->committed(std::move(batch), std::move(answers), now());
  }
}

bool InlineDriver::run_one_step() {
  if (jobs_.empty()) return false;
  StepJob job = std::move(jobs_.front());
  jobs_.pop_front();
  if (job.body->is_task()) {
    run_task(std::move(job), *this, clients_);
  } else {
    run_blocking(std::move(job), *this, clients_);
  }
  return true;
}

bool InlineDriver::tick_if_due() {
  const auto next = loop_->next_tick();
  if (!next || *next > now()) return false;
  loop_->tick(now());
  return true;
}

void InlineDriver::run_until_idle() {
  do {
    commit_all();
  } while (tick_if_due() || run_one_step() || loop_->has_batch() || !inputs_.empty());
}

void InlineDriver::advance(std::chrono::nanoseconds duration) {
  const TimePoint target = now() + duration;
  run_until_idle();
  for (;;) {
    const auto next = loop_->next_tick();
    if (!next || *next > target) break;
    if (*next > now()) clock_.set(*next);
    run_until_idle();
  }
  clock_.set(target);
  run_until_idle();
}

bool InlineDriver::wait(Waiting& waiting, const Patience& patience) {
  commit_all();
  while (!waiting.done && patience.run_steps) {
    const bool ran = tick_if_due() || run_one_step();
    commit_all();
    if (!ran) break;
  }
  return waiting.done;
}

}  // namespace semel::engine
