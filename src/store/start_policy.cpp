#include "store/start_policy.hpp"

namespace semel::store {

namespace {

using Why = StartRefused::Why;

bool is_over(const Holder& holder, TimePoint now) {
  return is_end(holder.status) && holder.until && *holder.until <= now;
}

/// Handing back a run is right only if it was started with the same workflow and arguments.
StartDecision hand_back(const NewRun& run, const Holder& holder) {
  const bool same_input = !run.check_fingerprint || run.fingerprint == holder.fingerprint;
  if (run.workflow != holder.workflow || !same_input)
    return StartRefused{Why::input_differs, holder.id};
  return HandBack{holder.run};
}

/// Empty: the newcomer may take over.
std::optional<StartDecision> ask_unfinished(const NewRun& run, const Holder& holder) {
  switch (run.on_running) {
    case OnRunning::attach:
      return hand_back(run, holder);
    case OnRunning::reject:
      return StartRefused{Why::run_active, holder.id};
    case OnRunning::supersede:
      return std::nullopt;
  }
  return std::nullopt;
}

/// Empty: the newcomer may take over.
std::optional<StartDecision> ask_finished(const NewRun& run, const Holder& holder) {
  switch (run.after_done) {
    case AfterDone::return_result:
      return hand_back(run, holder);
    case AfterDone::start_new:
      return std::nullopt;
    case AfterDone::start_new_if_failed:
      if (holder.status != Status::completed) return std::nullopt;
      return hand_back(run, holder);
    case AfterDone::reject:
      return StartRefused{Why::run_finished, holder.id};
  }
  return std::nullopt;
}

}  // namespace

StartDecision decide_start(const NewRun& run, const std::optional<Holder>& key_holder,
                           const std::optional<Holder>& id_holder) {
  if (id_holder && !run.chosen_id) return StartRefused{Why::claims_differ, id_holder->id};
  const Holder* by_key =
      key_holder && !is_over(*key_holder, run.created_at) ? &*key_holder : nullptr;
  const Holder* by_id = id_holder && !is_over(*id_holder, run.created_at) ? &*id_holder : nullptr;
  if (by_key != nullptr && by_id != nullptr && by_key->run != by_id->run) {
    return StartRefused{Why::claims_differ, by_key->id};
  }

  Create create;
  if (const Holder* holder = by_key != nullptr ? by_key : by_id; holder != nullptr) {
    const auto answer =
        is_end(holder->status) ? ask_finished(run, *holder) : ask_unfinished(run, *holder);
    if (answer) return *answer;
    if (!is_end(holder->status)) create.cancel = holder->run;
  }
  if (id_holder) create.remove = id_holder->run;
  if (key_holder && (!id_holder || key_holder->run != id_holder->run))
    create.release = key_holder->run;
  return create;
}

}  // namespace semel::store
