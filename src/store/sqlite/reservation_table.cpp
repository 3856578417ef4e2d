#include "store/sqlite/reservation_table.hpp"

#include <algorithm>

namespace semel::store::sqlite {

namespace {

constexpr Fence fences_at_once = Fence{1} << 20U;

std::int64_t nanoseconds(std::chrono::nanoseconds duration) { return duration.count(); }

}  // namespace

Fence ReservationTable::next_fence() {
  if (next_fence_ == fences_end_) set_fences_aside(1);
  return next_fence_++;
}

/// From what nobody got on, but for those below `first`.
void ReservationTable::set_fences_aside(Fence first) {
  next_fence_ = first;
  {
    Rows rows = fences_.select();
    if (rows.next()) next_fence_ = std::max(first, rows.integer(0));
  }
  fences_end_ = next_fence_ + fences_at_once;
  set_fences_.run(fences_end_);
}

std::optional<Fence> ReservationTable::insert(const ReservationPlace& place,
                                              const Reserve& command) {
  const Fence fence = next_fence();
  const std::int64_t inserted =
      insert_.run(fence, place.workspace, command.on_abandoned, command.now + command.lease,
                  nanoseconds(command.ttl), Blob{command.fingerprint}, place.id.ns, place.id.scope,
                  place.id.key, command.owner);
  return inserted == 1 ? std::optional{fence} : std::nullopt;
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

Fence ReservationTable::replace(const ReservationPlace&, const ReservationRow& row,
                                const Reserve& command) {
  const Fence fence = next_fence();
  replace_.run(row.fence, fence, command.on_abandoned, command.now + command.lease,
               nanoseconds(command.ttl), Blob{command.fingerprint}, command.owner);
  return fence;
}

void ReservationTable::put_back(const ReservationPlace& place, const Reserve& command) {
  if (command.lost_fence >= next_fence_) set_fences_aside(command.lost_fence + 1);
  put_back_.run(command.lost_fence, place.workspace, command.on_abandoned,
                command.now + command.lease, nanoseconds(command.ttl), Blob{command.fingerprint},
                place.id.ns, place.id.scope, place.id.key, command.owner);
}

bool ReservationTable::complete(const ReservationPlace& place, const Complete& command) {
  const auto run = [&](Statement& statement) {
    return statement.run(command.fence, place.workspace, place.id.ns, place.id.scope, place.id.key,
                         command.state, Blob{command.answer}, command.now) == 1;
  };
  return run(complete_) || run(complete_late_);
}

bool ReservationTable::release(const ReservationPlace& place, const Release& command) {
  return release_.run(command.fence, place.workspace, place.id.ns, place.id.scope, place.id.key,
                      command.now) == 1;
}

bool ReservationTable::renew(const ReservationPlace& place, const Renew& command) {
  const bool is_renewed = renew_.run(command.fence, place.workspace, place.id.ns, place.id.scope,
                                     place.id.key, command.now + command.lease, command.now) == 1;
  if (is_renewed) sweep_later_.run(command.fence);
  return is_renewed;
}

}  // namespace semel::store::sqlite
