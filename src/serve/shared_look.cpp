#include "serve/shared_look.hpp"

#include <utility>

namespace semel::serve {

SharedLook::SharedLook(std::function<bool()> look)
    : look_(std::move(look)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

SharedLook::~SharedLook() {
  thread_.request_stop();
  thread_.join();
  for (const Then& then : waiting_) then(false);
}

void SharedLook::ask(Then then) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(then));
  }
  asked_.notify_one();
}

void SharedLook::run(const std::stop_token& stop) {
  for (;;) {
    std::vector<Then> served;
    {
      std::unique_lock lock(mutex_);
      asked_.wait(lock, stop, [this] { return !waiting_.empty(); });
      if (stop.stop_requested()) return;
      served.swap(waiting_);
    }
    const bool could_look = look_();
    for (const Then& then : served) then(could_look);
  }
}

}  // namespace semel::serve
