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
// Whoever meets a claim is told that somebody is at work, and that is stored: a reservation is made of the claim, which its
// owner asks for when it needs the fence. So a claim that was met is not just left.
//
// What may be stored is known by a filter over all keys; until that is filled nothing can be claimed, nor while the store
// is out of reach. A claim lasts until its outcome is committed or it is given up, and so it may outlive the store that is
// closed and opened anew.
#pragma once

#include "store/known_keys.hpp"
#include "store/reservation.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

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
    yes,  ///< until `leave` says so, or `settle`
    no,   ///< somebody has it, or may have
    met,  ///< somebody may have it, and others have met the claim: the store is to be asked for it, by the claim
  };

  Claimed claim(const Reserve& ask);

  /// Nothing came of it. False: others met it, so it stays until the store was asked by it.
  bool leave(const ReservationId& id);

  /// What came of it is committed: the key is stored from here on.
  void settle(const ReservationId& id);

  /// The store is out of reach, until it is opened anew: nothing can be claimed. What is claimed stays.
  void close() { is_open_.store(false, std::memory_order_release); }

  // From the thread that executes the store's commands:

  /// What others meet.
  struct Claim {
    std::string fingerprint;
    std::chrono::nanoseconds lease{};
  };

  /// The key, which is not the asker's by a claim, is about to be given out, and may be stored from here on.
  void note(const ReservationId& id);

  /// Behind `note`: who is at work on the key already. Nobody leaves a claim that was met.
  std::optional<Claim> meet(const ReservationId& id);

  /// A reservation is made of the claim.
  void reserved(const ReservationId& id, TimePoint lease_until);

  /// Whether that with this lease may have been. Whoever took it over has another.
  bool is_reserved(const ReservationId& id, TimePoint lease_until);

  /// The key is forgotten: what comes of the claim counts for nothing, and nobody meets it any more.
  void revoke(const ReservationId& id);
  bool is_revoked(const ReservationId& id);

  /// Calls with all keys that are stored until it says that it is enough. Throws where it fails.
  using Visit = std::function<bool(const ReservationId&)>;
  using Scan = std::function<void(const Visit&)>;
  using Fill = KnownKeys::Fill;

  /// The store was opened. Not while a transaction is open.
  void begin_anew(Scan scan, Fill fill);

  /// See KnownKeys. Not while a transaction is open.
  void renew_if_due() { stored_.renew_if_due(); }

 private:
  struct Held {
    Claim claim;
    bool is_met = false;
    bool is_revoked = false;
    std::vector<TimePoint>
        leases{};  ///< of reservations that were made of it, or undone with their transaction
  };

  struct Shard {
    std::mutex mutex;
    std::unordered_map<ReservationId, Held, ReservationIdHash> claims;
  };

  Shard& shard_of(std::size_t hash) { return shards_[hash % shards_.size()]; }

  /// Calls with the claim, if there is one, under its lock.
  template <class F>
  auto look(const ReservationId& id, F use);

  std::array<Shard, 64> shards_;
  KnownKeys stored_;  ///< what may be
  std::atomic<bool> is_open_ = false;
  std::atomic<std::size_t> revoked_ = 0;  ///< claims; hardly ever one
};

}  // namespace semel::store
