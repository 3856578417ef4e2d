#include "store/known_keys.hpp"

#include <mutex>
#include <utility>

namespace semel::store {

namespace {

/// What kept the keys from being read may be over by then.
constexpr int transactions_until_retry = 1000;

}  // namespace

KnownKeys::KnownKeys(std::size_t filter_bytes_max)
    : filter_bytes_max_(filter_bytes_max), keys_(std::make_shared<Keys>(filter_bytes_max)) {}

bool KnownKeys::may_have(std::size_t hash) {
  const std::shared_lock lock(keys_mutex_);
  return !keys_->is_complete.load(std::memory_order_acquire) || keys_->filter.may_have(hash);
}

void KnownKeys::add(std::size_t hash) {
  const std::shared_lock lock(keys_mutex_);
  keys_->filter.add(hash);
}

void KnownKeys::begin_anew(Scan scan, Fill how) {
  filler_ = {};  // the one before has nothing to say any more
  calls_since_failure_ = 0;
  auto keys = std::make_shared<Keys>(filter_bytes_max_);
  {
    const std::lock_guard lock(keys_mutex_);
    keys_ = keys;
  }
  scan_ = std::move(scan);
  in_background_ = how != Fill::at_once;
  switch (how) {
    case Fill::empty:
      keys->is_complete.store(true, std::memory_order_release);
      return;
    case Fill::at_once:
      return fill(keys, {});
    case Fill::in_background:
      filler_ = std::jthread([this, keys](const std::stop_token& stop) { fill(keys, stop); });
  }
}

/// What is stored meanwhile is added by those who store it.
void KnownKeys::fill(const std::shared_ptr<Keys>& keys, const std::stop_token& stop) {
  try {
    scan_([&](std::size_t hash) {
      keys->filter.add(hash);
      return !stop.stop_requested() && !keys->filter.is_full();
    });
  } catch (...) {
    // All may be there, as ever.
    keys->has_failed.store(true, std::memory_order_release);
    return;
  }
  if (!stop.stop_requested()) keys->is_complete.store(true, std::memory_order_release);
}

void KnownKeys::renew_if_due() {
  const bool is_due =
      keys_->filter.is_overrun() || (keys_->has_failed.load(std::memory_order_acquire) &&
                                     ++calls_since_failure_ >= transactions_until_retry);
  if (is_due) begin_anew(scan_, in_background_ ? Fill::in_background : Fill::at_once);
}

}  // namespace semel::store
