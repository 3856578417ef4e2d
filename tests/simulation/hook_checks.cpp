#include "tests/simulation/hook_checks.hpp"

#include <semel/value.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace semel::sim {

using journal::ArrivalKind;

namespace {

/// The payload that the entry has read; none: it has not.
std::optional<std::int64_t> payload_in(const std::string& entry) {
  const auto decoded = journal::decode(entry);
  if (!decoded) return std::nullopt;
  const journal::Arrival& arrival = decoded->arrival;
  const bool has_payload = arrival.kind == ArrivalKind::payload_arrived ||
                           (arrival.kind == ArrivalKind::outcome && arrival.at_seq != 0);
  return has_payload ? std::optional{std::stoll(arrival.value)} : std::nullopt;
}

}  // namespace

/// A payload may be taken in and go with its run, which makes room for another of its id, by one batch; or be read at once
/// by a run that is swept. That is seen by nobody but a trigger.
void HookChecks::watch_payloads() {
  if (std::exchange(watches_payloads_, true)) return;
  database_.run(
      "CREATE TEMP TABLE new_payload (value); CREATE TEMP TABLE removed_entry (run, entry);"
      "CREATE TEMP TRIGGER note_new_payload AFTER INSERT ON main.semel_payload BEGIN"
      " INSERT INTO new_payload VALUES (new.value); END;"
      "CREATE TEMP TRIGGER note_removed_entry AFTER DELETE ON main.semel_journal BEGIN"
      " INSERT INTO removed_entry VALUES (old.run, old.entry); END");
}

/// Most of them were seen when they were written.
void HookChecks::read_removed_entries() {
  bool is_any = false;
  {
    store::sqlite::Rows rows = removed_.select();
    while (rows.next()) {
      is_any = true;
      if (const auto payload = payload_in(rows.text(1))) read_.emplace(*payload, rows.integer(0));
    }
  }
  if (is_any) database_.run("DELETE FROM temp.removed_entry");
}

std::set<std::int64_t> HookChecks::take_new_payloads() {
  watch_payloads();
  std::set<std::int64_t> found;
  {
    store::sqlite::Rows rows = new_.select();
    while (rows.next()) found.insert(std::stoll(rows.text(0)));
  }
  if (!found.empty()) database_.run("DELETE FROM temp.new_payload");
  return found;
}

std::optional<Violation> HookChecks::after_commit(const std::vector<NewEntry>& entries, bool gone) {
  if (auto wrong = check_owners()) return wrong;
  if (auto wrong = check_conflicts(entries)) return wrong;
  std::set<std::int64_t> waits;
  {
    store::sqlite::Rows rows = waiting_.select();
    while (rows.next()) waits.insert(std::stoll(rows.text(0)));
  }
  std::swap(waits_, waits);  // now `waits` is as it was before
  waits.merge(take_new_payloads());
  if (auto wrong = check_reading(entries)) return wrong;
  read_removed_entries();
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
    const auto payload = payload_in(entry.bytes);
    if (!payload) continue;
    const auto [before, is_new] = read_.emplace(*payload, entry.run);
    if (!is_new) {
      return Violation{"S7", fmt::format("payload {} was read by run {} and again by run {}",
                                         *payload, before->second, entry.run)};
    }
    if (waits_.contains(*payload))
      return Violation{"S7", fmt::format("payload {} was read and still waits", *payload)};
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
