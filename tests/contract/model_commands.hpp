// The specification's commands, by topic: runs in model_store.cpp, hooks and units of work in files of their own.
#pragma once

#include "base/shape.hpp"
#include "store/unit_of_work.hpp"
#include "tests/contract/model_store.hpp"

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace semel::store {

class ModelStore final : public Store {
 public:
  explicit ModelStore(std::shared_ptr<Model> model) : owned_(std::move(model)), model_(*owned_) {}

  base::Result<std::vector<Answer>> execute(std::span<const Command> batch) override {
    std::vector<Answer> answers;
    for (const Command& command : batch) {
      answers.push_back(answer_one(command));
    }
    return answers;
  }

  Answer answer_one(const Command& command) {
    return std::visit([this](const auto& each) -> Answer { return answer(each); }, command);
  }

 private:
  // ---------------------------------------------------------------------------------------------- the node

  Answer answer(const OpenNode& command);

  Answer answer(const KeepNode&) { return NodeKept{}; }

  Answer answer(const GiveUp&) { return Done{}; }

  Answer answer(const MoveRuns& command);

  Answer answer(const ReserveKeys& command) { return KeysReserved{reserve(command.keys_count)}; }

  RunKey reserve(std::int64_t count);
  Answer answer(const NodeWell& command);

  // ---------------------------------------------------------------------------------------------- starts

  Answer answer(const StartRun& command);

  struct Claim {
    std::optional<StartRefused> refused;
    std::optional<RunKey> handed_back;
  };

  Claim create(const NewRun& made, Status status, std::optional<RunKey> asker, Effects& effects);
  /// What the holder of a key or id is to `made`; empty: it gives way.
  std::optional<Claim> ask(RunKey holder_key, const NewRun& made);

  // ---------------------------------------------------------------------------------------------- advancing

  Answer answer(const AdvanceRun& command);
  Answer answer(const ReopenRun& command);
  Answer answer(const MarkRun& command);
  Answer answer(const SaveProgress& command);
  void append(RunKey key, const std::string& entry, TimePoint at);
  void apply(RunKey key, const Changes& changes, TimePoint now, Effects& effects);
  static void settle(Effects& effects);
  void make_child(RunKey key, const ChildRequest& request, bool goes_on, TimePoint now,
                  Effects& effects);
  void wait(RunKey key, const WaitRequest& request, TimePoint now, Effects& effects);
  /// Writes an outcome; the run's code may go on from it at once, and then its owner has work.
  void decide(RunKey key, const std::string& entry, bool goes_on_from_it, TimePoint now,
              Effects& effects);
  void wait_for(RunKey key, const std::string& op, RunKey target, Effects& effects);

  // ---------------------------------------------------------------------------------------------- ends

  void end(RunKey key, const End& end, TimePoint now, Effects& effects);
  void forget_wakeups(RunKey key);
  void deliver_result(RunKey target, RunKey to, const std::string& op, Effects& effects);
  void put(RunKey key, InboxItem item, Effects& effects);
  Answer answer(const CancelRun& command);
  void cancel_tree(RunKey top, const std::optional<TimePoint>& grace_until,
                   const std::string& reason, TimePoint now, Effects& effects);
  /// `top` and the unfinished runs below it: each before its children, children by age.
  std::vector<RunKey> tree_in_order(RunKey top);
  std::set<RunKey> tree(RunKey top);

  // ---------------------------------------------------------------------------------------------- hooks

  /// The active hook with this token.
  std::optional<std::int64_t> find_hook(const std::string& workspace, const std::string& token);
  std::optional<std::int64_t> find_hook_of(RunKey key, const std::string& op);
  std::optional<std::int64_t> oldest_payload(std::int64_t hook);
  bool has_payload(RunKey key);
  PayloadItem item_of(std::int64_t id);
  std::vector<PayloadItem> oldest_payloads(RunKey key);
  void consume_payload(RunKey key, std::int64_t id);
  /// The hooks that were released.
  std::vector<std::int64_t> change_hooks(RunKey key, const Changes& changes, TimePoint now,
                                         Effects& effects);
  /// The id of the run that has the token; none: the hook is open.
  std::optional<std::string> open_hook(RunKey key, const HookClaim& claim, TimePoint now);
  void continue_as_new(RunKey key, const std::string& input);
  void release_at_end(RunKey key, TimePoint now, Effects& effects);
  void pass_on(std::int64_t gone_id, TimePoint now, Effects& effects);
  std::optional<Answer> repeated(const Deliver& deliver);
  /// `or_start`: it can start a run, or has.
  void put(std::int64_t hook_id, const Deliver& deliver, bool or_start,
           std::optional<NewRun> start);
  Delivered receipt(std::int64_t hook_id, const Deliver& deliver, bool started);
  Answer deliver_to(std::int64_t hook_id, const Deliver& deliver, std::optional<NewRun> start);
  /// Accepted and consumed: the payload is never there for anybody else.
  bool read_at_once(std::int64_t hook_id, const Deliver& deliver, Effects& effects);
  Answer answer(const Deliver& command);
  Answer answer(const ResumeOrStart& command);

  // ---------------------------------------------------------------------------------------------- units of work

  class Unit;
  Answer answer(const Transact& command);

  // ---------------------------------------------------------------------------------------------- reservations

  Answer answer(const Reserve& command) { return ModelReservations{model_}.answer(command); }

  Answer answer(const Complete& command) { return ModelReservations{model_}.answer(command); }

  Answer answer(const Release& command) { return ModelReservations{model_}.answer(command); }

  Answer answer(const Renew& command) { return ModelReservations{model_}.answer(command); }

  Answer answer(const Forget& command) { return ModelReservations{model_}.answer(command); }

  Answer answer(const FindReservation& command);

  // ---------------------------------------------------------------------------------------------- sweeping

  Answer answer(const Sweep& command);
  std::int64_t forget_receipts(TimePoint now, std::int64_t limit);
  /// The runs whose time `until` has come, oldest first.
  std::vector<RunKey> passed(std::optional<TimePoint> Model::Run::* until, TimePoint now);
  static bool has_passed(const std::optional<TimePoint>& until, TimePoint now);
  void forget_key(RunKey key);
  void remove(RunKey key);

  // ---------------------------------------------------------------------------------------------- looking

  Answer answer(const LoadRun& command);
  Answer answer(const ReadInbox& command);
  std::vector<InboxItem> inbox(RunKey key);
  Answer answer(const FindEnded& command);
  Answer answer(const FindDue& command);
  Answer answer(const FindWork& command);
  Answer answer(const FindRun& command);

  Model::Run& run(RunKey key) { return model_.runs.at(key); }

  std::optional<RunKey> find(const std::string& workspace, const std::string& id);
  /// Who holds the idempotency key.
  std::optional<RunKey> find_key(const std::string& workspace, const std::string& idempotency_key);

  std::shared_ptr<Model> owned_;
  Model& model_;
  base::ShapeChecker shapes_;
};

/// A pending, running or waiting run: what an owner may advance.
bool can_advance(const Model::Run& run);

bool is_driven(const Model::Run& run);

}  // namespace semel::store
