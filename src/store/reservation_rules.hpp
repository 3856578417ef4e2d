// What a reservation that is there means to whoever meets it. Pure; all stores but the specification share it.
#pragma once

#include "store/reservation.hpp"

#include <string_view>

namespace semel::store {

/// What is stored of a reservation, as far as anything is decided by it.
struct HeldReservation {
  ReservationState state = ReservationState::in_progress;
  OnAbandoned on_abandoned = OnAbandoned::run;
  TimePoint lease_until{};
  TimePoint expires_at{};
  std::string_view fingerprint;
  std::string_view owner;
};

enum class Meeting : std::uint8_t {
  expired,      ///< counts for nothing: the newcomer replaces it
  key_reused,   ///< the newcomer asks for something else
  replay,       ///< finished
  unknown,      ///< begun, and nobody knows what came of it
  in_progress,  ///< somebody is at work
  take_over,    ///< the newcomer goes on in its place
};

/// The fingerprint comes before the state: also of an abandoned reservation.
Meeting meet(const Reserve& newcomer, const HeldReservation& held);

/// The state to be shown: an abandoned one may be `unknown`.
ReservationState shown_state(const HeldReservation& held, TimePoint now);

/// True where `Forget` needs force.
bool is_at_work(const HeldReservation& held, TimePoint now);

}  // namespace semel::store
