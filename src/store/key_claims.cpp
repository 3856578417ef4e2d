#include "store/key_claims.hpp"

#include <algorithm>
#include <utility>

namespace semel::store {

std::size_t ReservationIdHash::operator()(const ReservationId& id) const {
  const std::hash<std::string> hash;
  std::size_t sum = hash(id.key);
  for (const std::string* part : {&id.scope, &id.ns, &id.workspace})
    sum = sum * 0x9E3779B97F4A7C15ULL + hash(*part);
  return sum;
}

KeyClaims::Claimed KeyClaims::claim(const Reserve& ask) {
  if (!is_open_.load(std::memory_order_acquire)) return Claimed::no;
  const std::size_t hash = ReservationIdHash{}(ask.id);
  // Most that are not free are known not to be: nobody shall meet a claim of theirs.
  if (stored_.may_have(hash)) return Claimed::no;
  {
    Shard& shard = shard_of(hash);
    const std::lock_guard lock(shard.mutex);
    Held held{.claim = {.fingerprint = ask.fingerprint, .lease = ask.lease}};
    if (!shard.claims.try_emplace(ask.id, std::move(held)).second) return Claimed::no;
  }
  if (!stored_.may_have(hash)) return Claimed::yes;
  return leave(ask.id) ? Claimed::no : Claimed::met;
}

template <class F>
auto KeyClaims::look(const ReservationId& id, F use) {
  Shard& shard = shard_of(ReservationIdHash{}(id));
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.claims.find(id);
  return use(found == shard.claims.end() ? nullptr : &found->second);
}

bool KeyClaims::leave(const ReservationId& id) {
  Shard& shard = shard_of(ReservationIdHash{}(id));
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.claims.find(id);
  if (found == shard.claims.end()) return true;
  if (found->second.is_revoked) {
    revoked_.fetch_sub(1, std::memory_order_relaxed);
  } else if (found->second.is_met) {
    return false;
  }
  shard.claims.erase(found);
  return true;
}

void KeyClaims::settle(const ReservationId& id) {
  const std::size_t hash = ReservationIdHash{}(id);
  stored_.add(hash);
  Shard& shard = shard_of(hash);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.claims.find(id);
  if (found == shard.claims.end()) return;
  if (found->second.is_revoked) revoked_.fetch_sub(1, std::memory_order_relaxed);
  shard.claims.erase(found);
}

void KeyClaims::note(const ReservationId& id) { stored_.add(ReservationIdHash{}(id)); }

std::optional<KeyClaims::Claim> KeyClaims::meet(const ReservationId& id) {
  return look(id, [](Held* held) -> std::optional<Claim> {
    if (held == nullptr || held->is_revoked) return std::nullopt;
    held->is_met = true;
    return held->claim;
  });
}

void KeyClaims::reserved(const ReservationId& id, TimePoint lease_until) {
  look(id, [lease_until](Held* held) {
    if (held != nullptr) held->leases.push_back(lease_until);
  });
}

bool KeyClaims::is_reserved(const ReservationId& id, TimePoint lease_until) {
  return look(id, [lease_until](Held* held) {
    return held != nullptr && std::ranges::find(held->leases, lease_until) != held->leases.end();
  });
}

void KeyClaims::revoke(const ReservationId& id) {
  look(id, [this](Held* held) {
    if (held == nullptr || std::exchange(held->is_revoked, true)) return;
    revoked_.fetch_add(1, std::memory_order_relaxed);
  });
}

bool KeyClaims::is_revoked(const ReservationId& id) {
  if (revoked_.load(std::memory_order_relaxed) == 0) return false;
  return look(id, [](Held* held) { return held != nullptr && held->is_revoked; });
}

void KeyClaims::begin_anew(Scan scan, Fill fill) {
  stored_.begin_anew(
      [scan = std::move(scan)](const KnownKeys::Visit& visit) {
        scan([&visit](const ReservationId& id) { return visit(ReservationIdHash{}(id)); });
      },
      fill);
  is_open_.store(true, std::memory_order_release);
}

}  // namespace semel::store
