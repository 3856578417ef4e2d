#include "store/outcome.hpp"

#include <fmt/format.h>

namespace semel::store {

namespace {

journal::Entry outcome(const std::string& op) {
  return {.arrival = {.kind = journal::ArrivalKind::outcome, .op = op}};
}

journal::Failure conflict_failure(std::string_view token, std::string_view owner) {
  return {.code = "HOOK_CONFLICT",
          .message = token.empty()
                         ? fmt::format("the token belongs to run {}", owner)
                         : fmt::format("the token \"{}\" belongs to run {}", token, owner),
          .details = value::encode(std::string{owner})};
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
    case StartRefused::Why::hook_conflict: {
      journal::Entry entry = outcome(op);
      entry.arrival.failure = conflict_failure("", refused.run_id);
      return journal::encode(entry);
    }
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

std::string hook_outcome(const std::string& op) { return journal::encode(outcome(op)); }

std::string conflict_outcome(const std::string& op, std::string_view token,
                             std::string_view owner) {
  journal::Entry entry = outcome(op);
  entry.arrival.failure = conflict_failure(token, owner);
  return journal::encode(entry);
}

std::string close_outcome(const std::string& op, bool closed) {
  journal::Entry entry = outcome(op);
  entry.arrival.value = closed ? "true" : "false";
  return journal::encode(entry);
}

void take_payload(journal::Arrival& arrival, const PayloadItem& payload,
                  const std::optional<value::Misfit>& misfit) {
  arrival.at_seq = static_cast<Seq>(payload.id);
  if (misfit) {
    arrival.failure = journal::Failure{.code = "VALIDATION_ERROR",
                                       .message = misfit->message,
                                       .details = value::encode(misfit->path)};
  } else {
    arrival.value = payload.value;
  }
}

std::string payload_outcome(const std::string& op, const std::optional<PayloadItem>& payload,
                            const std::optional<value::Misfit>& misfit) {
  journal::Entry entry = outcome(op);
  if (payload) take_payload(entry.arrival, *payload, misfit);
  return journal::encode(entry);
}

std::string step_outcome(const std::string& op, const std::string& name, std::uint32_t attempt,
                         const std::string& value) {
  journal::Entry entry = outcome(op);
  entry.arrival.name = name;
  entry.arrival.attempt = attempt;
  entry.arrival.value = value;
  return journal::encode(entry);
}

journal::Entry cancelled_entry(const std::string& reason) {
  journal::Entry entry;
  entry.arrival.kind = journal::ArrivalKind::cancelled;
  entry.arrival.failure = journal::Failure{.code = "RUN_CANCELLED", .message = reason};
  return entry;
}

}  // namespace semel::store
