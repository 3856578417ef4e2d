#include "serve/quotas.hpp"

#include "base/clock.hpp"
#include "http/problem.hpp"
#include "serve/own_rows.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

namespace semel::serve {

namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds second = std::chrono::seconds{1};
/// Counting and measuring take at most one part in so many of the committing thread's time.
constexpr int spare = 20;
constexpr nanoseconds count_every = std::chrono::milliseconds{100};
constexpr nanoseconds measure_every = std::chrono::seconds{10};
/// length() of an entry reads the row's header alone, that of a text all of it; and a text's is in characters.
constexpr std::int64_t entries_at_once = 1000;
constexpr std::int64_t runs_at_once = 100;

std::int64_t whole_seconds(nanoseconds time) {
  return std::max<std::int64_t>(1, (time + second - nanoseconds{1}) / second);
}

/// The row in which processes that share the store count a workspace's runs.
std::string counter_of(const std::string& workspace) { return "active-runs:" + workspace; }

http::ProblemError too_much(const std::string& limit, const std::string& detail,
                            std::int64_t after) {
  return {429, "RATE_LIMITED", detail,
          boost::json::object{{"limit", limit}, {"retryAfter", after}}};
}

}  // namespace

Quotas::Bucket& Quotas::bucket(const std::string& workspace) {
  {
    const std::shared_lock lock(mutex_);
    const auto found = buckets_.find(workspace);
    if (found != buckets_.end()) return *found->second;
  }
  const std::unique_lock lock(mutex_);
  auto& made = buckets_[workspace];
  if (!made) made = std::make_unique<Bucket>();
  return *made;
}

std::optional<http::Response> Quotas::take(const std::string& workspace, nanoseconds now) {
  if (limits_.requests_per_second <= 0) return std::nullopt;
  const auto each = std::max<std::int64_t>(
      1, std::llround(static_cast<double>(second.count()) / limits_.requests_per_second));
  // As many at once as come back within a second, and one at least.
  const std::int64_t room = std::max<std::int64_t>(second.count(), each);
  std::atomic<std::int64_t>& full_until = bucket(workspace).full_until;
  std::int64_t known = full_until.load(std::memory_order_relaxed);
  for (;;) {
    const std::int64_t taken = std::max(known, now.count()) + each;
    if (taken - now.count() > room) {
      const std::int64_t after = whole_seconds(nanoseconds{taken - room} - now);
      return http::problem("RATE_LIMITED", "the workspace asks more often than it may",
                           {{"limit", "requestsPerSecond"}, {"retryAfter", after}});
    }
    if (full_until.compare_exchange_weak(known, taken, std::memory_order_relaxed))
      return std::nullopt;
  }
}

std::optional<http::ProblemError> Quotas::refuse_start(store::UnitOfWork& unit,
                                                       const std::string& workspace,
                                                       nanoseconds now) {
  if (limits_.stored_bytes_max != 0 && usage_[workspace].bytes >= limits_.stored_bytes_max) {
    return too_much("storedBytes", "the workspace stores as much as it may",
                    measure_every / second);
  }
  if (limits_.active_runs_max == 0) return std::nullopt;
  Usage& usage = usage_[workspace];
  // Held until this is committed or done over: what others have started is in it, and they wait to see what we do.
  if (is_shared_) {
    unit.run_own(
        "INSERT INTO semel_counter AS c (name, next) VALUES (?1, -1)"
        " ON CONFLICT (name) DO UPDATE SET next = c.next RETURNING next",
        std::vector<sql::Value>{counter_of(workspace)}, [&](const sql::Row& row) {
          const std::int64_t runs = integer_in(row, 0);
          if (runs < 0) usage.count_at = nanoseconds{0};  // nobody has counted them, ever
          usage.runs = static_cast<std::uint64_t>(std::max<std::int64_t>(0, runs));
        });
  }
  if (now >= usage.count_at) count_runs(unit, workspace, usage, now);
  if (usage.runs < limits_.active_runs_max) return std::nullopt;
  return too_much("activeRuns", "the workspace has as many unfinished runs as it may", 1);
}

void Quotas::count_runs(store::UnitOfWork& unit, const std::string& workspace, Usage& usage,
                        nanoseconds now) {
  const auto began = base::monotonic_now();
  unit.run_own(
      "SELECT count(*) FROM semel_run WHERE status < 3 AND workspace ="
      " (SELECT workspace FROM semel_workspace WHERE name = ?1)",
      std::vector<sql::Value>{workspace},
      [&](const sql::Row& row) { usage.runs = static_cast<std::uint64_t>(integer_in(row, 0)); });
  if (is_shared_) {
    unit.run_own(
        "UPDATE semel_counter SET next = ?2 WHERE name = ?1",
        std::vector<sql::Value>{counter_of(workspace), static_cast<std::int64_t>(usage.runs)},
        [](const sql::Row&) {});
  }
  ++usage.counts;
  usage.count_at =
      now + std::max<nanoseconds>(count_every, spare * (base::monotonic_now() - began));
}

void Quotas::count_again(const std::string& workspace) {
  // What was counted is in the row no more; where it is in memory alone it holds.
  if (is_shared_) usage_[workspace].count_at = nanoseconds{0};
}

Quotas::Counted Quotas::started(store::UnitOfWork& unit, const std::string& workspace,
                                std::size_t bytes) {
  Usage& usage = usage_[workspace];
  if (is_shared_ && limits_.active_runs_max != 0) {
    unit.run_own("UPDATE semel_counter SET next = next + 1 WHERE name = ?1",
                 std::vector<sql::Value>{counter_of(workspace)}, [](const sql::Row&) {});
  }
  ++usage.runs;
  usage.bytes += bytes;
  usage.measuring += bytes;
  return {workspace, bytes, usage.counts};
}

void Quotas::take_back(const Counted& counted) {
  Usage& usage = usage_[counted.workspace];
  usage.bytes -= std::min<std::uint64_t>(usage.bytes, counted.bytes);
  usage.measuring -= std::min<std::uint64_t>(usage.measuring, counted.bytes);
  if (is_shared_) {
    count_again(counted.workspace);
  } else if (usage.counts == counted.count) {
    --usage.runs;
  } else {
    usage.count_at = nanoseconds{0};  // nobody knows whether that count had seen it
  }
}

std::optional<nanoseconds> Quotas::measure(store::UnitOfWork& unit, nanoseconds now) {
  if (limits_.stored_bytes_max == 0) return std::nullopt;
  const auto began = base::monotonic_now();
  std::int64_t rows = 0;
  const std::int64_t rows_at_once = is_past_runs_ ? entries_at_once : runs_at_once;
  unit.run_own(is_past_runs_ ? "SELECT j.run, j.seq, w.name, length(j.entry) FROM semel_journal j"
                               " CROSS JOIN semel_run r CROSS JOIN semel_workspace w"
                               " WHERE (j.run, j.seq) > (?1, ?2) AND r.run = j.run"
                               " AND w.workspace = r.workspace ORDER BY j.run, j.seq LIMIT ?3"
                             : "SELECT r.run, ?2, w.name, length(r.input) + length(r.output)"
                               " FROM semel_run r CROSS JOIN semel_workspace w WHERE r.run > ?1"
                               " AND w.workspace = r.workspace ORDER BY r.run LIMIT ?3",
               std::vector<sql::Value>{measured_run_, measured_seq_, rows_at_once},
               [&](const sql::Row& row) {
                 ++rows;
                 measured_run_ = integer_in(row, 0);
                 measured_seq_ = integer_in(row, 1);
                 usage_[text_in(row, 2)].measuring +=
                     static_cast<std::uint64_t>(integer_in(row, 3));
               });
  const nanoseconds pause = spare * (base::monotonic_now() - began);
  if (rows == rows_at_once) return now + pause;
  if (!is_past_runs_) {
    is_past_runs_ = true;
    measured_run_ = 0;
    return now + pause;
  }
  end_measuring();
  return now + std::max(measure_every, pause);
}

void Quotas::end_measuring() {
  for (auto& [workspace, usage] : usage_) {
    usage.bytes = usage.measuring;
    usage.measuring = 0;
  }
  measured_run_ = 0;
  measured_seq_ = -1;
  is_past_runs_ = false;
  is_measured_ = true;
}

}  // namespace semel::serve
