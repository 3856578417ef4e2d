#include "tests/contract/model_store.hpp"

#include <algorithm>

namespace semel::store {

/// What counts at this time.
Model::Reservation* ModelReservations::find(const ReservationId& id, TimePoint now) const {
  const auto found = model_.reservations.find(id);
  const bool counts = found != model_.reservations.end() && now < found->second.expires_at;
  return counts ? &found->second : nullptr;
}

/// What this fence may change.
Model::Reservation* ModelReservations::held(const ReservationId& id, Fence fence,
                                            TimePoint now) const {
  Model::Reservation* found = find(id, now);
  const bool is_mine =
      found != nullptr && found->fence == fence && found->state == ReservationState::in_progress;
  return is_mine ? found : nullptr;
}

Acquired ModelReservations::acquire(const Reserve& command, bool taken_over) {
  const TimePoint lease_until = command.now + command.lease;
  model_.reservations[command.id] = {.made = command,
                                     .fence = model_.next_fence++,
                                     .lease_until = lease_until,
                                     .expires_at = lease_until + command.ttl,
                                     .sweep_at = lease_until + command.ttl};
  if (command.outcome) {
    Model::Reservation& finished = model_.reservations[command.id];
    finished.state = command.outcome->state;
    finished.answer = command.outcome->answer;
    finished.expires_at = command.now + command.ttl;
  }
  return {.fence = model_.reservations[command.id].fence,
          .taken_over = taken_over,
          .lease_until = lease_until};
}

Answer ModelReservations::answer(const Reserve& command) {
  const Model::Reservation* there = find(command.id, command.now);
  if (there == nullptr) return acquire(command, false);
  if (there->made.fingerprint != command.fingerprint) return KeyReused{};
  if (there->state == ReservationState::unknown) return OutcomeUnknown{there->expires_at};
  if (there->state != ReservationState::in_progress)
    return Replay{there->state, there->answer, there->expires_at};
  const bool is_own = !command.owner.empty() && command.owner == there->made.owner;
  if (is_own) return acquire(command, true);
  if (command.now < there->lease_until) return InProgress{there->lease_until};
  if (there->made.on_abandoned == OnAbandoned::unknown) return OutcomeUnknown{there->expires_at};
  return acquire(command, true);
}

Answer ModelReservations::answer(const Complete& command) {
  Model::Reservation* mine = held(command.id, command.fence, command.now);
  if (mine == nullptr) {
    const Model::Reservation* done = find(command.id, command.now);
    const bool is_repeated = done != nullptr && done->fence == command.fence &&
                             done->state == command.state && done->answer == command.answer;
    return is_repeated ? Answer{Done{}} : Answer{FenceLost{}};
  }
  mine->state = command.state;
  mine->answer = command.answer;
  mine->expires_at = command.now + mine->made.ttl;
  mine->sweep_at = std::max(mine->sweep_at, mine->expires_at);
  return Done{};
}

Answer ModelReservations::answer(const Release& command) {
  if (held(command.id, command.fence, command.now) == nullptr) return FenceLost{};
  model_.reservations.erase(command.id);
  return Done{};
}

Answer ModelReservations::answer(const Renew& command) {
  Model::Reservation* mine = held(command.id, command.fence, command.now);
  if (mine == nullptr) return FenceLost{};
  mine->lease_until = std::max(mine->lease_until, command.now + command.lease);
  mine->expires_at = mine->lease_until + mine->made.ttl;
  mine->sweep_at = std::max(mine->sweep_at, mine->expires_at);
  return Done{};
}

Answer ModelReservations::answer(const Forget& command) {
  const Model::Reservation* there = find(command.id, command.now);
  if (there == nullptr) return ReservationMissing{};
  const bool is_at_work =
      there->state == ReservationState::in_progress && command.now < there->lease_until;
  if (is_at_work && !command.force) return InProgress{there->lease_until};
  model_.reservations.erase(command.id);
  return Done{};
}

Answer ModelReservations::answer(const FindReservation& command) const {
  const Model::Reservation* there = find(command.id, command.now);
  if (there == nullptr) return ReservationMissing{};
  const bool is_abandoned =
      there->state == ReservationState::in_progress && there->lease_until <= command.now;
  const bool is_unknown = is_abandoned && there->made.on_abandoned == OnAbandoned::unknown;
  return ReservationFound{{.state = is_unknown ? ReservationState::unknown : there->state,
                           .fingerprint = there->made.fingerprint,
                           .owner = there->made.owner,
                           .fence = there->fence,
                           .lease_until = there->lease_until,
                           .expires_at = there->expires_at,
                           .answer = there->answer}};
}

std::int64_t ModelReservations::sweep(TimePoint now, std::int64_t limit) {
  std::vector<std::tuple<TimePoint, Fence, ReservationId>> due;
  for (const auto& [id, reservation] : model_.reservations) {
    if (reservation.sweep_at <= now) due.emplace_back(reservation.sweep_at, reservation.fence, id);
  }
  std::ranges::sort(due);
  if (std::ssize(due) > limit) due.resize(static_cast<std::size_t>(limit));
  for (const auto& [at, fence, id] : due) model_.reservations.erase(id);
  return std::ssize(due);
}

}  // namespace semel::store
