#include "app/copy.hpp"

#include "app/copy_source.hpp"
#include "app/copy_target.hpp"
#include "base/random.hpp"
#include "store/reservation_rows.hpp"
#include "store/start_text.hpp"

#include <semel/error.hpp>

#include <fmt/format.h>

namespace semel::app {

namespace {

using store::postgres::Columns;
using store::sqlite::Rows;
using store::sqlite::Statement;

/// From then on a commit takes no further run.
constexpr std::int64_t entries_per_commit = 2000;

/// For people, and so without a password.
std::string shown(const std::string& url) {
  const std::size_t begin = url.find("://") + 3;
  const std::size_t at = url.rfind('@');
  const std::size_t from = at == std::string::npos ? begin : at + 1;
  return "postgres://" + url.substr(from, url.find('?', from) - from);
}

/// One workspace on its way.
class Move {
 public:
  Move(CopySource& source, CopyTarget& target, std::int64_t workspace, const CopyOptions& options)
      : source_(source), target_(target), workspace_(workspace), options_(options) {
    all_ = source.number("SELECT count(*) FROM semel_run WHERE workspace = ?1", workspace) +
           source.number("SELECT count(*) FROM semel_reservation WHERE workspace = ?1", workspace);
  }

  CopyState run(CopyState state) {
    while (copy_runs(state)) report(state);
    while (copy_resumes(state)) report(state);
    while (copy_reservations(state)) report(state);
    return state;
  }

 private:
  void report(const CopyState& state) {
    options_.progress({.done = state.runs + state.reservations, .all = all_});
  }

  /// The last of the runs that go with the next commit; none: there are no more.
  std::optional<std::int64_t> next_runs(const CopyState& state) {
    Statement find{
        source_.database(),
        "SELECT r.run, (SELECT count(*) FROM semel_journal j WHERE j.run = r.run)"
        " FROM semel_run r WHERE r.workspace = ?1 AND r.run > ?2 ORDER BY r.run LIMIT ?3"};
    std::optional<std::int64_t> last;
    std::int64_t entries = 0;
    for (Rows rows = find.select(workspace_, state.last_run, options_.rows_per_commit);
         rows.next();) {
      last = rows.integer(0);
      entries += rows.integer(1);
      if (entries >= entries_per_commit) break;
    }
    return last;
  }

  /// All rows of the runs behind the last one up to `upto`. What is selected begins with r.run.
  template <class F>
  std::int64_t each(const char* sql, const CopyState& state, std::int64_t upto, F take) {
    Statement find{source_.database(), sql};
    std::int64_t count = 0;
    for (Rows rows = find.select(workspace_, state.last_run, upto); rows.next(); ++count)
      take(rows.integer(0) + state.run_shift, rows);
    return count;
  }

  bool copy_runs(CopyState& state) {
    const auto upto = next_runs(state);
    if (!upto) return false;
    CopyBatch batch{target_};
    state.runs += copy_run_rows(batch, state, *upto);
    state.entries += copy_journal(batch, state, *upto);
    copy_wakeups(batch, state, *upto);
    copy_notes(batch, state, *upto);
    copy_hooks(batch, state, *upto);
    state.payloads += copy_payloads(batch, state, *upto);
    state.last_run = *upto;
    batch.commit(state);
    return true;
  }

  std::int64_t copy_run_rows(CopyBatch& batch, const CopyState& state, std::int64_t upto) {
    Columns columns{"iiiiiiiiiiiiiiiibbbbbbbb"};
    const auto count = each(
        "SELECT r.run, r.created_at, r.ended_at, r.deadline, r.parent, r.key_ttl, r.retention,"
        " r.key_until, r.keep_until, r.first_seq, r.code_version, r.generation, r.status,"
        " coalesce(r.holds_key, 0), r.id, r.instance, r.workflow, r.idempotency_key,"
        " r.fingerprint, r.failure, r.input, r.output FROM semel_run r"
        " WHERE r.workspace = ?1 AND r.run > ?2 AND r.run <= ?3 ORDER BY r.run",
        state, upto, [&](std::int64_t run, const Rows& row) {
          std::optional<std::int64_t> parent = row.optional_integer(4);
          if (parent) *parent += state.run_shift;
          columns.add(run, state.workspace, row.integer(1), row.optional_integer(2),
                      row.optional_integer(3), parent, row.integer(5), row.integer(6),
                      row.optional_integer(7), row.optional_integer(8), row.integer(9),
                      target_.partition_until_done(run), row.integer(10), row.integer(11),
                      row.integer(12), row.integer(13), row.view(14), row.view(15), row.view(16),
                      row.optional_text(17), row.view(18), row.optional_text(19), row.view(20),
                      row.view(21));
        });
    batch.add(CopyTable::run, columns);
    return count;
  }

  std::int64_t copy_journal(CopyBatch& batch, const CopyState& state, std::int64_t upto) {
    Columns columns{"iiib"};
    const auto count = each(
        "SELECT r.run, j.seq, j.at, j.entry FROM semel_run r CROSS JOIN semel_journal j"
        " WHERE j.run = r.run AND r.workspace = ?1 AND r.run > ?2 AND r.run <= ?3"
        " ORDER BY r.run, j.seq",
        state, upto, [&](std::int64_t run, const Rows& row) {
          columns.add(run, row.integer(1), row.integer(2), row.view(3));
        });
    batch.add(CopyTable::journal, columns);
    return count;
  }

  void copy_wakeups(CopyBatch& batch, const CopyState& state, std::int64_t upto) {
    Columns timers{"iibi"};
    each(
        "SELECT r.run, t.kind, t.op, t.due FROM semel_run r CROSS JOIN semel_timer t"
        " WHERE t.run = r.run AND r.workspace = ?1 AND r.run > ?2 AND r.run <= ?3",
        state, upto, [&](std::int64_t run, const Rows& row) {
          timers.add(run, row.integer(1), row.view(2), row.integer(3));
        });
    batch.add(CopyTable::timer, timers);
    Columns inbox{"iiibbbi"};
    each(
        "SELECT r.run, i.item, i.kind, i.op, i.value, i.failure, i.at"
        " FROM semel_run r CROSS JOIN semel_inbox i"
        " WHERE i.run = r.run AND r.workspace = ?1 AND r.run > ?2 AND r.run <= ?3",
        state, upto, [&](std::int64_t run, const Rows& row) {
          inbox.add(row.integer(1) + state.item_shift, run, row.integer(2), row.view(3),
                    row.view(4), row.optional_text(5), row.integer(6));
        });
    batch.add(CopyTable::inbox, inbox);
    Columns waiters{"ibi"};
    each(
        "SELECT r.run, w.op, w.target FROM semel_run r CROSS JOIN semel_waiter w"
        " WHERE w.run = r.run AND r.workspace = ?1 AND r.run > ?2 AND r.run <= ?3",
        state, upto, [&](std::int64_t run, const Rows& row) {
          waiters.add(run, row.view(1), row.integer(2) + state.run_shift);
        });
    batch.add(CopyTable::waiter, waiters);
  }

  void copy_notes(CopyBatch& batch, const CopyState& state, std::int64_t upto) {
    Columns attributes{"iibb"};
    each(
        "SELECT r.run, a.name, a.value FROM semel_run r CROSS JOIN semel_attribute a"
        " WHERE a.run = r.run AND r.workspace = ?1 AND r.run > ?2 AND r.run <= ?3",
        state, upto, [&](std::int64_t run, const Rows& row) {
          attributes.add(run, state.workspace, row.view(1), row.view(2));
        });
    batch.add(CopyTable::attribute, attributes);
    Columns progress{"ibb"};
    each(
        "SELECT r.run, p.op, p.value FROM semel_run r CROSS JOIN semel_progress p"
        " WHERE p.run = r.run AND r.workspace = ?1 AND r.run > ?2 AND r.run <= ?3",
        state, upto,
        [&](std::int64_t run, const Rows& row) { progress.add(run, row.view(1), row.view(2)); });
    batch.add(CopyTable::progress, progress);
  }

  void copy_hooks(CopyBatch& batch, const CopyState& state, std::int64_t upto) {
    Columns hooks{"iiiiiiiibbb"};
    each(
        "SELECT r.run, h.hook, h.since, coalesce(h.active, 0), h.at_end, h.fed, h.webhook, h.token,"
        " h.op, h.shape FROM semel_run r CROSS JOIN semel_hook h"
        " WHERE h.run = r.run AND r.workspace = ?1 AND r.run > ?2 AND r.run <= ?3",
        state, upto, [&](std::int64_t run, const Rows& row) {
          hooks.add(row.integer(1) + state.hook_shift, state.workspace, run, row.integer(2),
                    row.integer(3), row.integer(4), row.integer(5), row.integer(6), row.view(7),
                    row.view(8), row.view(9));
        });
    batch.add(CopyTable::hook, hooks);
  }

  std::int64_t copy_payloads(CopyBatch& batch, const CopyState& state, std::int64_t upto) {
    Columns payloads{"iiiiibb"};
    const auto count = each(
        "SELECT r.run, p.payload, p.hook, p.at, p.checked, p.value, p.start"
        " FROM semel_run r CROSS JOIN semel_payload p"
        " WHERE p.run = r.run AND r.workspace = ?1 AND r.run > ?2 AND r.run <= ?3",
        state, upto, [&](std::int64_t run, const Rows& row) {
          payloads.add(row.integer(1) + state.payload_shift, row.integer(2) + state.hook_shift, run,
                       row.integer(3), row.integer(4), row.view(5),
                       moved(row.optional_text(6), state.run_shift));
        });
    batch.add(CopyTable::payload, payloads);
    return count;
  }

  /// The run that a payload would start has a key already.
  std::optional<std::string> moved(std::optional<std::string> start, std::int64_t shift) const {
    if (!start || start->empty()) return start;
    auto text = store::moved_start(*start, shift, target_.partitions());
    if (!text) throw Error("STORE_UNAVAILABLE", text.error().message);
    return *std::move(text);
  }

  bool copy_resumes(CopyState& state) {
    Statement find{source_.database(),
                   "SELECT token, resume_id, fingerprint, run_id, hook, started, until"
                   " FROM semel_resume WHERE workspace = ?1 AND (token, resume_id) > (?2, ?3)"
                   " ORDER BY token, resume_id LIMIT ?4"};
    Columns columns{"ibbbbiii"};
    const std::string token = state.last_token;
    const std::string resume = state.last_resume;
    for (Rows row = find.select(workspace_, token, resume, options_.rows_per_commit); row.next();) {
      state.last_token = row.text(0);
      state.last_resume = row.text(1);
      columns.add(state.workspace, row.view(0), row.view(1), row.view(2), row.view(3),
                  row.integer(4) + state.hook_shift, row.integer(5), row.integer(6));
    }
    if (columns.empty()) return false;
    CopyBatch batch{target_};
    batch.add(CopyTable::resume, columns);
    batch.commit(state);
    return true;
  }

  bool copy_reservations(CopyState& state) {
    Statement find{source_.database(),
                   "SELECT fence, lease_until, ttl, expires_at, sweep_at, state, on_abandoned,"
                   " fingerprint, ns, scope, key, owner, answer FROM semel_reservation"
                   " WHERE workspace = ?1 AND fence > ?2 ORDER BY fence LIMIT ?3"};
    Columns columns{"biiiiiiiibbbbbb"};
    for (Rows row = find.select(workspace_, state.last_fence, options_.rows_per_commit);
         row.next();) {
      state.last_fence = row.integer(0);
      ++state.reservations;
      const store::ReservationId id{.ns = row.text(8), .scope = row.text(9), .key = row.text(10)};
      const store::ReservationPlace place{state.workspace, id};
      columns.add(place.digest(), row.integer(0), state.workspace, row.integer(1), row.integer(2),
                  row.integer(3), row.integer(4), row.integer(5), row.integer(6), row.view(7),
                  row.view(8), row.view(9), row.view(10), row.view(11), row.view(12));
    }
    if (columns.empty()) return false;
    CopyBatch batch{target_};
    batch.add(CopyTable::reservation, columns);
    batch.commit(state);
    return true;
  }

  CopySource& source_;
  CopyTarget& target_;
  const std::int64_t workspace_;  ///< of the source
  const CopyOptions& options_;
  std::int64_t all_ = 0;
};

/// How many numbers the source has drawn of each kind, whatever became of them.
Drawn drawn_of(CopySource& source) {
  const auto sequence = [&](const char* sql) { return source.number(sql); };
  return {
      .runs = sequence("SELECT next FROM semel_counter WHERE name = 'run' AND ?1 = 0"),
      .items = sequence("SELECT seq FROM sqlite_sequence WHERE name = 'semel_inbox' AND ?1 = 0"),
      .hooks = sequence("SELECT seq FROM sqlite_sequence WHERE name = 'semel_hook' AND ?1 = 0"),
      .payloads =
          sequence("SELECT seq FROM sqlite_sequence WHERE name = 'semel_payload' AND ?1 = 0"),
      .fences = sequence("SELECT max(fence) FROM semel_reservation WHERE ?1 = 0")};
}

std::string new_copy_id() {
  base::SystemRandom random;
  return fmt::format("{:016x}{:016x}", random.next(), random.next());
}

Copied copied_of(const CopyState& state, bool was_done, std::vector<std::string> left_over) {
  return {.runs = state.runs,
          .entries = state.entries,
          .payloads = state.payloads,
          .reservations = state.reservations,
          .was_done = was_done,
          .left_over = std::move(left_over)};
}

Copied copy(const CopyOptions& options) {
  CopySource source{options.from};
  const auto workspace = source.workspace(options.workspace);
  if (!workspace) {
    throw Error("VALIDATION_ERROR",
                fmt::format("there is no workspace {} in {}", options.workspace, options.from));
  }
  auto mark = source.mark(options.workspace);
  if (mark && mark->target != shown(options.to)) {
    throw Error("VALIDATION_ERROR",
                fmt::format("workspace {} {} moved to {}: give --to as it was given then",
                            options.workspace, mark->is_done ? "was" : "is being", mark->target));
  }
  CopyTarget target{options.to};
  if (!mark) {
    target.require_room(options.workspace);
    mark = MoveMark{.copy = new_copy_id(), .target = shown(options.to)};
    source.begin(options.workspace, *mark);
    options.progress({});
  }
  const bool was_done = mark->is_done;
  CopyState state = target.begin(mark->copy, drawn_of(source));
  if (!state.is_done) {
    state = Move{source, target, *workspace, options}.run(std::move(state));
    target.finish(state, options.workspace, source.was_cut_off());
    const std::int64_t all = state.runs + state.reservations;
    options.progress({.done = all, .all = all});
  }
  if (!was_done) source.finish(options.workspace);
  return copied_of(state, was_done, source.left_over());
}

void undo(const CopyOptions& options) {
  CopySource source{options.from};
  const auto mark = source.mark(options.workspace);
  if (!mark) return;
  if (mark->target != shown(options.to))
    throw Error("VALIDATION_ERROR", "it is being moved to " + mark->target + ": give that as --to");
  CopyTarget target{options.to};
  if (mark->is_done || !target.forget(mark->copy)) {
    throw Error("STORE_UNAVAILABLE",
                fmt::format("workspace {} has been moved to {}, and its runs may have gone on "
                            "there: it cannot be taken back",
                            options.workspace, mark->target));
  }
  source.forget(options.workspace);
}

template <class F>
auto in_words(F call) {
  try {
    return call();
  } catch (const store::Failed& failed) {
    throw Error("STORE_UNAVAILABLE",
                failed.fault().message + "; give the same command again to go on");
  }
}

}  // namespace

Copied copy_workspace(const CopyOptions& options) {
  return in_words([&] { return copy(options); });
}

void undo_copy(const CopyOptions& options) {
  in_words([&] { undo(options); });
}

}  // namespace semel::app
