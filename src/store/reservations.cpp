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
  const auto claim = tables.claims->meet(newcomer.id);
  if (!claim) return;
  const Reserve theirs{.id = newcomer.id,
                       .fingerprint = claim->fingerprint,
                       .owner = {},
                       .lease = claim->lease,
                       .ttl = newcomer.ttl,
                       .now = newcomer.now};
  if (!tables.reservations.insert(place, theirs)) return;
  tables.claims->reserved(theirs.id, theirs.now + theirs.lease);
  ++tables.counters.keys_claimed;
}

/// The row that was made of the asker's claim.
bool is_of_claim(Tables& tables, const Reserve& command, const ReservationRow& row) {
  return tables.claims != nullptr && command.is_claimed &&
         row.state == ReservationState::in_progress && row.owner.empty() &&
         tables.claims->is_reserved(command.id, row.lease_until);
}

/// A claim that goes on as a reservation asks for it again where nobody knows what became of the commit.
Acquired acquired(Tables& tables, const Reserve& command, Fence fence, bool taken_over) {
  const TimePoint lease_until = command.now + command.lease;
  if (tables.claims != nullptr && command.is_claimed && !command.outcome)
    tables.claims->reserved(command.id, lease_until);
  return {.fence = fence, .taken_over = taken_over, .lease_until = lease_until};
}

}  // namespace

Answer reserve(Tables& tables, const Reserve& command) {
  const ReservationPlace place{tables.runs.workspace_or_create(command.id.workspace), command.id};
  if (tables.claims != nullptr && !command.is_claimed) {
    tables.claims->note(command.id);
    reserve_claimed(tables, place, command);
  }
  if (tables.claims != nullptr && command.is_claimed && tables.claims->is_revoked(command.id))
    return done_or_lost(tables, false);
  if (const auto fence = tables.reservations.insert(place, command))
    return acquired(tables, command, *fence, false);

  auto row = tables.reservations.find(place);
  SEMEL_ASSERT(row);
  if (is_of_claim(tables, command, *row)) {
    return acquired(tables, command, tables.reservations.replace(place, *row, command), false);
  }
  const Meeting meeting = meet(command, row->held());
  switch (meeting) {
    case Meeting::expired:
    case Meeting::take_over: {
      const bool taken_over = meeting == Meeting::take_over;
      tables.counters.takeovers += taken_over ? 1 : 0;
      return acquired(tables, command, tables.reservations.replace(place, *row, command),
                      taken_over);
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
  if (tables.claims != nullptr) tables.claims->revoke(command.id);
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
