// Finished answers of keys that were asked for again, so that the next time does not touch the disk.
//
// It serves what the store would: only to the same fingerprint, only until the answer expires, nothing that was forgotten
// or is being worked on anew. Whoever puts an answer in took a ticket before asking the store; an answer whose key was
// removed meanwhile may be older than the removal and is not kept.
#pragma once

#include "store/reservation.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace semel::idempotency {

/// What is replayed.
struct FinishedAnswer {
  store::ReservationState state = store::ReservationState::completed;  ///< or not_retained
  std::shared_ptr<const std::string> bytes;
  TimePoint expires_at{};
};

class AnswerCache {
 public:
  using Ticket = std::uint64_t;

  explicit AnswerCache(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  std::optional<FinishedAnswer> find(const store::ReservationId& id, std::string_view fingerprint,
                                     TimePoint now);

  Ticket ticket(const store::ReservationId& id) const;
  void put(const store::ReservationId& id, std::string fingerprint, FinishedAnswer answer,
           Ticket ticket);
  void remove(const store::ReservationId& id);
  void clear();

  std::size_t bytes() const;

 private:
  struct Entry {
    store::ReservationId id;
    std::string fingerprint;
    FinishedAnswer answer;
    std::size_t bytes = 0;
  };

  using Entries = std::list<Entry>;

  Ticket& removals_of(const store::ReservationId& id) {
    return removals_[store::ReservationIdHash{}(id) % removals_.size()];
  }

  void erase(Entries::iterator entry);

  const std::size_t bytes_max_;
  mutable std::mutex mutex_;
  Entries entries_;  ///< least recently used first
  std::unordered_map<store::ReservationId, Entries::iterator, store::ReservationIdHash> by_id_;
  std::size_t bytes_ = 0;
  /// By a few bits of the key's hash: two keys that share one only cost each other an answer now and then.
  std::array<Ticket, 4096> removals_{};
};

}  // namespace semel::idempotency
