#include "store/looking.hpp"

namespace semel::store {

Answer load_run(Tables& tables, const LoadRun& command) {
  auto record = tables.runs.record(command.run);
  if (!record) return RunMissing{};
  const auto starts_at = record->status == Status::pending
                             ? tables.wakeups.due(command.run, TimerKind::start, "")
                             : std::nullopt;
  return RunLoaded{.run = *record,
                   .starts_at = starts_at,
                   .entries = tables.journal.entries(command.run, record->first_seq),
                   .inbox = tables.wakeups.inbox(command.run),
                   .payloads = tables.hooks.oldest_of_each(command.run),
                   .progress = tables.wakeups.progress(command.run)};
}

InboxRead read_inbox(Tables& tables, const ReadInbox& command) {
  return {tables.wakeups.inbox(command.run), tables.hooks.oldest_of_each(command.run)};
}

Answer find_run(Tables& tables, const FindRun& command) {
  const auto workspace = tables.runs.workspace(command.workspace);
  const auto run = workspace ? tables.runs.find(*workspace, command.id) : std::nullopt;
  if (!run) return RunMissing{};
  return RunLoaded{.run = *tables.runs.record(*run)};
}

}  // namespace semel::store
