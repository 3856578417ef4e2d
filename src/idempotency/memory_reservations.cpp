#include "idempotency/memory_reservations.hpp"

#include "base/assert.hpp"
#include "store/reservation_rules.hpp"

#include <algorithm>

namespace semel::idempotency {

using store::Answer;
using store::Meeting;
using store::ReservationState;

namespace {

/// More than one comes in, so that it grows no further than what has not expired.
constexpr std::int64_t swept_by_the_way = 4;

}  // namespace

Answer MemoryReservations::execute(const store::Command& command) {
  const std::lock_guard lock(mutex_);
  return std::visit(
      [this](const auto& each) -> Answer {
        if constexpr (requires { answer(each); }) {
          return answer(each);
        } else {
          SEMEL_ASSERT(false);
          return store::Done{};
        }
      },
      command);
}

std::size_t MemoryReservations::size() const {
  const std::lock_guard lock(mutex_);
  return reservations_.size();
}

Answer MemoryReservations::answer(const store::Reserve& command) {
  sweep(command.now, swept_by_the_way);
  auto [there, is_new] = reservations_.try_emplace(command.id);
  Reservation& reservation = there->second;
  bool taken_over = false;
  if (!is_new) {
    const Meeting meeting =
        store::meet(command, {reservation.state, reservation.on_abandoned, reservation.lease_until,
                              reservation.expires_at, reservation.fingerprint, reservation.owner});
    switch (meeting) {
      case Meeting::key_reused:
        return store::KeyReused{};
      case Meeting::replay:
        return store::Replay{reservation.state, reservation.answer, reservation.expires_at};
      case Meeting::unknown:
        return store::OutcomeUnknown{reservation.expires_at};
      case Meeting::in_progress:
        return store::InProgress{reservation.lease_until};
      case Meeting::take_over:
        taken_over = true;
        break;
      case Meeting::expired:
        break;
    }
    by_expiry_.erase({reservation.expires_at, command.id});
  }
  const TimePoint lease_until = command.now + command.lease;
  reservation = {.fence = next_fence_++,
                 .on_abandoned = command.on_abandoned,
                 .lease_until = lease_until,
                 .ttl = command.ttl,
                 .expires_at = lease_until + command.ttl,
                 .fingerprint = command.fingerprint,
                 .owner = command.owner};
  if (command.outcome) {
    reservation.state = command.outcome->state;
    reservation.answer = command.outcome->answer;
    reservation.expires_at = command.now + command.ttl;
  }
  by_expiry_.emplace(reservation.expires_at, command.id);
  return store::Acquired{reservation.fence, taken_over, lease_until};
}

Answer MemoryReservations::answer(const store::Complete& command) {
  const auto mine = held(command.id, command.fence, command.now);
  if (mine == reservations_.end()) {
    const auto done = find(command.id, command.now);
    const bool is_repeated = done != reservations_.end() && done->second.fence == command.fence &&
                             done->second.state == command.state &&
                             done->second.answer == command.answer;
    return is_repeated ? Answer{store::Done{}} : Answer{store::FenceLost{}};
  }
  mine->second.state = command.state;
  mine->second.answer = command.answer;
  set_expiry(mine, command.now + mine->second.ttl);
  return store::Done{};
}

Answer MemoryReservations::answer(const store::Release& command) {
  const auto mine = held(command.id, command.fence, command.now);
  if (mine == reservations_.end()) return store::FenceLost{};
  erase(mine);
  return store::Done{};
}

Answer MemoryReservations::answer(const store::Renew& command) {
  const auto mine = held(command.id, command.fence, command.now);
  if (mine == reservations_.end()) return store::FenceLost{};
  Reservation& reservation = mine->second;
  reservation.lease_until =
      std::max<TimePoint>(reservation.lease_until, command.now + command.lease);
  set_expiry(mine, reservation.lease_until + reservation.ttl);
  return store::Done{};
}

Answer MemoryReservations::answer(const store::Forget& command) {
  const auto there = find(command.id, command.now);
  if (there == reservations_.end()) return store::ReservationMissing{};
  const Reservation& reservation = there->second;
  const bool is_at_work =
      reservation.state == ReservationState::in_progress && reservation.lease_until > command.now;
  if (is_at_work && !command.force) return store::InProgress{reservation.lease_until};
  erase(there);
  return store::Done{};
}

Answer MemoryReservations::answer(const store::FindReservation& command) {
  const auto there = find(command.id, command.now);
  if (there == reservations_.end()) return store::ReservationMissing{};
  const Reservation& found = there->second;
  return store::ReservationFound{
      {.state = store::shown_state({found.state, found.on_abandoned, found.lease_until,
                                    found.expires_at, found.fingerprint, found.owner},
                                   command.now),
       .fingerprint = found.fingerprint,
       .owner = found.owner,
       .fence = found.fence,
       .lease_until = found.lease_until,
       .expires_at = found.expires_at,
       .answer = found.answer}};
}

Answer MemoryReservations::answer(const store::Sweep& command) {
  store::Swept swept;
  swept.reservations = sweep(command.now, command.limit);
  swept.more = swept.reservations == command.limit;
  return swept;
}

/// What counts at this time.
MemoryReservations::Reservations::iterator MemoryReservations::find(const store::ReservationId& id,
                                                                    TimePoint now) {
  const auto found = reservations_.find(id);
  const bool counts = found != reservations_.end() && found->second.expires_at > now;
  return counts ? found : reservations_.end();
}

/// What this fence may change.
MemoryReservations::Reservations::iterator MemoryReservations::held(const store::ReservationId& id,
                                                                    store::Fence fence,
                                                                    TimePoint now) {
  const auto found = find(id, now);
  const bool is_mine = found != reservations_.end() && found->second.fence == fence &&
                       found->second.state == ReservationState::in_progress;
  return is_mine ? found : reservations_.end();
}

void MemoryReservations::set_expiry(Reservations::iterator reservation, TimePoint expires_at) {
  by_expiry_.erase({reservation->second.expires_at, reservation->first});
  reservation->second.expires_at = expires_at;
  by_expiry_.emplace(expires_at, reservation->first);
}

void MemoryReservations::erase(Reservations::iterator reservation) {
  by_expiry_.erase({reservation->second.expires_at, reservation->first});
  reservations_.erase(reservation);
}

std::int64_t MemoryReservations::sweep(TimePoint now, std::int64_t limit) {
  std::int64_t swept = 0;
  for (; swept < limit && !by_expiry_.empty() && by_expiry_.begin()->first <= now; ++swept)
    erase(reservations_.find(by_expiry_.begin()->second));
  return swept;
}

}  // namespace semel::idempotency
