// Claims: who does the work of a key before the store has heard of it.
//
// Work that ends with its process need not be durable before it begins: where the process dies, nobody has been told
// anything and the work is done anew. It is enough that nobody else in the process gets the key, and there is only one
// process with a store's file. So a key that nobody can have is claimed here, in memory, and what comes of the work is the
// store's first word of it: one row, reserved and finished.
//
// Whoever claims a key enters the claim and only then looks whether the key may be stored. Whoever gives a key out in the
// store notes it and only then looks for a claim. One of the two sees the other. Whoever stores what came of a claim notes
// the key behind the commit, before the claim goes.
//
// What may be stored is known by a filter over all keys; until that is filled nothing can be claimed. A claim lasts until
// its outcome is committed or it is given up, and so it may outlive the store that is closed and opened anew.
#pragma once

#include "store/known_keys.hpp"
#include "store/reservation.hpp"

#include <array>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace semel::store {

class KeyClaims {
 public:
  explicit KeyClaims(std::size_t filter_bytes_max = KnownKeys::filter_bytes_default)
      : stored_(filter_bytes_max) {}

  KeyClaims(const KeyClaims&) = delete;
  KeyClaims& operator=(const KeyClaims&) = delete;
  ~KeyClaims() = default;

  // From any thread:

  enum class Claimed : std::uint8_t {
    yes,        ///< until `leave`
    no,         ///< somebody has it, or may have
    withdrawn,  ///< the same; others may have met the claim meanwhile
  };

  Claimed claim(const Reserve& ask, TimePoint lease_until);

  /// Nothing came of it.
  void leave(const ReservationId& id);

  /// What came of it is committed: the key is stored from here on.
  void settle(const ReservationId& id);

  // From the thread that executes the store's commands:

  /// What others meet.
  struct Claim {
    std::string fingerprint;
    TimePoint lease_until{};
  };

  /// The key, which is not the asker's by a claim, is about to be given out, and may be stored from here on.
  void note(const ReservationId& id);

  /// Behind `note`.
  std::optional<Claim> find(const ReservationId& id);

  /// Calls with all keys that are stored until it says that it is enough. Throws where it fails.
  using Visit = std::function<bool(const ReservationId&)>;
  using Scan = std::function<void(const Visit&)>;
  using Fill = KnownKeys::Fill;

  /// The store was opened. Not while a transaction is open.
  void begin_anew(Scan scan, Fill fill);

  /// See KnownKeys. Not while a transaction is open.
  void renew_if_full() { stored_.renew_if_full(); }

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<ReservationId, Claim, ReservationIdHash> claims;
  };

  Shard& shard_of(std::size_t hash) { return shards_[hash % shards_.size()]; }

  std::array<Shard, 64> shards_;
  KnownKeys stored_;  ///< what may be
};

}  // namespace semel::store
