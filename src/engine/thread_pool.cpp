#include "engine/thread_pool.hpp"

#include <utility>

namespace semel::engine {

namespace {

thread_local ThreadPool* this_threads_pool = nullptr;

}  // namespace

ThreadPool::ThreadPool(unsigned threads_max) : threads_max_(threads_max == 0 ? 1 : threads_max) {}

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
  threads_.emplace_back([this] { work(); });
}

void ThreadPool::work() {
  this_threads_pool = this;
  std::unique_lock lock(mutex_);
  for (;;) {
    ++resting_;
    work_ready_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    --resting_;
    if (stopping_) return;
    auto next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    next();
    next = nullptr;
    lock.lock();
  }
}

ThreadPool::Blocked::Blocked() : pool_(this_threads_pool) {
  if (pool_ == nullptr) return;
  const std::lock_guard lock(pool_->mutex_);
  ++pool_->blocked_;
  pool_->add_thread_if_needed();
}

ThreadPool::Blocked::~Blocked() {
  if (pool_ == nullptr) return;
  const std::lock_guard lock(pool_->mutex_);
  --pool_->blocked_;
}

}  // namespace semel::engine
