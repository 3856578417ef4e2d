#include "http/event_loops.hpp"

#include "base/clock.hpp"
#include "http/request_errand.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>

namespace semel::http {

namespace asio = boost::asio;

namespace {

/// What the store was asked for is often back in so long; to be woken up takes a fifth of it.
constexpr std::chrono::microseconds soon{100};

/// For answers of the store to requests of this thread. Gives way to whoever wants the processor. True where something
/// came.
bool look_out(asio::io_context& io, const RequestErrands& errands) {
  const auto until = base::monotonic_now() + soon;
  while (errands.is_any_out() && base::monotonic_now() < until) {
    if (io.poll_one() > 0) return true;
    std::this_thread::yield();
  }
  return false;
}

void run(asio::io_context& io) {
  RequestErrands errands;
  for (;;) {
    if (io.poll_one() > 0) {
      errands.set_out_if_due();
      continue;
    }
    errands.set_out();
    if (!look_out(io, errands) && io.run_one() == 0) return;
  }
}

}  // namespace

struct EventLoops::Works {
  std::vector<asio::executor_work_guard<asio::io_context::executor_type>> guards;
};

EventLoops::EventLoops(unsigned threads) : works_(std::make_unique<Works>()) {
  for (unsigned i = 0; i < std::max(threads, 1U); ++i) {
    loops_.push_back(std::make_shared<asio::io_context>(1));
    works_->guards.emplace_back(loops_.back()->get_executor());
  }
  for (const auto& loop : loops_) threads_.emplace_back([io = loop.get()] { run(*io); });
}

// What could throw here are threads of a broken process.
EventLoops::~EventLoops() { stop(); }  // NOLINT(bugprone-exception-escape)

void EventLoops::stop() {
  works_->guards.clear();
  threads_.clear();
}

}  // namespace semel::http
