#include "tests/contract/random_commands.hpp"

#include "store/unit_of_work.hpp"
#include "tests/contract/stores.hpp"

#include <semel/shape.hpp>

namespace semel::store {

std::vector<Command> RandomCommands::next_batch() {
  now_ += random_.one_in(8) ? std::chrono::hours{random_.below(6)}
                            : std::chrono::seconds{random_.below(100)};
  std::vector<Command> batch;
  for (std::uint64_t i = random_.below(5); i < 5; ++i) batch.push_back(next());
  return batch;
}

Command RandomCommands::next() {
  switch (random_.below(55)) {
    case 0:
      return Sweep{
          .now = now_,
          .limit = static_cast<std::int64_t>(1 + random_.below(random_.one_in(2) ? 5 : 100))};
    case 1:
      has_node_ = true;
      return OpenNode{.now = now_, .keys_count = static_cast<std::int64_t>(1 + random_.below(9))};
    case 2:
      return upkeep();
    case 3:
      return SaveProgress{.run = pick_run(), .op = pick({"1", "2"}), .value = pick({"10", "20"})};
    case 4:
      return FindDue{.now = now_ + some_time(),
                     .limit = static_cast<std::int64_t>(1 + random_.below(6))};
    case 5:
      return FindWork{.after = pick_run(),
                      .limit = static_cast<std::int64_t>(1 + random_.below(6))};
    case 6:
      return random_.one_in(2) ? Command{FindRun{.id = pick_id("default")}}
                               : Command{ReadInbox{.run = pick_run()}};
    case 7:
    case 8:
      return mark();
    case 9:
    case 10:
    case 11:
      return reopen();
    case 12:
    case 13:
    case 14:
    case 15:
      return cancel();
    case 16:
    case 17:
    case 18:
    case 19:
    case 20:
    case 21:
    case 22:
      return start();
    case 23:
    case 24:
    case 25:
    case 26:
      return deliver();
    case 27:
    case 28:
      return resume_or_start();
    case 40:
    case 41:
    case 42:
    case 43:
    case 44:
    case 45:
    case 46:
    case 47:
    case 48:
    case 49:
    case 50:
    case 51:
      return about_reservation();
    case 52:
    case 53:
    case 54:
      return transact();
    default:
      return advance();
  }
}

StartRun RandomCommands::start() {
  const std::string workspace = random_.one_in(6) ? "acme" : "default";
  StartRun command{.run = make_run(workspace)};
  if (!command.run.start_at && !random_.one_in(6)) command.first_entry = make_entries(1).front();
  if (random_.one_in(2)) command.changes = make_changes(command.run.key, workspace);
  return command;
}

AdvanceRun RandomCommands::advance() {
  const RunKey run = pick_run();
  AdvanceRun command{.run = run,
                     .seq = next_seq(run),
                     .entries = make_entries(random_.one_in(6) ? 0 : 1),
                     .now = now_};
  if (random_.one_in(6)) command.entries.push_back(entry("another"));
  if (!random_.one_in(4)) command.changes = make_changes(run, workspace_of(run));
  return command;
}

Deliver RandomCommands::deliver() {
  Deliver command{.workspace = random_.one_in(6) ? "acme" : "default",
                  .token = pick({"s", "t", "u"}),
                  .payload = pick({"1", "2", "\"three\""}),
                  .now = now_};
  if (random_.one_in(3)) command.resume_id = pick({"r", "q"});
  if (command.resume_id) command.fingerprint = command.payload;
  if (random_.one_in(8)) command.expected_version = random_.below(4);
  if (random_.one_in(2)) command.reading = make_reading(command);
  return command;
}

/// Mostly by the run that has the token.
base::Rare<Deliver::Reading> RandomCommands::make_reading(const Deliver& deliver) {
  for (const auto& [id, hook] : model_.hooks) {
    if (!hook.active || hook.claim.token != deliver.token || random_.one_in(8)) continue;
    AdvanceRun step = advance();
    step.run = hook.run;
    step.seq = next_seq(hook.run);
    step.changes = make_changes(hook.run, workspace_of(hook.run));
    return Deliver::Reading{.hook = random_.one_in(8) ? "4" : hook.claim.op,
                            .step = std::move(step)};
  }
  return std::nullopt;
}

namespace {

/// Does some commands, and may think better of it.
class Script final : public Work {
 public:
  Script(std::vector<Command> commands, bool throws, bool is_repeatable)
      : commands_(std::move(commands)), throws_(throws), is_repeatable_(is_repeatable) {}

  std::string run(UnitOfWork& unit) override {
    for (const Command& command : commands_) static_cast<void>(unit.execute(command));
    if (throws_) throw Error("SCRIPTED", "as it happens");
    return std::to_string(commands_.size());
  }

  bool is_repeatable() const override { return is_repeatable_; }

 private:
  std::vector<Command> commands_;
  bool throws_;
  bool is_repeatable_;
};

}  // namespace

Transact RandomCommands::transact() {
  std::vector<Command> commands;
  for (std::uint64_t i = random_.below(4); i > 0; --i) {
    if (random_.one_in(2)) {
      commands.emplace_back(start());
    } else {
      commands.emplace_back(deliver());
    }
  }
  const bool throws = random_.one_in(3);
  // PostgreSQL gives numbers out once: undone on a connection, they are gone, and the next ones are not the model's.
  const bool is_repeatable = throws || random_.one_in(2);
  Transact command{.work = std::make_shared<Script>(std::move(commands), throws, is_repeatable),
                   .step = {},
                   .now = now_};
  if (random_.one_in(2)) {
    const RunKey run = pick_run();
    command.step = Transact::Step{
        .run = run, .seq = next_seq(run), .op = pick({"1", "2"}), .name = "save", .attempt = 1};
  }
  return command;
}

ResumeOrStart RandomCommands::resume_or_start() {
  ResumeOrStart command{.deliver = deliver()};
  command.run = make_run(command.deliver.workspace);
  command.run.hooks = {{.token = command.deliver.token, .shape = pick_shape()}};
  return command;
}

Command RandomCommands::about_reservation() {
  const ReservationId id = pick_reservation();
  const Fence fence = pick_fence(id);
  switch (random_.below(10)) {
    case 0:
    case 1:
      return Complete{.id = id,
                      .fence = fence,
                      .state = static_cast<ReservationState>(1 + random_.below(3)),
                      .answer = pick({"", "1", "2"}),
                      .now = now_};
    case 2:
      return Release{.id = id, .fence = fence, .now = now_};
    case 3:
      return Renew{.id = id, .fence = fence, .lease = some_time(), .now = now_};
    case 4:
      return Forget{.id = id, .force = random_.one_in(2), .now = now_};
    case 5:
      return FindReservation{.id = id, .now = now_};
    default: {
      Reserve reserve{.id = id,
                      .fingerprint = random_.one_in(5) ? "other" : "same",
                      .owner = random_.one_in(3) ? pick({"me", "you"}) : "",
                      .lease = some_time(),
                      .ttl = some_time(),
                      .on_abandoned = random_.one_in(3) ? OnAbandoned::unknown : OnAbandoned::run,
                      .now = now_};
      // Every third one has done its work already.
      if (const std::uint64_t number = ++reserves_; number % 3 == 0) {
        reserve.outcome = Reserve::Outcome{
            .state = number % 4 == 0 ? ReservationState::not_retained : ReservationState::completed,
            .answer = std::to_string(number % 5)};
      }
      return reserve;
    }
  }
}

ReservationId RandomCommands::pick_reservation() {
  return {.workspace = random_.one_in(6) ? "acme" : "default",
          .ns = random_.one_in(6) ? "m" : "n",
          .scope = random_.one_in(6) ? "s" : "",
          .key = pick({"a", "b"})};
}

/// Mostly the right one; never one that this batch may give out, for nobody knows it yet.
Fence RandomCommands::pick_fence(const ReservationId& id) {
  const auto found = model_.reservations.find(id);
  if (found != model_.reservations.end() && !random_.one_in(6)) return found->second.fence;
  return static_cast<Fence>(random_.below(static_cast<std::uint64_t>(model_.next_fence)));
}

HookClaim RandomCommands::make_claim(const std::string& op) {
  return {.op = op,
          .token = pick({"s", "t", "u"}),
          .shape = pick_shape(),
          .webhook = random_.one_in(4)};
}

HookChange RandomCommands::make_hook_change() {
  HookChange change{.kind = static_cast<HookChange::Kind>(random_.below(5)),
                    .op = pick({"4", "5", "6"}),
                    .hook = pick({"4", "5", ""}),
                    .awaited = random_.one_in(2)};
  if (random_.one_in(2)) change.kind = HookChange::Kind::open;
  if (change.kind == HookChange::Kind::open) change.claim = make_claim(change.op);
  return change;
}

std::string RandomCommands::pick_shape() { return random_.one_in(2) ? "" : type<int>().shape; }

CancelRun RandomCommands::cancel() {
  const std::string workspace = random_.one_in(6) ? "acme" : "default";
  CancelRun command{.workspace = workspace, .id = pick_id(workspace), .now = now_};
  if (random_.one_in(2)) command.grace_until = now_ + some_time();
  if (random_.one_in(3)) command.expected_version = random_.below(4);
  return command;
}

ReopenRun RandomCommands::reopen() {
  const RunKey run = pick_run();
  ReopenRun command{.run = run, .seq = next_seq(run), .entries = {entry("reopened")}, .now = now_};
  if (random_.one_in(2)) command.changes = make_changes(run, workspace_of(run));
  return command;
}

MarkRun RandomCommands::mark() {
  const RunKey run = pick_run();
  const Seq next = next_seq(run);
  MarkRun command{.run = run, .status = random_.one_in(2) ? Status::dead : Status::diverged};
  if (next > 0) command.seq = next - 1;
  command.reason = {.code = "DIVERGED", .message = "as it happens"};
  return command;
}

Command RandomCommands::upkeep() {
  if (random_.one_in(4)) return FindEnded{{pick_run(), pick_run(), pick_run()}};
  if (has_node_ && random_.one_in(6)) return move();
  if (random_.one_in(2)) return ReserveKeys{.keys_count = 3};
  // Whoever is no node has nothing to keep.
  if (has_node_ && random_.one_in(2)) {
    KeepNode keep{.now = now_};
    if (random_.one_in(2)) keep.workflows = {{"fulfil", 1}, {"refund", 2}};
    return keep;
  }
  const bool closed = random_.one_in(2);
  if (closed) has_node_ = false;
  return NodeWell{.closed = closed};
}

/// There is nobody else; each is asked for once, in order.
MoveRuns RandomCommands::move() {
  const std::set<RunKey> runs{pick_run(), pick_run(), pick_run()};
  return {.runs = {runs.begin(), runs.end()}, .now = now_};
}

NewRun RandomCommands::make_run(const std::string& workspace) {
  NewRun run = new_run(++last_key_);
  run.workspace = workspace;
  made_in_[run.key] = workspace;
  run.created_at = now_;
  run.chosen_id = random_.one_in(2);
  if (run.chosen_id) run.id = pick({"a", "b", "c"});
  if (random_.one_in(30)) run.id = pick_id(workspace);
  if (random_.one_in(2)) run.idempotency_key = pick({"k", "l"});
  run.key_ttl = some_time();
  run.retention = some_time();
  if (random_.one_in(6)) run.fingerprint = "fingerprint of [8]";
  run.check_fingerprint = !random_.one_in(6);
  if (random_.one_in(8)) run.workflow = "refund";
  run.on_running = static_cast<OnRunning>(random_.below(3));
  run.after_done = static_cast<AfterDone>(random_.below(4));
  if (random_.one_in(6)) run.start_at = now_ + some_time();
  if (random_.one_in(6)) run.deadline = now_ + some_time();
  if (random_.one_in(4)) run.attributes = {{pick({"stage", "who"}), pick({"x", "y"})}};
  if (random_.one_in(5)) run.hooks.push_back(make_claim(""));
  if (random_.one_in(4)) {
    const RunKey parent = pick_run();
    if (model_.runs.contains(parent) && workspace_of(parent) == workspace) run.parent = parent;
  }
  return run;
}

Changes RandomCommands::make_changes(RunKey run, const std::string& workspace) {
  Changes changes;
  if (random_.one_in(2)) changes.status = random_.one_in(2) ? Status::waiting : Status::running;
  if (random_.one_in(8)) changes.code_version = static_cast<std::int32_t>(1 + random_.below(3));
  const auto timer = [&] {
    return Timer{.run = run,
                 .kind = static_cast<TimerKind>(random_.below(5)),
                 .op = random_.one_in(2) ? "" : pick({"1", "2"}),
                 .due = now_ + some_time()};
  };
  if (random_.one_in(3)) changes.timers_set.push_back(timer());
  if (random_.one_in(6)) changes.timers_set.push_back(timer());
  if (random_.one_in(4)) changes.timers_cleared.push_back(timer());
  if (random_.one_in(3)) {
    for (const auto& [id, item] : model_.inbox) {
      if (item.run == run || random_.one_in(20)) changes.inbox_consumed.push_back(id);
    }
  }
  if (random_.one_in(4))
    changes.attributes.emplace_back(pick({"stage", "who"}), pick({"x", "y", "z"}));
  if (random_.one_in(4)) {
    changes.children.push_back(
        {.op = pick({"1", "2"}), .run = make_run(workspace), .wait = !random_.one_in(3)});
  }
  for (std::uint64_t i = random_.below(4); i > 2; --i) {
    changes.waits.push_back({.op = pick({"1", "2", "3"}), .run_id = pick_id(workspace)});
  }
  if (random_.one_in(3))
    changes.waits.push_back({.op = pick({"1", "2", "3"}), .run_id = pick_id(workspace)});
  if (random_.one_in(8)) changes.waits_dropped.push_back(pick({"1", "2", "3"}));
  if (random_.one_in(3)) {
    for (const auto& [id, payload] : model_.payloads) {
      if (random_.one_in(3)) changes.payloads_consumed.push_back(id);
    }
  }
  while (random_.one_in(2)) changes.hooks.push_back(make_hook_change());
  if (random_.one_in(8)) changes.continue_as_new = pick({"[1]", "[2]"});
  if (random_.one_in(5)) changes.end = make_end();
  return changes;
}

End RandomCommands::make_end() {
  switch (random_.below(4)) {
    case 0:
      return failed();
    case 1:
      return {.status = Status::failed};
    case 2:
      return {.status = Status::cancelled,
              .failure = journal::Failure{.code = "X", .message = "own code"}};
    default:
      return {.output = "42"};
  }
}

std::vector<std::string> RandomCommands::make_entries(std::uint64_t count) {
  std::vector<std::string> entries;
  while (entries.size() < count) entries.push_back(entry(pick({"pack", "ship", "charge"})));
  return entries;
}

/// Mostly of a run that is there.
std::string RandomCommands::pick_id(const std::string& workspace) {
  const auto run = model_.runs.find(pick_run());
  if (run != model_.runs.end() && run->second.made.workspace == workspace)
    return run->second.made.id;
  return pick({"a", "b", "c"});
}

/// Mostly a young one that is there.
RunKey RandomCommands::pick_run() {
  if (model_.runs.empty() || random_.one_in(20)) return static_cast<RunKey>(random_.below(30));
  const std::uint64_t back = random_.below(std::min<std::uint64_t>(model_.runs.size(), 8));
  return std::prev(model_.runs.end(), static_cast<std::ptrdiff_t>(back) + 1)->first;
}

std::string RandomCommands::workspace_of(RunKey run) const {
  // It may be made by a command before this one in the same batch.
  const auto found = made_in_.find(run);
  return found == made_in_.end() ? "default" : found->second;
}

/// Mostly the right one.
Seq RandomCommands::next_seq(RunKey run) {
  const auto found = model_.runs.find(run);
  const Seq next = found == model_.runs.end() ? 0 : found->second.entries.size();
  if (!random_.one_in(8)) return next;
  return random_.one_in(2) ? next + 1 : next - std::min<Seq>(next, 1);
}

std::chrono::nanoseconds RandomCommands::some_time() {
  return random_.one_in(3) ? std::chrono::nanoseconds{std::chrono::hours{random_.below(8)}}
                           : std::chrono::nanoseconds{std::chrono::seconds{random_.below(300)}};
}

std::string RandomCommands::pick(std::initializer_list<const char*> choices) {
  return *(choices.begin() + random_.below(choices.size()));
}

}  // namespace semel::store
