#include "store/outcome.hpp"

#include <fmt/format.h>

namespace semel::store {

namespace {

journal::Entry outcome(const std::string& op) {
  return {.arrival = {.kind = journal::ArrivalKind::outcome, .op = op}};
}

std::string failed_outcome(const std::string& op, std::string code, std::string message) {
  journal::Entry entry = outcome(op);
  entry.arrival.failure = journal::Failure{.code = std::move(code), .message = std::move(message)};
  return journal::encode(entry);
}

}  // namespace

std::string child_outcome(const std::string& op, std::string_view run_id, bool created) {
  journal::Entry entry = outcome(op);
  entry.arrival.name = run_id;
  entry.arrival.value = created ? "true" : "false";
  return journal::encode(entry);
}

std::string refused_outcome(const std::string& op, const StartRefused& refused) {
  switch (refused.why) {
    case StartRefused::Why::run_active:
      return failed_outcome(
          op, "RUN_ACTIVE",
          fmt::format("run {} has this key or id and is not over", refused.run_id));
    case StartRefused::Why::run_finished:
      return failed_outcome(op, "RUN_FINISHED",
                            fmt::format("run {} has this key or id and is over", refused.run_id));
    case StartRefused::Why::input_differs:
      return failed_outcome(
          op, "IDEMPOTENCY_CONFLICT",
          fmt::format("run {} has this key or id with another input", refused.run_id));
    case StartRefused::Why::claims_differ:
      break;
  }
  return failed_outcome(
      op, "IDEMPOTENCY_CONFLICT",
      fmt::format("run {} has this key, but the id belongs to another run", refused.run_id));
}

std::string not_found_outcome(const std::string& op, std::string_view run_id) {
  return failed_outcome(op, "RUN_NOT_FOUND", fmt::format("there is no run {}", run_id));
}

std::string self_wait_outcome(const std::string& op, std::string_view run_id) {
  return failed_outcome(op, "RUN_ACTIVE",
                        fmt::format("run {} cannot wait for its own end", run_id));
}

journal::Entry cancelled_entry(const std::string& reason) {
  journal::Entry entry;
  entry.arrival.kind = journal::ArrivalKind::cancelled;
  entry.arrival.failure = journal::Failure{.code = "RUN_CANCELLED", .message = reason};
  return entry;
}

}  // namespace semel::store
