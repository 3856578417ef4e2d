#include "store/reservation_rules.hpp"

namespace semel::store {

Meeting meet(const Reserve& newcomer, const HeldReservation& held) {
  if (held.expires_at <= newcomer.now) return Meeting::expired;
  if (held.fingerprint != newcomer.fingerprint) return Meeting::key_reused;
  switch (held.state) {
    case ReservationState::completed:
    case ReservationState::not_retained:
      return Meeting::replay;
    case ReservationState::unknown:
      return Meeting::unknown;
    case ReservationState::in_progress:
      break;
  }
  // A run's recovery is no duplicate of what it recovers.
  if (!newcomer.owner.empty() && newcomer.owner == held.owner) return Meeting::take_over;
  if (held.lease_until > newcomer.now) return Meeting::in_progress;
  return held.on_abandoned == OnAbandoned::run ? Meeting::take_over : Meeting::unknown;
}

ReservationState shown_state(const HeldReservation& held, TimePoint now) {
  const bool is_abandoned = held.state == ReservationState::in_progress && held.lease_until <= now;
  return is_abandoned && held.on_abandoned == OnAbandoned::unknown ? ReservationState::unknown
                                                                   : held.state;
}

bool is_at_work(const HeldReservation& held, TimePoint now) {
  return held.state == ReservationState::in_progress && held.lease_until > now;
}

}  // namespace semel::store
