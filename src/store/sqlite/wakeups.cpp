#include "store/sqlite/wakeups.hpp"

#include "store/sqlite/run_table.hpp"

namespace semel::store::sqlite {

std::optional<TimePoint> Wakeups::due(RunKey run, TimerKind kind, const std::string& op) {
  Rows rows = due_.select(run, kind, op);
  return rows.next() ? std::optional{rows.time(0)} : std::nullopt;
}

TimersDue Wakeups::timers_due(TimePoint now, std::int64_t limit) {
  TimersDue found;
  // One more than asked for: that one, or the first that is not due yet, says when to ask again.
  Rows rows = timers_due_.select(limit + 1);
  while (rows.next()) {
    Timer timer{.run = rows.integer(1),
                .kind = static_cast<TimerKind>(rows.integer(2)),
                .op = rows.text(3),
                .due = rows.time(0)};
    if (timer.due > now || std::ssize(found.timers) == limit) {
      found.next = timer.due;
      break;
    }
    found.timers.push_back(std::move(timer));
  }
  return found;
}

void Wakeups::put(RunKey run, const InboxItem& item) {
  std::string bytes;
  if (item.failure) bytes = journal::encode(*item.failure);
  const std::optional<Blob> failure = item.failure ? std::optional{Blob{bytes}} : std::nullopt;
  open_runs_.involve(run);
  put_.run(run, item.kind, item.op, item.value, failure, item.at);
}

std::vector<InboxItem> Wakeups::inbox(RunKey run) {
  std::vector<InboxItem> items;
  Rows rows = inbox_.select(run);
  while (rows.next()) {
    items.push_back({.id = rows.integer(0),
                     .kind = static_cast<InboxItem::Kind>(rows.integer(1)),
                     .op = rows.text(2),
                     .value = rows.text(3),
                     .failure = read_failure(rows, 4),
                     .at = rows.time(5)});
  }
  return items;
}

std::vector<Wakeups::Waiter> Wakeups::take_waiters(RunKey target) {
  std::vector<Waiter> found;
  {
    Rows rows = waiters_.select(target);
    while (rows.next()) found.push_back({.run = rows.integer(0), .op = rows.text(1)});
  }
  if (!found.empty()) remove_waiters_.run(target);
  return found;
}

std::vector<std::pair<std::string, std::string>> Wakeups::progress(RunKey run) {
  std::vector<std::pair<std::string, std::string>> found;
  Rows rows = progress_.select(run);
  while (rows.next()) found.emplace_back(rows.text(0), rows.text(1));
  return found;
}

std::vector<RunKey> Wakeups::work(RunKey after, std::int64_t limit) {
  std::vector<RunKey> found;
  Rows rows = work_.select(after, limit);
  while (rows.next()) found.push_back(rows.integer(0));
  return found;
}

void Wakeups::clear_generation(RunKey run) {
  clear_generation_timers_.run(run);
  clear_results_.run(run);
  clear_waits_.run(run);
  clear_progress_.run(run);
}

void Wakeups::clear(RunKey run) {
  // Most runs end with nothing left: one look is cheaper than four deletions of nothing.
  if (!has_any_.any(run)) return;
  clear_timers_.run(run);
  clear_inbox_.run(run);
  clear_waits_.run(run);
  clear_progress_.run(run);
}

}  // namespace semel::store::sqlite
