#include "tests/contract/describe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace semel::store {

namespace {

/// Seconds after the tests' beginning are what a reader wants, whole times what a comparison needs.
std::string text(TimePoint time) {
  return std::to_string(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

std::string text(const journal::Failure& failure) {
  return fmt::format("{}({}, {}, {}, {}, {})", failure.code, failure.message, failure.details,
                     failure.name, failure.op, failure.attempts);
}

std::string text(const std::string& value) { return value; }

template <class Number>
  requires std::integral<Number>
std::string text(Number number) {
  return std::to_string(number);
}

template <class Value>
std::string text(const std::optional<Value>& value) {
  return value ? text(*value) : "-";
}

template <class Value>
std::string text(const base::Rare<Value>& value) {
  return value ? text(*value) : "-";
}

std::string text(Status status) { return std::to_string(static_cast<int>(status)); }

std::string text(const Effects& effects) {
  std::string out = fmt::format("wake {} created {} ended {} outcomes", effects.wake,
                                effects.created, effects.ended);
  for (const std::string& outcome : effects.outcomes) out += " " + describe_entry(outcome);
  return out;
}

std::string text(const std::vector<HookClaim>& claims) {
  std::string out;
  for (const HookClaim& claim : claims)
    out += fmt::format(" claim {} {} {}", claim.op, claim.token, claim.shape);
  return out;
}

std::string text(const Changes& changes) {
  std::string out;
  if (changes.status) out += " status " + text(*changes.status);
  if (changes.code_version > 0) out += fmt::format(" code {}", changes.code_version);
  for (const Timer& timer : changes.timers_set) out += " set " + describe(timer);
  for (const Timer& timer : changes.timers_cleared) out += " clear " + describe(timer);
  if (!changes.inbox_consumed.empty()) out += fmt::format(" consume {}", changes.inbox_consumed);
  for (const auto& [name, value] : changes.attributes) out += fmt::format(" {}={}", name, value);
  for (const ChildRequest& child : changes.children) {
    out += fmt::format(" {} {}: {}", child.wait ? "child" : "spawn", child.op,
                       describe(StartRun{.run = child.run}));
  }
  for (const WaitRequest& wait : changes.waits)
    out += fmt::format(" wait {} for {}", wait.op, wait.run_id);
  if (!changes.payloads_consumed.empty()) out += fmt::format(" read {}", changes.payloads_consumed);
  for (const HookChange& hook : changes.hooks) {
    out += fmt::format(" hook {} {} of {} token {} {}", static_cast<int>(hook.kind), hook.op,
                       hook.hook, hook.claim.token, hook.claim.shape);
  }
  if (changes.continue_as_new) out += " AS NEW " + *changes.continue_as_new;
  if (!changes.waits_dropped.empty()) out += fmt::format(" drop {}", changes.waits_dropped);
  if (changes.end)
    out += fmt::format(" END {} {} {}", text(changes.end->status), changes.end->output,
                       text(changes.end->failure));
  return out;
}

std::string text(const ReservationId& id) {
  return fmt::format("{}/{}/{}/{}", id.workspace, id.ns, id.scope, id.key);
}

/// Stores have one partition or many; where they have many, all come from the same owner here.
std::string text(const std::vector<Gained>& gained) {
  std::set<std::pair<bool, std::int32_t>> kinds;
  for (const Gained& each : gained) kinds.emplace(each.clean, each.crashes);
  std::string out;
  for (const auto& [clean, crashes] : kinds)
    out += fmt::format("clean {} crashes {};", clean, crashes);
  return out;
}

struct AnswerText {
  std::string operator()(const Done&) const { return "done"; }

  std::string operator()(const NodeOpened& answer) const {
    return fmt::format("opened first {} {}", answer.first_key, text(answer.gained));
  }

  std::string operator()(const NodeKept& answer) const {
    return fmt::format("kept {} surplus {} nodes {}", text(answer.gained), answer.surplus,
                       answer.nodes);
  }

  std::string operator()(const KeysReserved& answer) const {
    return fmt::format("reserved from {}", answer.first_key);
  }

  std::string operator()(const RunStarted& answer) const {
    return "started " + text(answer.effects);
  }

  std::string operator()(const RunExists& answer) const { return "exists " + describe(answer.run); }

  std::string operator()(const StartRefused& answer) const {
    return fmt::format("refused {} by {}", static_cast<int>(answer.why), answer.run_id);
  }

  std::string operator()(const Advanced& answer) const {
    return "advanced " + text(answer.effects);
  }

  std::string operator()(const Stale&) const { return "stale"; }

  std::string operator()(const Cancelled& answer) const {
    return "cancelled " + describe(answer.run) + " " + text(answer.effects);
  }

  std::string operator()(const RunMissing&) const { return "missing"; }

  std::string operator()(const NotActive& answer) const {
    return "not active " + describe(answer.run);
  }

  std::string operator()(const VersionMoved& answer) const {
    return "moved to " + text(answer.version);
  }

  std::string operator()(const Swept& answer) const {
    return fmt::format("swept runs {} entries {} keys {} ids {} reservations {} more {}",
                       answer.runs, answer.entries, answer.keys, answer.resume_ids,
                       answer.reservations, answer.more);
  }

  std::string operator()(const RunLoaded& answer) const {
    std::string out = "loaded " + describe(answer.run);
    for (const std::string& bytes : answer.entries) out += "\n    " + describe_entry(bytes);
    for (const InboxItem& item : answer.inbox) out += "\n    inbox " + describe(item);
    for (const PayloadItem& item : answer.payloads) out += "\n    payload " + describe(item);
    for (const auto& [op, value] : answer.progress)
      out += fmt::format("\n    progress {} {}", op, value);
    return out;
  }

  std::string operator()(const InboxRead& answer) const {
    std::string out = "inbox";
    for (const InboxItem& item : answer.items) out += " " + describe(item);
    for (const PayloadItem& item : answer.payloads) out += " payload " + describe(item);
    return out;
  }

  std::string operator()(const Delivered& answer) const {
    // Not the hook's number: a store may skip some.
    return fmt::format("delivered {} started {} read {} {}", answer.run_id, answer.started,
                       answer.read, text(answer.effects));
  }

  std::string operator()(const HookMissing&) const { return "no hook"; }

  std::string operator()(const PayloadRefused& answer) const {
    return fmt::format("payload refused {} {}", answer.path, answer.message);
  }

  std::string operator()(const ResumeIdReused& answer) const {
    return "resume id reused " + answer.run_id;
  }

  // Fences are not compared by their numbers: a store may skip some.

  std::string operator()(const Acquired& answer) const {
    return fmt::format("acquired taken over {} until {}", answer.taken_over,
                       text(answer.lease_until));
  }

  std::string operator()(const Replay& answer) const {
    return fmt::format("replay {} {} until {}", static_cast<int>(answer.state), answer.answer,
                       text(answer.expires_at));
  }

  std::string operator()(const InProgress& answer) const {
    return "in progress until " + text(answer.lease_until);
  }

  std::string operator()(const KeyReused&) const { return "key reused"; }

  std::string operator()(const OutcomeUnknown& answer) const {
    return "outcome unknown until " + text(answer.expires_at);
  }

  std::string operator()(const FenceLost&) const { return "fence lost"; }

  std::string operator()(const ReservationFound& answer) const {
    const ReservationRecord& found = answer.reservation;
    return fmt::format("reservation {} {} of {} lease {} expires {} {}",
                       static_cast<int>(found.state), found.fingerprint, found.owner,
                       text(found.lease_until), text(found.expires_at), found.answer);
  }

  std::string operator()(const ReservationMissing&) const { return "no reservation"; }

  std::string operator()(const Transacted& answer) const {
    return fmt::format("transacted {} {} entry {} {}", answer.value, answer.error ? "threw" : "",
                       answer.entry.size(), text(answer.effects));
  }

  std::string operator()(const TimersDue& answer) const {
    std::string out = "due";
    for (const Timer& timer : answer.timers) out += " " + describe(timer);
    return out + " next " + text(answer.next);
  }

  std::string operator()(const RunsFound& answer) const {
    return fmt::format("found {}", answer.runs);
  }
};

struct CommandText {
  std::string operator()(const StartRun& command) const {
    const NewRun& run = command.run;
    return fmt::format(
        "{} {}/{}{} key {} {} {} on_running {} after_done {} start {} deadline {} parent {} at "
        "{}{}",
        run.key, run.workspace, run.id, run.chosen_id ? " (chosen)" : "", text(run.idempotency_key),
        run.workflow, run.fingerprint, static_cast<int>(run.on_running),
        static_cast<int>(run.after_done), text(run.start_at), text(run.deadline), text(run.parent),
        text(run.created_at), text(run.hooks) + text(command.changes));
  }

  std::string operator()(const Deliver& command) const {
    std::string out = fmt::format("{}/{} {} id {} {} version {}", command.workspace, command.token,
                                  command.payload, text(command.resume_id), command.fingerprint,
                                  text(command.expected_version));
    if (command.reading)
      out += " read by " + command.reading->hook + " of " + (*this)(command.reading->step);
    return out;
  }

  std::string operator()(const ResumeOrStart& command) const {
    return (*this)(command.deliver) + " or " + (*this)(StartRun{.run = command.run});
  }

  std::string operator()(const AdvanceRun& command) const {
    return fmt::format("{} at {} entries {}{}", command.run, command.seq, command.entries.size(),
                       text(command.changes));
  }

  std::string operator()(const ReopenRun& command) const {
    return fmt::format("{} at {} entries {}{}", command.run, command.seq, command.entries.size(),
                       text(command.changes));
  }

  std::string operator()(const CancelRun& command) const {
    return fmt::format("{}/{} grace {} version {}", command.workspace, command.id,
                       text(command.grace_until), text(command.expected_version));
  }

  std::string operator()(const MarkRun& command) const {
    return fmt::format("{} at {} as {}", command.run, text(command.seq), text(command.status));
  }

  std::string operator()(const Sweep& command) const {
    return fmt::format("{} limit {}", text(command.now), command.limit);
  }

  std::string operator()(const MoveRuns& command) const {
    return fmt::format("{} at {}", command.runs, text(command.now));
  }

  std::string operator()(const Reserve& command) const {
    const auto& outcome = command.outcome;
    return fmt::format(
        "{} {} owner {} lease {} ttl {} abandoned {}{} at {}", text(command.id),
        command.fingerprint, command.owner, command.lease.count(), command.ttl.count(),
        static_cast<int>(command.on_abandoned),
        outcome ? fmt::format(" done as {} {}", static_cast<int>(outcome->state), outcome->answer)
                : "",
        text(command.now));
  }

  std::string operator()(const Complete& command) const {
    return fmt::format("{} fence {} as {} {} at {}", text(command.id), command.fence,
                       static_cast<int>(command.state), command.answer, text(command.now));
  }

  std::string operator()(const Release& command) const {
    return fmt::format("{} fence {} at {}", text(command.id), command.fence, text(command.now));
  }

  std::string operator()(const Renew& command) const {
    return fmt::format("{} fence {} by {} at {}", text(command.id), command.fence,
                       command.lease.count(), text(command.now));
  }

  std::string operator()(const Forget& command) const {
    return fmt::format("{} force {} at {}", text(command.id), command.force, text(command.now));
  }

  template <class Other>
  std::string operator()(const Other&) const {
    return "";
  }
};

}  // namespace

std::string describe_entry(const std::string& bytes) {
  const auto entry = journal::decode(bytes);
  if (!entry) return "(no entry: " + entry.error().message + ")";
  const journal::Arrival& arrival = entry->arrival;
  return fmt::format("{}({}, {}, {}, {})", journal::to_string(arrival.kind), arrival.op,
                     arrival.name, arrival.value, text(arrival.failure));
}

std::string describe(const RunRecord& record) {
  return fmt::format(
      "run {} {}/{} part {} {} {} v{} status {} in {} out {} failure {} key {} print {} created {} "
      "ended {} deadline {} parent {} "
      "version {} generation {} from {} attributes {}",
      record.key, record.workspace, record.id, record.partition, record.instance, record.workflow,
      record.code_version, text(record.status), record.input, record.output, text(record.failure),
      text(record.idempotency_key), record.fingerprint, text(record.created_at),
      text(record.ended_at), text(record.deadline), text(record.parent), text(record.version),
      record.generation, record.first_seq, record.attributes);
}

std::string describe(const InboxItem& item) {
  return fmt::format("{} kind {} {} {} {} {}", item.id, static_cast<int>(item.kind), item.op,
                     item.value, text(item.failure), text(item.at));
}

std::string describe(const PayloadItem& item) {
  return fmt::format("{} for {} {}{}", item.id, item.hook, item.value,
                     item.checked ? "" : " unchecked");
}

std::string describe(const Timer& timer) {
  return fmt::format("timer {}/{}/{} due {}", timer.run, static_cast<int>(timer.kind), timer.op,
                     text(timer.due));
}

std::string describe(const Answer& answer) { return std::visit(AnswerText{}, answer); }

std::string describe(const Command& command) {
  return fmt::format("{} {}", command_name(command.index()), std::visit(CommandText{}, command));
}

}  // namespace semel::store
