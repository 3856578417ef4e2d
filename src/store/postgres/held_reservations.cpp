#include "store/postgres/held.hpp"
#include "store/postgres/parameters.hpp"

#include <algorithm>

namespace semel::store::postgres {

namespace {

class HeldReservations final : public ReservationTable {
 public:
  explicit HeldReservations(Held& held) : held_(held) {}

  std::optional<Fence> insert(const ReservationPlace& place, const Reserve& command) override {
    if (stored(place) != nullptr) return std::nullopt;
    return write(place, command);
  }

  std::optional<ReservationRow> find(const ReservationPlace& place) override {
    const HeldReservationRow* found = stored(place);
    return found == nullptr ? std::nullopt : std::optional{found->row};
  }

  Fence replace(const ReservationPlace& place, const ReservationRow&,
                const Reserve& command) override {
    return write(place, command);
  }

  bool complete(const ReservationPlace& place, const Complete& command) override {
    if (!is_held(place, command.fence, command.now)) return false;
    HeldReservationRow& held = held_.reservations.edit(place.digest());
    held.row.state = command.state;
    held.row.answer = command.answer;
    const std::int64_t expires_at = to_ns(command.now) + held.ttl;
    held.row.expires_at = from_ns(expires_at);
    // The lease is over, or was renewed by less than its time: the index has to know.
    held.sweep_at = std::max(held.sweep_at, expires_at);
    return true;
  }

  bool release(const ReservationPlace& place, const Release& command) override {
    if (!is_held(place, command.fence, command.now)) return false;
    held_.reservations.erase(place.digest());
    return true;
  }

  bool renew(const ReservationPlace& place, const Renew& command) override {
    if (!is_held(place, command.fence, command.now)) return false;
    HeldReservationRow& held = held_.reservations.edit(place.digest());
    held.row.lease_until = std::max(held.row.lease_until, command.now + command.lease);
    const std::int64_t expires_at = to_ns(held.row.lease_until) + held.ttl;
    held.row.expires_at = from_ns(expires_at);
    held.sweep_at = std::max(held.sweep_at, expires_at);
    return true;
  }

  void remove(const ReservationPlace& place, Fence) override {
    held_.reservations.erase(place.digest());
  }

 private:
  const HeldReservationRow* stored(const ReservationPlace& place) {
    if (!held_.wants.reservations.contains(place.digest())) {
      held_.more.reservations.insert(place.digest());
      throw Missing{};
    }
    const HeldReservationRow* found = held_.reservations.find(place.digest());
    if (found == nullptr) return nullptr;
    const bool is_it = found->workspace == place.workspace && found->id.ns == place.id.ns &&
                       found->id.scope == place.id.scope && found->id.key == place.id.key;
    if (!is_it) throw_corrupt("two reservations have the same digest");
    return found;
  }

  bool is_held(const ReservationPlace& place, Fence fence, TimePoint now) {
    const HeldReservationRow* found = stored(place);
    return found != nullptr && found->row.fence == fence &&
           found->row.state == ReservationState::in_progress && found->row.expires_at > now;
  }

  Fence write(const ReservationPlace& place, const Reserve& command) {
    const Fence fence = held_.draw(Number::fence);
    const NewReservation row{command};
    const std::int64_t ttl = command.ttl.count();
    held_.reservations.put(place.digest(), {.row = {.fence = fence,
                                                    .state = row.state,
                                                    .on_abandoned = command.on_abandoned,
                                                    .lease_until = row.lease_until,
                                                    .expires_at = row.expires_at,
                                                    .fingerprint = command.fingerprint,
                                                    .owner = command.owner,
                                                    .answer = std::string{row.answer}},
                                            .workspace = place.workspace,
                                            .ttl = ttl,
                                            .sweep_at = to_ns(row.lease_until) + ttl,
                                            .id = place.id});
    return fence;
  }

  Held& held_;
};

}  // namespace

std::unique_ptr<ReservationTable> make_reservation_table(Held& held) {
  return std::make_unique<HeldReservations>(held);
}

}  // namespace semel::store::postgres
