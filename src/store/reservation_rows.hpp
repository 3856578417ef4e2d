// A reservation as rows know it.
#pragma once

#include "store/reservation_rules.hpp"

#include <cstdint>
#include <string>

namespace semel::store {

/// What a reservation is found by, once its workspace has a number.
struct ReservationPlace {
  std::int64_t workspace = 0;
  const ReservationId& id;

  /// 20 bytes for all of it: for stores whose indexes take no long texts.
  const std::string& digest() const;

  ReservationPlace(std::int64_t workspace_number, const ReservationId& reservation)
      : workspace(workspace_number), id(reservation) {}

 private:
  mutable std::string digest_;  ///< once it was asked for
};

/// What a newcomer's row begins with.
struct NewReservation {
  ReservationState state = ReservationState::in_progress;
  TimePoint lease_until{};
  TimePoint expires_at{};
  std::string_view answer;  ///< the command's

  explicit NewReservation(const Reserve& command);
};

struct ReservationRow {
  Fence fence = 0;
  ReservationState state = ReservationState::in_progress;
  OnAbandoned on_abandoned = OnAbandoned::run;
  TimePoint lease_until{};
  TimePoint expires_at{};
  std::string fingerprint;
  std::string owner;
  std::string answer;

  HeldReservation held() const {
    return {state, on_abandoned, lease_until, expires_at, fingerprint, owner};
  }
};

}  // namespace semel::store
