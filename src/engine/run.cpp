#include <semel/run.hpp>

namespace semel {

std::string_view to_string(RunStatus status) {
  switch (status) {
    case RunStatus::pending:
      return "pending";
    case RunStatus::running:
      return "running";
    case RunStatus::waiting:
      return "waiting";
    case RunStatus::completed:
      return "completed";
    case RunStatus::failed:
      return "failed";
    case RunStatus::cancelled:
      return "cancelled";
    case RunStatus::dead:
      return "dead";
    case RunStatus::diverged:
      return "diverged";
  }
  return "unknown";
}

namespace detail {

void throw_unless_completed(const std::string& id, const RunEnd& end) {
  if (end.status == RunStatus::completed) return;
  if (end.status == RunStatus::cancelled)
    throw RunCancelledError("RUN_CANCELLED", "run " + id + " was cancelled");
  throw RunFailedError("RUN_FAILED", "run " + id + " " + std::string(to_string(end.status)) + ": " +
                                         end.failure.code + ": " + end.failure.message);
}

void throw_no_run() {
  throw RunNotFoundError("RUN_NOT_FOUND",
                         "this Run stands for none: assign one that an engine gave");
}

}  // namespace detail

}  // namespace semel
