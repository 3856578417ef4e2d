#include "store/sqlite/reservation_table.hpp"

#include "base/sha256.hpp"

namespace semel::store::sqlite {

namespace {

/// Of SHA-256; nobody can make two keys that meet.
constexpr std::size_t digest_bytes = 20;
constexpr Fence fences_at_once = Fence{1} << 20U;

void append(std::string& out, std::string_view part) {
  const auto size = static_cast<std::uint64_t>(part.size());
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out += part;
}

std::string digest_of(std::int64_t workspace, const ReservationId& id) {
  std::string parts;
  parts.reserve(32 + id.ns.size() + id.scope.size() + id.key.size());
  parts.append(reinterpret_cast<const char*>(&workspace), sizeof workspace);
  append(parts, id.ns);
  append(parts, id.scope);
  append(parts, id.key);
  std::string digest = base::sha256(parts);
  digest.resize(digest_bytes);
  return digest;
}

std::int64_t nanoseconds(std::chrono::nanoseconds duration) { return duration.count(); }

}  // namespace

ReservationPlace::ReservationPlace(std::int64_t workspace_number, const ReservationId& reservation)
    : workspace(workspace_number), id(reservation), digest(digest_of(workspace_number, id)) {}

Fence ReservationTable::next_fence() {
  if (next_fence_ == fences_end_) {
    next_fence_ = 1;
    {
      Rows rows = fences_.select();
      if (rows.next()) next_fence_ = rows.integer(0);
    }
    fences_end_ = next_fence_ + fences_at_once;
    set_fences_.run(fences_end_);
  }
  return next_fence_++;
}

std::optional<Fence> ReservationTable::insert(const ReservationPlace& place,
                                              const Reserve& command) {
  const Fence fence = next_fence();
  const std::int64_t inserted =
      insert_.run(fence, place.workspace, command.on_abandoned, command.now + command.lease,
                  nanoseconds(command.ttl), Blob{place.digest}, Blob{command.fingerprint},
                  place.id.ns, place.id.scope, place.id.key, command.owner);
  return inserted == 1 ? std::optional{fence} : std::nullopt;
}

std::optional<ReservationRow> ReservationTable::find(const ReservationPlace& place) {
  Rows rows = find_.select(Blob{place.digest});
  if (!rows.next()) return std::nullopt;
  const bool is_it = rows.integer(8) == place.workspace && rows.view(9) == place.id.ns &&
                     rows.view(10) == place.id.scope && rows.view(11) == place.id.key;
  if (!is_it) throw_corrupt("two reservations have the same digest");
  return ReservationRow{.fence = rows.integer(0),
                        .state = static_cast<ReservationState>(rows.integer(1)),
                        .on_abandoned = static_cast<OnAbandoned>(rows.integer(2)),
                        .lease_until = rows.time(3),
                        .expires_at = rows.time(4),
                        .fingerprint = rows.text(5),
                        .owner = rows.text(6),
                        .answer = rows.text(7)};
}

Fence ReservationTable::replace(const ReservationRow& row, const Reserve& command) {
  const Fence fence = next_fence();
  replace_.run(row.fence, fence, command.on_abandoned, command.now + command.lease,
               nanoseconds(command.ttl), Blob{command.fingerprint}, command.owner);
  return fence;
}

bool ReservationTable::complete(const ReservationPlace& place, const Complete& command) {
  const auto run = [&](Statement& statement) {
    return statement.run(command.fence, Blob{place.digest}, command.state, Blob{command.answer},
                         command.now) == 1;
  };
  return run(complete_) || run(complete_late_);
}

bool ReservationTable::release(const ReservationPlace& place, const Release& command) {
  return release_.run(command.fence, Blob{place.digest}, command.now) == 1;
}

bool ReservationTable::renew(const ReservationPlace& place, const Renew& command) {
  const bool is_renewed =
      renew_.run(command.fence, Blob{place.digest}, command.now + command.lease, command.now) == 1;
  if (is_renewed) sweep_later_.run(command.fence);
  return is_renewed;
}

}  // namespace semel::store::sqlite
