// Reservations in memory: the same commands, the same answers, nothing durable. Any thread.
#pragma once

#include "store/answer.hpp"
#include "store/command.hpp"

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace semel::idempotency {

class MemoryReservations {
 public:
  /// One about a reservation, or `Sweep`. What has expired is swept by the way, a few at every `Reserve`.
  store::Answer execute(const store::Command& command);

  std::size_t size() const;

 private:
  struct Reservation {
    store::Fence fence = 0;
    store::ReservationState state = store::ReservationState::in_progress;
    store::OnAbandoned on_abandoned = store::OnAbandoned::run;
    TimePoint lease_until{};
    std::chrono::nanoseconds ttl{};
    TimePoint expires_at{};
    std::string fingerprint;
    std::string owner;
    std::string answer;
  };

  using Reservations = std::map<store::ReservationId, Reservation>;

  store::Answer answer(const store::Reserve& command);
  store::Answer answer(const store::Complete& command);
  store::Answer answer(const store::Release& command);
  store::Answer answer(const store::Renew& command);
  store::Answer answer(const store::Forget& command);
  store::Answer answer(const store::FindReservation& command);
  store::Answer answer(const store::Sweep& command);

  Reservations::iterator find(const store::ReservationId& id, TimePoint now);
  Reservations::iterator held(const store::ReservationId& id, store::Fence fence, TimePoint now);
  void set_expiry(Reservations::iterator reservation, TimePoint expires_at);
  void erase(Reservations::iterator reservation);
  std::int64_t sweep(TimePoint now, std::int64_t limit);

  mutable std::mutex mutex_;
  Reservations reservations_;
  std::set<std::pair<TimePoint, store::ReservationId>> by_expiry_;
  store::Fence next_fence_ = 1;
};

}  // namespace semel::idempotency
