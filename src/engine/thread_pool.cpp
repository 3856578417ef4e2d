#include "engine/thread_pool.hpp"

#include <system_error>
#include <utility>

namespace semel::engine {

namespace {

thread_local ThreadPool* this_threads_pool = nullptr;

}  // namespace

ThreadPool::ThreadPool(unsigned threads_max) : threads_max_(threads_max == 0 ? 1 : threads_max) {
  // The first one now: without any, nothing could be promised.
  threads_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  std::vector<std::jthread> threads;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    queue_.clear();
    threads = std::exchange(threads_, {});
  }
  work_ready_.notify_all();
}

void ThreadPool::submit(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  add_thread_if_needed();
  work_ready_.notify_one();
}

void ThreadPool::add_thread_if_needed() {
  if (resting_ >= queue_.size() || threads_.size() >= threads_max_ + blocked_ || stopping_) return;
  try {
    threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // The system has no more threads for us: those that there are get to it.
    return;
  }
}

void ThreadPool::work() {
  this_threads_pool = this;
  std::unique_lock lock(mutex_);
  for (;;) {
    ++resting_;
    // Threads made while others were blocked stay, and do not make it more at a time.
    work_ready_.wait(lock, [this] { return stopping_ || (!queue_.empty() && may_work()); });
    --resting_;
    if (stopping_) return;
    auto next = std::move(queue_.front());
    queue_.pop_front();
    ++working_;
    lock.unlock();
    next();
    next = nullptr;
    lock.lock();
    --working_;
  }
}

ThreadPool::Blocked::Blocked() : pool_(this_threads_pool) {
  if (pool_ == nullptr) return;
  const std::lock_guard lock(pool_->mutex_);
  ++pool_->blocked_;
  pool_->add_thread_if_needed();
  pool_->work_ready_.notify_one();
}

ThreadPool::Blocked::~Blocked() {
  if (pool_ == nullptr) return;
  const std::lock_guard lock(pool_->mutex_);
  --pool_->blocked_;
}

}  // namespace semel::engine
