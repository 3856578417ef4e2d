#include "tests/simulation/hook_checks.hpp"

#include <semel/value.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace semel::sim {

using journal::ArrivalKind;

namespace {

/// An answer may be heard some commits after its own.
constexpr std::uint64_t news = 8;

}  // namespace

void HookChecks::accepted(std::int64_t payload) {
  accepted_.insert(payload);
  // Taken in and gone with its run, which made room for another of its id in the same batch: nobody ever saw it.
  const bool is_seen =
      waits_.contains(payload) || read_.contains(payload) || swept_.contains(payload);
  if (!is_seen && commits_since_gone_ <= news) swept_.insert(payload);
}

std::optional<Violation> HookChecks::after_commit(const std::vector<NewEntry>& entries, bool gone) {
  commits_since_gone_ = gone ? 0 : commits_since_gone_ + 1;
  if (auto wrong = check_owners()) return wrong;
  if (auto wrong = check_conflicts(entries)) return wrong;
  std::set<std::int64_t> waits;
  {
    store::sqlite::Rows rows = waiting_.select();
    while (rows.next()) waits.insert(std::stoll(rows.text(0)));
  }
  std::swap(waits_, waits);  // now `waits` is as it was before
  if (auto wrong = check_reading(entries)) return wrong;
  for (const std::int64_t payload : waits) {
    if (waits_.contains(payload) || read_.contains(payload)) continue;
    if (!gone) return Violation{"S7", fmt::format("payload {} vanished unread", payload)};
    swept_.insert(payload);
  }
  return std::nullopt;
}

std::optional<Violation> HookChecks::check_owners() {
  {
    store::sqlite::Rows rows = twice_.select();
    if (rows.next())
      return Violation{"S8", fmt::format("the token {} has two owners", rows.text(0))};
  }
  {
    store::sqlite::Rows rows = of_ended_.select();
    if (rows.next()) {
      return Violation{"S8", fmt::format("run {} is over and still has the token {}", rows.text(1),
                                         rows.text(0))};
    }
  }
  store::sqlite::Rows rows = homeless_.select();
  if (rows.next()) return Violation{"S7", fmt::format("payload {} has no hook", rows.text(0))};
  return std::nullopt;
}

/// No simulated workflow has two hooks with one token: none is in its own way.
std::optional<Violation> HookChecks::check_conflicts(const std::vector<NewEntry>& entries) {
  for (const NewEntry& entry : entries) {
    const auto decoded = journal::decode(entry.bytes);
    if (!decoded || decoded->arrival.kind != ArrivalKind::outcome) continue;
    const auto& failure = decoded->arrival.failure;
    if (!failure || failure->code != "HOOK_CONFLICT" || failure->details.empty()) continue;
    const auto owner = value::decode<std::string>(failure->details, value::Mode::journal);
    store::sqlite::Rows rows = id_.select(entry.run);
    if (rows.next() && rows.text(0) == owner)
      return Violation{"S8", fmt::format("run {} is in conflict with itself", owner)};
  }
  return std::nullopt;
}

/// A payload is read once, by one run, and does not wait any more. A fork has read what it copied.
std::optional<Violation> HookChecks::check_reading(const std::vector<NewEntry>& entries) {
  std::map<RunKey, journal::Seq> copied;
  for (const NewEntry& entry : entries) {
    const auto decoded = journal::decode(entry.bytes);
    if (decoded && decoded->arrival.kind == ArrivalKind::forked) copied[entry.run] = entry.seq;
  }
  for (const NewEntry& entry : entries) {
    const auto copy = copied.find(entry.run);
    if (copy != copied.end() && entry.seq < copy->second) continue;
    const auto decoded = journal::decode(entry.bytes);
    if (!decoded) continue;
    const journal::Arrival& arrival = decoded->arrival;
    const bool has_payload = arrival.kind == ArrivalKind::payload_arrived ||
                             (arrival.kind == ArrivalKind::outcome && arrival.at_seq != 0);
    if (!has_payload) continue;
    const std::int64_t payload = std::stoll(arrival.value);
    const auto [before, is_new] = read_.emplace(payload, entry.run);
    if (!is_new) {
      return Violation{"S7", fmt::format("payload {} was read by run {} and again by run {}",
                                         payload, before->second, entry.run)};
    }
    if (waits_.contains(payload))
      return Violation{"S7", fmt::format("payload {} was read and still waits", payload)};
  }
  return std::nullopt;
}

std::optional<Violation> HookChecks::everything() {
  for (const std::int64_t payload : accepted_) {
    if (waits_.contains(payload) || read_.contains(payload) || swept_.contains(payload)) continue;
    return Violation{"S7", fmt::format("payload {} was accepted and is lost", payload)};
  }
  return std::nullopt;
}

}  // namespace semel::sim
