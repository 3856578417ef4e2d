#include "store/key_claims.hpp"

#include <utility>

namespace semel::store {

std::size_t ReservationIdHash::operator()(const ReservationId& id) const {
  const std::hash<std::string> hash;
  std::size_t sum = hash(id.key);
  for (const std::string* part : {&id.scope, &id.ns, &id.workspace})
    sum = sum * 0x9E3779B97F4A7C15ULL + hash(*part);
  return sum;
}

KeyClaims::Claimed KeyClaims::claim(const Reserve& ask, TimePoint lease_until) {
  const std::size_t hash = ReservationIdHash{}(ask.id);
  // Most that are not free are known not to be: nobody shall meet a claim of theirs.
  if (stored_.may_have(hash)) return Claimed::no;
  {
    Shard& shard = shard_of(hash);
    const std::lock_guard lock(shard.mutex);
    if (!shard.claims.try_emplace(ask.id, Claim{ask.fingerprint, lease_until}).second)
      return Claimed::no;
  }
  if (!stored_.may_have(hash)) return Claimed::yes;
  leave(ask.id);
  return Claimed::withdrawn;
}

void KeyClaims::leave(const ReservationId& id) {
  Shard& shard = shard_of(ReservationIdHash{}(id));
  const std::lock_guard lock(shard.mutex);
  shard.claims.erase(id);
}

void KeyClaims::settle(const ReservationId& id) {
  const std::size_t hash = ReservationIdHash{}(id);
  stored_.add(hash);
  Shard& shard = shard_of(hash);
  const std::lock_guard lock(shard.mutex);
  shard.claims.erase(id);
}

void KeyClaims::note(const ReservationId& id) { stored_.add(ReservationIdHash{}(id)); }

std::optional<KeyClaims::Claim> KeyClaims::find(const ReservationId& id) {
  Shard& shard = shard_of(ReservationIdHash{}(id));
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.claims.find(id);
  return found == shard.claims.end() ? std::nullopt : std::optional{found->second};
}

void KeyClaims::begin_anew(Scan scan, Fill fill) {
  stored_.begin_anew(
      [scan = std::move(scan)](const KnownKeys::Visit& visit) {
        scan([&visit](const ReservationId& id) { return visit(ReservationIdHash{}(id)); });
      },
      fill);
}

}  // namespace semel::store
