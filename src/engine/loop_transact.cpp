// Transactions of the program's: alone, and as steps whose result is written in the same commit.
#include "base/assert.hpp"
#include "engine/loop.hpp"
#include "engine/transacting.hpp"

namespace semel::engine {

using journal::Operation;
using store::Answer;

namespace {

/// A body that is with the store, until it is answered or will never be.
class BodyInStore {
 public:
  explicit BodyInStore(std::shared_ptr<LiveRun> run) : run_(std::move(run)) {
    ++run_->frame->bodies_in_flight;
  }

  BodyInStore(const BodyInStore&) = delete;
  BodyInStore& operator=(const BodyInStore&) = delete;

  ~BodyInStore() {
    if (--run_->frame->bodies_in_flight == 0) run_->frame->release_buried();
  }

 private:
  std::shared_ptr<LiveRun> run_;
};

}  // namespace

void Loop::transact(std::shared_ptr<store::Work> work, const Reply<TransactReply>& reply,
                    TimePoint now) {
  now_ = now;
  submit(
      store::Transact{.work = std::move(work), .step = {}, .now = now_},
      [this, reply](Answer& answer) {
        auto& done = std::get<store::Transacted>(answer);
        reply(TransactReply{std::move(done.value), done.error});
        follow_up(done.effects);
      },
      [reply](const base::Fault& fault) {
        reply(Refusal{"STORE_UNAVAILABLE", fault.message, ""});
      });
}

/// The first transaction that `entry` asks for, where nothing is in its way; empty: none. Others are done one by one.
std::string Loop::transaction_of(const LiveRun& run, const journal::Entry& entry) const {
  if (run.blocked || stopping_ || lost_ || run.state.is_over()) return {};
  for (const journal::Request& request : entry.requests) {
    if (request.kind != journal::RequestKind::step) continue;
    const detail::StepSpec* spec = run.frame->step(request.op);
    if (spec != nullptr && spec->body->is_transaction()) return request.op;
  }
  return {};
}

/// What such code started or told is taken up; it may have set timers, too.
void Loop::follow_up(const store::Effects& effects) {
  run_effects(effects);
  if (workers_) note_timer(now_);
}

/// While there is no store it is not worth a look: when it is opened, what there is to do is found by the state of runs.
void Loop::hinted(const store::Effects& effects, TimePoint now) {
  now_ = now;
  counters_.hints += effects.wake.size() + effects.created.size() + effects.ended.size() +
                     effects.opened.size() + effects.moved.size();
  if (!lost_ && opened_ && !stopping_) follow_up(effects);
}

/// The body is run by the store. While that is under way the place behind the journal's end is the store's, so the run is
/// blocked; and the body may refer to the run's coroutines, so they stay.
void Loop::transact_step(const RunPtr& run, const std::string& op) {
  const Operation* operation = run->state.is_over() ? nullptr : run->state.find(op);
  if (operation == nullptr || operation->phase != Operation::Phase::under_way) return;
  const detail::StepSpec* spec = run->frame->step(op);
  SEMEL_ASSERT(spec != nullptr);
  const std::uint32_t attempt = operation->attempt;
  store::Transact command;
  command.work = make_work(run->workspace, [body = spec->body](sql::Transaction& transaction) {
    return body->transact(transaction);
  });
  command.step = store::Transact::Step{.run = run->key,
                                       .seq = run->state.next,
                                       .op = op,
                                       .name = operation->name,
                                       .attempt = attempt};
  command.now = now_;
  run->blocked = true;
  ++run->uncommitted;
  if (run->is_idle) idle_.erase(run->idle_position);
  run->is_idle = false;
  auto body = std::make_shared<BodyInStore>(run);
  submit(std::move(command), [this, run, op, attempt, body](Answer& answer) mutable {
    body.reset();
    step_transacted(run, op, attempt, answer);
  });
}

void Loop::step_transacted(const RunPtr& run, const std::string& op, std::uint32_t attempt,
                           Answer& answer) {
  --run->uncommitted;
  auto* done = std::get_if<store::Transacted>(&answer);
  if (done == nullptr) return read_anew(run);
  if (!done->error) follow_up(done->effects);
  if (run->dropped) return;
  run->blocked = false;
  if (done->error) {
    StepOutcome outcome = outcome_of(done->error);
    write_attempt(run, op, attempt, outcome);
  } else {
    apply_outcomes(run, {std::move(done->entry)});
  }
  settle(run);
}

}  // namespace semel::engine
