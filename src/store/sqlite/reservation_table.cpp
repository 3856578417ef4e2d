#include "store/sqlite/reservation_table.hpp"

#include "store/reservation_rows.hpp"

namespace semel::store::sqlite {

namespace {

constexpr Fence fences_at_once = Fence{1} << 20U;

std::int64_t nanoseconds(std::chrono::nanoseconds duration) { return duration.count(); }

/// A usual completion is no later, and leaves it as it is.
std::int64_t sweep_time(const NewReservation& row, const Reserve& command) {
  return to_ns(row.lease_until) + nanoseconds(command.ttl);
}

}  // namespace

Fence ReservationTable::next_fence() {
  if (next_fence_ == fences_end_) {
    Rows rows = fences_.select();
    next_fence_ = rows.next() ? rows.integer(0) : 1;
    fences_end_ = next_fence_ + fences_at_once;
    set_fences_.run(fences_end_);
  }
  return next_fence_++;
}

std::optional<Fence> ReservationTable::insert(const ReservationPlace& place,
                                              const Reserve& command) {
  const Fence fence = next_fence();
  const NewReservation row{command};
  const std::int64_t sweep_at = sweep_time(row, command);
  const std::int64_t inserted =
      insert_.run(fence, place.workspace, row.state, command.on_abandoned, row.lease_until,
                  nanoseconds(command.ttl), row.expires_at, sweep_at, Blob{command.fingerprint},
                  place.id.ns, place.id.scope, place.id.key, command.owner, Blob{row.answer});
  if (inserted == 0) return std::nullopt;
  sweeps_.enter(fence, sweep_at);
  return fence;
}

std::optional<ReservationRow> ReservationTable::find(const ReservationPlace& place) {
  Rows rows = find_.select(place.workspace, place.id.ns, place.id.scope, place.id.key);
  if (!rows.next()) return std::nullopt;
  return ReservationRow{.fence = rows.integer(0),
                        .state = static_cast<ReservationState>(rows.integer(1)),
                        .on_abandoned = static_cast<OnAbandoned>(rows.integer(2)),
                        .lease_until = rows.time(3),
                        .expires_at = rows.time(4),
                        .fingerprint = rows.text(5),
                        .owner = rows.text(6),
                        .answer = rows.text(7)};
}

Fence ReservationTable::replace(const ReservationPlace&, const ReservationRow& there,
                                const Reserve& command) {
  const Fence fence = next_fence();
  const NewReservation row{command};
  const std::int64_t sweep_at = sweep_time(row, command);
  replace_.run(there.fence, fence, row.state, command.on_abandoned, row.lease_until,
               nanoseconds(command.ttl), row.expires_at, sweep_at, Blob{command.fingerprint},
               command.owner, Blob{row.answer});
  sweeps_.enter(fence, sweep_at);
  return fence;
}

bool ReservationTable::complete(const ReservationPlace& place, const Complete& command) {
  const bool is_done =
      complete_.run(command.fence, place.workspace, place.id.ns, place.id.scope, place.id.key,
                    command.state, Blob{command.answer}, command.now) == 1;
  if (is_done) return true;
  Rows late = complete_late_.select(command.fence, place.workspace, place.id.ns, place.id.scope,
                                    place.id.key, command.state, Blob{command.answer}, command.now);
  return move(command.fence, late);
}

bool ReservationTable::release(const ReservationPlace& place, const Release& command) {
  return release_.run(command.fence, place.workspace, place.id.ns, place.id.scope, place.id.key,
                      command.now) == 1;
}

bool ReservationTable::renew(const ReservationPlace& place, const Renew& command) {
  const bool is_renewed = renew_.run(command.fence, place.workspace, place.id.ns, place.id.scope,
                                     place.id.key, command.now + command.lease, command.now) == 1;
  if (is_renewed) {
    Rows later = sweep_later_.select(command.fence);
    move(command.fence, later);
  }
  return is_renewed;
}

bool ReservationTable::move(Fence fence, Rows& moved) {
  if (!moved.next()) return false;
  sweeps_.move(fence, moved.integer(0));
  return true;
}

}  // namespace semel::store::sqlite
