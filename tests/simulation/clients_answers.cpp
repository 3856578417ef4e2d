// What an answered start promises: S6 (it is there), S11 (the right one is).
#include "tests/simulation/clients.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace semel::sim {

void Clients::check_started(const Start& start, const engine::StartReply& reply) {
  const Known* run = checks_.find(start.workspace, reply.id);
  if (run == nullptr) {
    // Made, ended and swept, or replaced under its id, by one batch.
    if (checks_.is_swept(start.workspace, reply.id)) return;
    checks_.fail("S6", fmt::format("run {} was acknowledged and is not there", reply.id));
    return;
  }
  if (!reply.created) return check_attached(start, *run);
  if (run->row.workflow != start.workflow || run->row.input != start.input) {
    // Its id was taken over by a later command of the same batch.
    if (!start.options.run_id)
      checks_.fail("S11", fmt::format("run {} is not what was started", reply.id));
    return;
  }
  if (run->key_before && start.options.key) check_created(start, *run, *run->key_before, true);
  if (run->id_before && start.options.run_id) check_created(start, *run, *run->id_before, false);
}

/// A run was made although `before` had its key or id: then the policies allow it.
void Clients::check_created(const Start& start, const Known& run, RunKey before, bool by_key) {
  const Known* holder = checks_.find(before);
  if (holder == nullptr || checks_.has_rival(run)) return;
  // It made room for another run of its id, and its key went with it.
  if (by_key && !checks_.runs().contains(before)) return;
  const StartOptions& options = start.options;
  const bool ended_now = checks_.is_news(holder->ended_in);
  const bool was_open = !holder->row.is_over() || ended_now;
  const bool made_way = holder->row.status == Status::cancelled;
  if (was_open && options.on_running == OnRunning::supersede && made_way) return;
  if (!holder->row.is_over()) {
    checks_.fail("S11",
                 fmt::format("run {} was made while run {} has its key or id and is not over",
                             run.id(), holder->id()));
    return;
  }
  const auto& until = by_key ? holder->row.key_until : holder->row.keep_until;
  // Taken from the holder already: nobody knows any more how long it would have had it.
  if (!until || *until <= run.row.created_at) return;
  const bool allowed = options.after_done == AfterDone::start_new ||
                       (options.after_done == AfterDone::start_new_if_failed &&
                        holder->row.status != Status::completed);
  if (!allowed && !ended_now) {
    checks_.fail("S11", fmt::format("run {} was made although run {} still has its key or id",
                                    run.id(), holder->id()));
  }
}

/// The run that had the id when the start was answered by the store, or one that has it since: the later one is not what
/// was meant where the earlier one fits.
void Clients::check_attached(const Start& start, const Known& run) {
  const bool is_new = checks_.is_news(run.made_in);
  if (is_new && start.options.run_id) return;  // another one that has the id since
  const std::string wrong = why_not_attached(start, run);
  if (wrong.empty()) return;
  const Known* before = is_new && run.id_before ? checks_.find(*run.id_before) : nullptr;
  if (before != nullptr) return check_attached(start, *before);
  checks_.fail("S11", wrong);
}

/// Empty where the policies allow that `run` was handed back.
std::string Clients::why_not_attached(const Start& start, const Known& run) const {
  const StartOptions& options = start.options;
  const bool same_input = options.fingerprint == Fingerprint::off || run.row.input == start.input ||
                          run.row.workflow == "renewing";
  if (run.row.workflow != start.workflow || !same_input) {
    return fmt::format("run {} was handed back for {}{}, it is {}{}", run.id(), start.workflow,
                       start.input, run.row.workflow, run.row.input);
  }
  if (!run.row.is_over() && options.on_running != OnRunning::attach &&
      !checks_.is_news(run.reopened_in)) {
    return fmt::format("run {} was handed back against on_running", run.id());
  }
  const bool allowed =
      options.after_done == AfterDone::return_result ||
      (options.after_done == AfterDone::start_new_if_failed && run.row.status == Status::completed);
  if (run.row.is_over() && !allowed && !checks_.is_news(run.ended_in))
    return fmt::format("run {} was handed back against after_done", run.id());
  return {};
}

void Clients::check_refused(const std::string& call, const engine::Refusal& refusal) {
  constexpr std::array known{"STORE_UNAVAILABLE", "IDEMPOTENCY_CONFLICT", "RUN_ACTIVE",
                             "RUN_FINISHED",      "RUN_NOT_FOUND",        "RUN_NOT_ACTIVE",
                             "CONCURRENCY_ERROR", "VALIDATION_ERROR",     "WORKFLOW_NOT_FOUND",
                             "ENGINE_STOPPED",    "HOOK_CONFLICT",        "HOOK_NOT_FOUND"};
  if (std::ranges::find(known, refusal.code) == known.end()) {
    checks_.fail("S6",
                 fmt::format("{} was refused with {}: {}", call, refusal.code, refusal.message));
  }
}

}  // namespace semel::sim
