#include "app/adoption.hpp"

#include "store/postgres/adopted.hpp"

#include <utility>

namespace semel::app {

namespace {

/// An idle engine asks for little more than this.
constexpr std::chrono::seconds look_every{1};
/// Set aside at a time.
constexpr std::int64_t keys_count = 256;

}  // namespace

Adoption::Adoption(std::unique_ptr<store::Hints> hints, std::shared_ptr<engine::Driver> driver,
                   bool has_thread)
    : driver_(std::move(driver)), port_(driver_), hints_(std::move(hints)) {
  if (has_thread)
    thread_ = std::jthread([this](const std::stop_token& stopped) { watch(stopped); });
}

std::shared_ptr<store::UnitOfWork> Adoption::adopt(pg_conn* connection) {
  return store::postgres::adopt(connection, {.clock = [this] { return driver_->now(); },
                                             .new_run_key = [this] { return new_run_key(); }});
}

bool Adoption::look() {
  auto found = hints_->take();
  if (!found) {
    // They may be deleted and never have arrived, and the engine's own connection well.
    has_lost_some_ = true;
    return true;
  }
  const bool has_lost_some = std::exchange(has_lost_some_, false);
  if (!has_lost_some && found->wake.empty() && found->created.empty() && found->ended.empty() &&
      found->opened.empty() && found->moved.empty())
    return true;
  return driver_->post(
      [has_lost_some, effects = *std::move(found)](engine::Loop& loop, TimePoint now) {
        if (has_lost_some) loop.hints_lost(now);
        loop.hinted(effects, now);
      });
}

void Adoption::watch(const std::stop_token& stopped) {
  const std::stop_callback stop{stopped, [this] { hints_->interrupt(); }};
  do {
    hints_->wait(look_every);
  } while (!stopped.stop_requested() && look());
}

store::RunKey Adoption::new_run_key() {
  const std::lock_guard lock(mutex_);
  if (next_key_ == keys_end_) {
    const auto answer = port_.call(store::ReserveKeys{.keys_count = keys_count});
    if (!answer) throw Error("STORE_UNAVAILABLE", answer.error().message);
    next_key_ = std::get<store::KeysReserved>(*answer).first_key;
    keys_end_ = next_key_ + keys_count;
  }
  return next_key_++;
}

}  // namespace semel::app
