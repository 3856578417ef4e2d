#include "idempotency/answer_cache.hpp"

#include <functional>

namespace semel::idempotency {

namespace {

/// What an entry costs besides its texts: two nodes and an answer's owner.
constexpr std::size_t entry_overhead = 400;

}  // namespace

std::optional<FinishedAnswer> AnswerCache::find(const store::ReservationId& id,
                                                std::string_view fingerprint, TimePoint now) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->fingerprint != fingerprint) return std::nullopt;
  if (found->second->answer.expires_at <= now) {
    erase(found->second);
    return std::nullopt;
  }
  entries_.splice(entries_.end(), entries_, found->second);
  return found->second->answer;
}

AnswerCache::Ticket AnswerCache::ticket(const store::ReservationId& id) const {
  const std::lock_guard lock(mutex_);
  return removals_[store::ReservationIdHash{}(id) % removals_.size()];
}

void AnswerCache::put(const store::ReservationId& id, std::string fingerprint,
                      FinishedAnswer answer, Ticket ticket) {
  Entry entry{id, std::move(fingerprint), std::move(answer)};
  entry.bytes = entry_overhead + entry.fingerprint.size() + entry.answer.bytes->size() +
                2 * (id.workspace.size() + id.ns.size() + id.scope.size() + id.key.size());
  if (entry.bytes > bytes_max_) return;
  const std::lock_guard lock(mutex_);
  if (ticket != removals_of(id)) return;
  if (const auto found = by_id_.find(id); found != by_id_.end()) erase(found->second);
  bytes_ += entry.bytes;
  by_id_[id] = entries_.insert(entries_.end(), std::move(entry));
  while (bytes_ > bytes_max_) erase(entries_.begin());
}

void AnswerCache::remove(const store::ReservationId& id) {
  const std::lock_guard lock(mutex_);
  ++removals_of(id);
  if (const auto found = by_id_.find(id); found != by_id_.end()) erase(found->second);
}

void AnswerCache::clear() {
  const std::lock_guard lock(mutex_);
  for (Ticket& removals : removals_) ++removals;
  by_id_.clear();
  entries_.clear();
  bytes_ = 0;
}

std::size_t AnswerCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void AnswerCache::erase(Entries::iterator entry) {
  bytes_ -= entry->bytes;
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

}  // namespace semel::idempotency
