// What the log is told about runs: their names and codes. What went in or came out is in the journal, and not here.
#include "engine/loop.hpp"

#include <utility>

namespace semel::engine {

RunNames names_of(const LiveRun& run) {
  return {run.id, run.workspace, run.type != nullptr ? run.type->name : std::string{}};
}

RunNames names_of(const store::RunRecord& run) { return {run.id, run.workspace, run.workflow}; }

void Loop::tell(LogLevel level, std::string_view name, const RunNames& run, std::string message,
                std::vector<LogField> more) {
  if (!tells(level)) return;
  LogEvent event{.level = level,
                 .name = name,
                 .message = std::move(message),
                 .fields = {{"run", run.id}, {"workspace", run.workspace}}};
  if (!run.workflow.empty()) event.fields.push_back({"workflow", run.workflow});
  for (LogField& field : more) event.fields.push_back(std::move(field));
  host_.log(event);
}

void Loop::tell_end(const LiveRun& run, const detail::RunEnd& end) {
  const bool is_failed = end.status == RunStatus::failed;
  const LogLevel level = is_failed ? LogLevel::info : LogLevel::debug;
  if (!tells(level)) return;
  if (!is_failed) {
    const bool is_completed = end.status == RunStatus::completed;
    tell(level, is_completed ? "run.completed" : "run.cancelled", names_of(run),
         is_completed ? "a run was completed" : "a run was cancelled");
    return;
  }
  std::vector<LogField> why{{"code", end.failure.code}};
  if (!end.failure.name.empty()) why.push_back({"step", end.failure.name});
  tell(level, "run.failed", names_of(run), "a run failed", std::move(why));
}

void Loop::tell_failed_attempt(const LiveRun& run, const journal::Arrival& arrival,
                               std::optional<TimePoint> again_at) {
  if (!tells(LogLevel::info)) return;
  std::vector<LogField> what{{"step", arrival.name},
                             {"attempt", std::int64_t{arrival.attempt}},
                             {"code", arrival.failure->code}};
  if (again_at) {
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(*again_at - now_);
    what.push_back({"retry_in_ms", std::int64_t{wait.count()}});
  }
  tell(LogLevel::info, again_at ? "step.attempt_failed" : "step.failed", names_of(run),
       again_at ? "an attempt failed and is made again" : "a step failed for good",
       std::move(what));
}

}  // namespace semel::engine
