#include "store/reservations.hpp"

#include "base/assert.hpp"

namespace semel::store {

namespace {

Answer done_or_lost(Tables& tables, bool is_done) {
  if (is_done) return Done{};
  ++tables.counters.fences_lost;
  return FenceLost{};
}

/// None where nothing was ever stored in the workspace.
std::optional<ReservationPlace> place_of(Tables& tables, const ReservationId& id) {
  const auto workspace = tables.runs.workspace(id.workspace);
  if (!workspace) return std::nullopt;
  return ReservationPlace{*workspace, id};
}

std::optional<ReservationRow> find(Tables& tables, const ReservationId& id, TimePoint now) {
  const auto place = place_of(tables, id);
  auto row = place ? tables.reservations.find(*place) : std::nullopt;
  if (row && row->expires_at <= now) row.reset();
  return row;
}

/// An owner that did not hear the answer asks again: its fence is nobody else's.
bool is_repeated(Tables& tables, const Complete& command) {
  const auto row = find(tables, command.id, command.now);
  return row && row->fence == command.fence && row->state == command.state &&
         row->answer == command.answer;
}

/// Whoever meets a claim relies on what it hears, also after a crash: the claim becomes a reservation before it is met.
void reserve_claimed(Tables& tables, const ReservationPlace& place, const Reserve& newcomer) {
  const auto claim = tables.claims->find(newcomer.id);
  if (!claim) return;
  const Reserve theirs{.id = newcomer.id,
                       .fingerprint = claim->fingerprint,
                       .owner = {},
                       .lease = claim->lease_until - newcomer.now,
                       .ttl = newcomer.ttl,
                       .now = newcomer.now};
  if (tables.reservations.insert(place, theirs)) ++tables.counters.keys_claimed;
}

/// The row that was made of the asker's claim. Whoever took it over has another lease.
bool is_of_claim(Tables& tables, const Reserve& command, const ReservationRow& row) {
  if (!command.is_claimed || row.state != ReservationState::in_progress || !row.owner.empty())
    return false;
  const auto claim = tables.claims == nullptr ? std::nullopt : tables.claims->find(command.id);
  return claim && claim->lease_until == row.lease_until;
}

}  // namespace

Answer reserve(Tables& tables, const Reserve& command) {
  const ReservationPlace place{tables.runs.workspace_or_create(command.id.workspace), command.id};
  if (tables.claims != nullptr && !command.is_claimed) {
    tables.claims->note(command.id);
    reserve_claimed(tables, place, command);
  }
  const TimePoint lease_until = command.now + command.lease;
  if (const auto fence = tables.reservations.insert(place, command))
    return Acquired{.fence = *fence, .taken_over = false, .lease_until = lease_until};

  auto row = tables.reservations.find(place);
  SEMEL_ASSERT(row);
  if (is_of_claim(tables, command, *row)) {
    return Acquired{.fence = tables.reservations.replace(place, *row, command),
                    .taken_over = false,
                    .lease_until = lease_until};
  }
  const Meeting meeting = meet(command, row->held());
  switch (meeting) {
    case Meeting::expired:
    case Meeting::take_over: {
      const bool taken_over = meeting == Meeting::take_over;
      tables.counters.takeovers += taken_over ? 1 : 0;
      return Acquired{.fence = tables.reservations.replace(place, *row, command),
                      .taken_over = taken_over,
                      .lease_until = lease_until};
    }
    case Meeting::key_reused:
      ++tables.counters.keys_reused;
      return KeyReused{};
    case Meeting::replay:
      return Replay{row->state, std::move(row->answer), row->expires_at};
    case Meeting::unknown:
      return OutcomeUnknown{row->expires_at};
    case Meeting::in_progress:
      break;
  }
  return InProgress{row->lease_until};
}

Answer complete(Tables& tables, const Complete& command) {
  SEMEL_ASSERT(command.state != ReservationState::in_progress);
  const auto place = place_of(tables, command.id);
  return done_or_lost(tables, place && (tables.reservations.complete(*place, command) ||
                                        is_repeated(tables, command)));
}

Answer release(Tables& tables, const Release& command) {
  const auto place = place_of(tables, command.id);
  return done_or_lost(tables, place && tables.reservations.release(*place, command));
}

Answer renew(Tables& tables, const Renew& command) {
  const auto place = place_of(tables, command.id);
  return done_or_lost(tables, place && tables.reservations.renew(*place, command));
}

Answer forget(Tables& tables, const Forget& command) {
  const auto row = find(tables, command.id, command.now);
  if (!row) return ReservationMissing{};
  if (!command.force && is_at_work(row->held(), command.now)) return InProgress{row->lease_until};
  tables.reservations.remove(*place_of(tables, command.id), row->fence);
  return Done{};
}

Answer find_reservation(Tables& tables, const FindReservation& command) {
  auto row = find(tables, command.id, command.now);
  if (!row) return ReservationMissing{};
  return ReservationFound{{.state = shown_state(row->held(), command.now),
                           .fingerprint = std::move(row->fingerprint),
                           .owner = std::move(row->owner),
                           .fence = row->fence,
                           .lease_until = row->lease_until,
                           .expires_at = row->expires_at,
                           .answer = std::move(row->answer)}};
}

}  // namespace semel::store
