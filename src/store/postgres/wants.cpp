#include "store/postgres/wants.hpp"

#include "store/postgres/presumed.hpp"
#include "store/postgres/schema.hpp"
#include "store/reservation_rows.hpp"

#include <algorithm>

namespace semel::store::postgres {

std::int32_t Ownership::home(RunKey run) const {
  const auto number = static_cast<std::uint64_t>(run);
  if (!partitions.empty()) return partitions[number % partitions.size()];
  return is_all ? 0 : static_cast<std::int32_t>(number % partition_count);
}

namespace {

constexpr std::size_t runs_known_max = 1U << 16U;

class Foresight {
 public:
  Foresight(const Known& known, Wants& wants, bool presumes)
      : known_(known), wants_(wants), presumes_(presumes) {}

  void operator()(const StartRun& command) {
    run(command.run);
    if (presumes_ && is_only_entries(command.changes) && !command.changes.end) return;
    changes(command.changes, command.run.key, known_.workspace(command.run.workspace));
  }

  void operator()(const AdvanceRun& command) { advance(command); }

  void operator()(const CancelRun& command) {
    if (const auto workspace = known_.workspace(command.workspace))
      wants_.ids[{*workspace, command.id}] |=
          record_parts | hooks_part | waiters_part | children_part;
  }

  void operator()(const ReopenRun& command) {
    wants_.runs[command.run] |= record_parts | hooks_part;
    changes(command.changes, command.run, workspace_of_run(command.run));
  }

  void operator()(const MarkRun& command) { wants_.runs[command.run] |= row_part; }

  void operator()(const SaveProgress& command) { wants_.runs[command.run] |= row_part; }

  void operator()(const LoadRun& command) {
    wants_.runs[command.run] |=
        record_parts | hooks_part | inbox_part | entries_part | progress_part | timers_part;
  }

  void operator()(const ReadInbox& command) {
    wants_.runs[command.run] |= row_part | inbox_part | hooks_part;
  }

  void operator()(const FindRun& command) {
    if (const auto workspace = known_.workspace(command.workspace))
      wants_.ids[{*workspace, command.id}] |= record_parts;
  }

  void operator()(const Deliver& command) { deliver(command); }

  void operator()(const ResumeOrStart& command) {
    deliver(command.deliver);
    run(command.run);
  }

  void operator()(const Reserve& command) {
    reservation(command.id);
    ++wants_.numbers[static_cast<std::size_t>(Number::fence)];
  }

  void operator()(const Complete& command) { reservation(command.id); }

  void operator()(const Release& command) { reservation(command.id); }

  void operator()(const Renew& command) { reservation(command.id); }

  void operator()(const Forget& command) { reservation(command.id); }

  void operator()(const FindReservation& command) { reservation(command.id); }

  void operator()(const Transact& command) {
    if (command.step) wants_.runs[command.step->run] |= row_part;
  }

  /// The rest is about the store as a whole.
  template <class Other>
  void operator()(const Other&) {}

 private:
  std::optional<std::int64_t> workspace_of_run(RunKey run) const {
    const auto found = known_.workspace_of.find(run);
    return found == known_.workspace_of.end() ? std::nullopt : std::optional{found->second};
  }

  void run(const NewRun& run) {
    const auto workspace = known_.workspace(run.workspace);
    if (!workspace) return;
    // Where nothing but its id can be in the way, and that was made: the unique index would say so.
    const bool is_nobodys = !run.chosen_id && !run.idempotency_key && run.hooks.empty();
    if (!presumes_ || !is_nobodys)
      wants_.ids[{*workspace, run.id}] |= run.chosen_id ? record_parts : row_part;
    if (run.idempotency_key) wants_.keys[{*workspace, *run.idempotency_key}] |= record_parts;
    for (const HookClaim& claim : run.hooks)
      wants_.tokens[{*workspace, claim.token}] |= row_part | hooks_part;
    if (!run.hooks.empty()) wants_.runs[run.key] |= row_part | hooks_part;
  }

  void changes(const Changes& changes, RunKey key, std::optional<std::int64_t> workspace) {
    Parts parts = row_part;
    if (!changes.hooks.empty() || !changes.payloads_consumed.empty() || changes.continue_as_new)
      parts |= hooks_part;
    if (changes.end) parts |= hooks_part | waiters_part;
    wants_.runs[key] |= parts;
    for (const ChildRequest& request : changes.children) run(request.run);
    if (!workspace) return;
    for (const WaitRequest& request : changes.waits)
      wants_.ids[{*workspace, request.run_id}] |= row_part | texts_part;
    for (const HookChange& change : changes.hooks) {
      if (change.kind == HookChange::Kind::open)
        wants_.tokens[{*workspace, change.claim.token}] |= row_part | hooks_part;
    }
  }

  void advance(const AdvanceRun& command) {
    if (presumes_ && can_presume(command, known_)) return;
    changes(command.changes, command.run, workspace_of_run(command.run));
  }

  void deliver(const Deliver& command) {
    const auto workspace = known_.workspace(command.workspace);
    if (!workspace) return;
    wants_.tokens[{*workspace, command.token}] |= row_part | hooks_part;
    if (command.resume_id) wants_.resumes.emplace(*workspace, command.token, *command.resume_id);
    if (command.reading) advance(command.reading->step);
  }

  void reservation(const ReservationId& id) {
    if (const auto workspace = known_.workspace(id.workspace))
      wants_.reservations.insert(ReservationPlace{*workspace, id}.digest());
  }

  const Known& known_;
  Wants& wants_;
  bool presumes_;
};

}  // namespace

void Wants::add(const Wants& more) {
  for (const auto& [run, parts] : more.runs) runs[run] |= parts;
  for (const auto& [name, parts] : more.ids) ids[name] |= parts;
  for (const auto& [name, parts] : more.keys) keys[name] |= parts;
  for (const auto& [name, parts] : more.tokens) tokens[name] |= parts;
  resumes.insert(more.resumes.begin(), more.resumes.end());
  reservations.insert(more.reservations.begin(), more.reservations.end());
  hooks_whole.insert(more.hooks_whole.begin(), more.hooks_whole.end());
  payloads.insert(more.payloads.begin(), more.payloads.end());
  for (std::size_t i = 0; i < number_kinds; ++i) numbers[i] = std::max(numbers[i], more.numbers[i]);
  names.insert(more.names.begin(), more.names.end());
  workspaces.insert(more.workspaces.begin(), more.workspaces.end());
}

bool Wants::empty() const {
  return runs.empty() && ids.empty() && keys.empty() && tokens.empty() && resumes.empty() &&
         reservations.empty() && hooks_whole.empty() && payloads.empty() && names.empty() &&
         workspaces.empty() &&
         std::ranges::all_of(numbers, [](std::int64_t count) { return count == 0; });
}

std::optional<std::int64_t> Known::workspace(const std::string& name) const {
  const auto found = workspaces.find(name);
  return found == workspaces.end() ? std::nullopt : std::optional{found->second};
}

void Known::note_workspace(const std::string& name, std::int64_t number) {
  workspaces.emplace(name, number);
  names.emplace(number, name);
}

void Known::note_run(RunKey run, std::int64_t workspace) {
  if (workspace_of.size() >= runs_known_max) workspace_of.clear();
  workspace_of.emplace(run, workspace);
}

void foresee(const Command& command, const Known& known, Wants& wants, bool presumes) {
  const NamedWorkspace workspace = workspace_of(command);
  if (workspace.name != nullptr && !known.workspace(*workspace.name))
    wants.names.insert(*workspace.name);
  std::visit(Foresight{known, wants, presumes}, command);
}

NamedWorkspace workspace_of(const Command& command) {
  return std::visit(
      [](const auto& each) -> NamedWorkspace {
        if constexpr (requires { each.run.workspace; }) {
          return {&each.run.workspace, true};
        } else if constexpr (requires { each.workspace; }) {
          return {&each.workspace, false};
        } else if constexpr (requires { each.id.workspace; }) {
          using Each = std::decay_t<decltype(each)>;
          return {&each.id.workspace, std::is_same_v<Each, Reserve>};
        } else {
          return {};
        }
      },
      command);
}

}  // namespace semel::store::postgres
