#include "http/event_loops.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>

namespace semel::http {

namespace asio = boost::asio;

struct EventLoops::Works {
  std::vector<asio::executor_work_guard<asio::io_context::executor_type>> guards;
};

EventLoops::EventLoops(unsigned threads) : works_(std::make_unique<Works>()) {
  for (unsigned i = 0; i < std::max(threads, 1U); ++i) {
    loops_.push_back(std::make_shared<asio::io_context>(1));
    works_->guards.emplace_back(loops_.back()->get_executor());
  }
  for (const auto& loop : loops_) threads_.emplace_back([io = loop.get()] { io->run(); });
}

// What could throw here are threads of a broken process.
EventLoops::~EventLoops() { stop(); }  // NOLINT(bugprone-exception-escape)

void EventLoops::stop() {
  works_->guards.clear();
  threads_.clear();
}

}  // namespace semel::http
