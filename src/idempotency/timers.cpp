#include "idempotency/timers.hpp"

#include "base/clock.hpp"

#include <pthread.h>

namespace semel::idempotency {

Timers::~Timers() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_all();
  if (!thread_.joinable()) return;
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

Timers::Id Timers::after(std::chrono::nanoseconds delay, std::function<void()> action) {
  const auto due = base::monotonic_now() + delay;
  const std::lock_guard lock(state_->mutex);
  const Id id = state_->next++;
  state_->actions.emplace(State::Due{due, id}, std::move(action));
  state_->due.emplace(id, due);
  if (!thread_.joinable()) {
    thread_ = std::thread([state = state_] { run(*state); });
  } else if (due < state_->looks_at) {
    state_->changed.notify_all();
  }
  return id;
}

bool Timers::cancel(Id id) {
  std::function<void()> dropped;  // outside the lock: what it holds may end here
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->due.find(id);
  if (found == state_->due.end()) return false;
  const auto action = state_->actions.find({found->second, id});
  dropped = std::move(action->second);
  state_->actions.erase(action);
  state_->due.erase(found);
  return true;
}

void Timers::run(State& state) {
  pthread_setname_np(pthread_self(), "semel-timers");
  std::unique_lock lock(state.mutex);
  while (!state.stopping) {
    if (state.actions.empty()) {
      state.looks_at = std::chrono::nanoseconds::max();
      state.changed.wait(lock);
      continue;
    }
    const auto first = state.actions.begin();
    state.looks_at = first->first.first;
    const auto delay = first->first.first - base::monotonic_now();
    if (delay > std::chrono::nanoseconds{0}) {
      state.changed.wait_for(lock, delay);
      continue;
    }
    std::function<void()> action = std::move(first->second);
    state.due.erase(first->first.second);
    state.actions.erase(first);
    lock.unlock();
    action();
    action = nullptr;
    lock.lock();
  }
}

}  // namespace semel::idempotency
