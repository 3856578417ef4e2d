// Threads for blocking step bodies: made when needed, at most so many at work at a time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace semel::engine {

class ThreadPool {
 public:
  explicit ThreadPool(unsigned threads_max);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  /// Waits for the work that has begun; what has not is dropped.
  ~ThreadPool();

  void submit(std::function<void()> work);

  /// While a body waits inside an engine call it does not count: otherwise bodies that wait for other runs' steps could
  /// take all the threads those steps need.
  class Blocked {
   public:
    Blocked();
    Blocked(const Blocked&) = delete;
    Blocked& operator=(const Blocked&) = delete;
    ~Blocked();

   private:
    ThreadPool* pool_;
  };

 private:
  void work();
  void add_thread_if_needed();

  bool may_work() const { return working_ < threads_max_ + blocked_; }

  const std::size_t threads_max_;
  std::mutex mutex_;
  std::condition_variable work_ready_;
  std::deque<std::function<void()>> queue_;
  std::vector<std::jthread> threads_;
  std::size_t resting_ = 0;  ///< threads that wait for work
  std::size_t working_ = 0;  ///< threads inside a body, blocked or not
  std::size_t blocked_ = 0;  ///< bodies inside engine calls
  bool stopping_ = false;
};

}  // namespace semel::engine
