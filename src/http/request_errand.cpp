#include "http/request_errand.hpp"

#include "base/clock.hpp"

#include <atomic>
#include <chrono>
#include <utility>
#include <vector>

namespace semel::http {

namespace {

/// While there is more to read, a gathered errand waits for so long: less than a commit takes.
constexpr std::chrono::microseconds gathering_max{100};

}  // namespace

/// One for each thread with connections.
class RequestErrand::ThreadDesk final : public idempotency::Desk {
 public:
  static const std::shared_ptr<ThreadDesk>& here() {
    thread_local const auto desk = std::make_shared<ThreadDesk>();
    return desk;
  }

  // On the desk's thread:

  void gather(bool gathers) {
    gathers_ = gathers;
    if (!gathers) set_out_all();
  }

  void set_out(RequestErrand& errand, idempotency::Port& port) {
    if (!gathers_) return set_out_alone(errand, port);
    if (leaving_.empty()) leave_at_ = base::monotonic_now() + gathering_max;
    leaving_.emplace_back(&errand, &port);
  }

  void set_out_all() {
    for (const auto& [errand, port] : std::exchange(leaving_, {})) set_out_alone(*errand, *port);
  }

  void set_out_if_due() {
    if (!leaving_.empty() && leave_at_ <= base::monotonic_now()) set_out_all();
  }

  // On any:

  void set_out_alone(RequestErrand& errand, idempotency::Port& port) {
    out_.fetch_add(1, std::memory_order_relaxed);
    port.execute(errand);
  }

  bool is_any_out() const { return out_.load(std::memory_order_relaxed) > 0; }

  void go_on(std::vector<idempotency::Errand*> errands) override {
    const std::size_t count = errands.size();
    const auto work = static_cast<RequestErrand*>(errands.front())->work_;
    const auto all = [errands = std::move(errands)] {
      for (idempotency::Errand* each : errands) static_cast<RequestErrand*>(each)->go_on();
    };
    if (!work->post(all)) all();
    // Behind it: until then the thread looks out for what was posted.
    out_.fetch_sub(count, std::memory_order_relaxed);
  }

 private:
  bool gathers_ = false;
  std::vector<std::pair<RequestErrand*, idempotency::Port*>> leaving_;
  std::chrono::nanoseconds leave_at_{};
  std::atomic<std::size_t> out_{0};
};

RequestErrand::RequestErrand(std::shared_ptr<KeyedWork> work) : work_(std::move(work)) {
  desk = ThreadDesk::here();
}

void RequestErrand::set_out(idempotency::Port& port) {
  const auto& here = ThreadDesk::here();
  if (desk == here) return here->set_out(*this, port);
  static_cast<ThreadDesk&>(*desk).set_out_alone(*this, port);
}

RequestErrands::RequestErrands() : desk_(RequestErrand::ThreadDesk::here()) { desk_->gather(true); }

RequestErrands::~RequestErrands() { desk_->gather(false); }

void RequestErrands::set_out() { desk_->set_out_all(); }

void RequestErrands::set_out_if_due() { desk_->set_out_if_due(); }

bool RequestErrands::is_any_out() const { return desk_->is_any_out(); }

}  // namespace semel::http
