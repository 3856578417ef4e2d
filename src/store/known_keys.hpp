// What may be among many keys in a store, without a look at it: a filter over their hashes. It is filled from the store in
// the background when that is opened, and until then any key may be there.
#pragma once

#include "store/key_filter.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <stop_token>
#include <thread>

namespace semel::store {

class KnownKeys {
 public:
  static constexpr std::size_t filter_bytes_default = std::size_t{64} << 20U;

  explicit KnownKeys(std::size_t filter_bytes_max = filter_bytes_default);
  KnownKeys(const KnownKeys&) = delete;
  KnownKeys& operator=(const KnownKeys&) = delete;
  ~KnownKeys() = default;

  // From any thread:

  /// False only where the key is certainly not there.
  bool may_have(std::size_t hash);

  /// Whoever looks behind this finds it.
  void add(std::size_t hash);

  // From the thread that executes the store's commands, not while a transaction is open:

  /// Calls with the hashes of all keys that are stored until it says that it is enough. Throws where it fails.
  using Visit = std::function<bool(std::size_t hash)>;
  using Scan = std::function<void(const Visit&)>;

  enum class Fill : std::uint8_t {
    empty,          ///< nothing is stored: scanned only once the filter ran full
    at_once,        ///< before this returns
    in_background,  ///< on a thread of its own
  };

  /// The store was opened. What is stored from now on is added by those who store it.
  void begin_anew(Scan scan, Fill fill);

  /// Keys that were swept leave no gap in the filter: one that ran full is filled anew, now and then; and so is one that
  /// could not be filled. For whoever calls behind each transaction.
  void renew_if_due();

 private:
  struct Keys {
    explicit Keys(std::size_t bytes_max) : filter(bytes_max) {}

    KeyFilter filter;
    std::atomic<bool> is_complete = false;  ///< all that was stored before is in it
    std::atomic<bool> has_failed = false;   ///< and will not be
  };

  void fill(const std::shared_ptr<Keys>& keys, const std::stop_token& stop);

  const std::size_t filter_bytes_max_;
  std::shared_mutex keys_mutex_;  ///< of the pointer
  std::shared_ptr<Keys> keys_;
  Scan scan_;
  bool in_background_ = true;
  int calls_since_failure_ = 0;
  std::jthread filler_;
};

}  // namespace semel::store
