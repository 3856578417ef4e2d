#include "store/reservation_rows.hpp"

#include "base/sha256.hpp"

#include <string_view>

namespace semel::store {

namespace {

/// Of SHA-256; nobody can make two keys that meet.
constexpr std::size_t digest_bytes = 20;

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

}  // namespace

NewReservation::NewReservation(const Reserve& command)
    : lease_until(command.now + command.lease), expires_at(lease_until + command.ttl) {
  if (!command.outcome) return;
  state = command.outcome->state;
  answer = command.outcome->answer;
  expires_at = command.now + command.ttl;
}

const std::string& ReservationPlace::digest() const {
  if (digest_.empty()) digest_ = digest_of(workspace, id);
  return digest_;
}

}  // namespace semel::store
