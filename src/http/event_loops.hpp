// Threads with an event loop each. A listener and the upstreams of a proxy share them: a request that stays on one thread is
// handed to nobody.
#pragma once

#include <memory>
#include <thread>
#include <vector>

namespace boost::asio {
class io_context;  // NOLINT(readability-identifier-naming): not ours
}

namespace semel::http {

class EventLoops {
 public:
  /// They run at once; 0 threads are one.
  explicit EventLoops(unsigned threads);
  ~EventLoops();

  EventLoops(const EventLoops&) = delete;
  EventLoops& operator=(const EventLoops&) = delete;

  /// Whoever has something on a loop keeps it: what is late must not find it gone.
  const std::vector<std::shared_ptr<boost::asio::io_context>>& all() const { return loops_; }

  /// Returns when nothing is under way on them, so whoever has something there ends that first. Idempotent.
  void stop();

 private:
  struct Works;

  std::vector<std::shared_ptr<boost::asio::io_context>> loops_;
  std::unique_ptr<Works> works_;  ///< without them a loop ends when it has nothing to do
  std::vector<std::jthread> threads_;
};

}  // namespace semel::http
