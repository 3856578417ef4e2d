#include "app/adoption.hpp"

#include "store/postgres/adopted.hpp"

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
  // Where the database is out of reach the engine knows by itself, and looks at everything when it is back.
  if (!found) return true;
  if (found->wake.empty() && found->created.empty() && found->ended.empty() &&
      found->opened.empty() && found->moved.empty())
    return true;
  return driver_->post([effects = *std::move(found)](engine::Loop& loop, TimePoint now) {
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
