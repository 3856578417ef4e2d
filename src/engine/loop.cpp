// The loop's life, its batches and its memory. Other parts: loop_partitions (whose the runs are), loop_drive (entries of
// live runs), loop_steps (attempts), loop_timers, loop_recovery (loading and replay), loop_steer (an operator's calls).
#include "engine/loop.hpp"

#include "base/assert.hpp"

#include <algorithm>

namespace semel::engine {

using store::Answer;
using store::RunKey;

namespace {

constexpr std::int64_t keys_low = 1 << 16;
/// What a run costs in memory besides its coroutine frames.
constexpr std::size_t live_run_bytes = sizeof(LiveRun) + sizeof(Frame) + 256;

}  // namespace

Loop::Loop(const Registry& registry, base::Random& random, Host& host, LoopOptions options)
    : registry_(registry), random_(random), host_(host), options_(options), ids_(random) {}

Loop::~Loop() {
  // Whoever drives the loop has made sure that no body runs any more; what it never heard back from is let go here.
  bodies_.for_each([](Body& body) {
    if (body.run->frame) body.run->frame->bodies_in_flight = 0;
  });
  // What was put off holds the run it belongs to.
  for (auto& [key, run] : live_) run->deferred.clear();
}

void Loop::open(TimePoint now) {
  now_ = now;
  lost_ = false;
  submit(store::OpenNode{.now = now, .works = workers_}, [this](Answer& answer) {
    const auto& opened = std::get<store::NodeOpened>(answer);
    opened_ = true;
    lease_ = opened.lease;
    own(opened.gained);
    next_key_ = opened.first_key;
    keys_end_ = opened.first_key + store::OpenNode{}.keys_count;
    spare_keys_.reset();
    reserving_ = false;
    next_sweep_ = now_ + options_.sweep_every;
    if (workers_) {
      start_workers(now_);
    } else if (lease_ > std::chrono::nanoseconds{0}) {
      next_keep_ = now_ + lease_ / 3;
    }
    for (auto& action : std::exchange(before_open_, {})) action();
  });
}

void Loop::start_workers(TimePoint now) {
  now_ = now;
  workers_ = true;
  if (!opened_ || lost_) return;
  if (lease_ > std::chrono::nanoseconds{0}) keep();
  next_due_ = now_;
  find_work(0);
}

void Loop::begin_stop() {
  stopping_ = true;
  bodies_.for_each([](Body& body) { body.ask_to_stop(); });
  // A body may be among them: the run it waits for does not go on any more.
  dismiss_watchers();
}

bool Loop::is_drained() const { return stopping_ && bodies_.size() == 0 && !has_batch(); }

void Loop::close() {
  submit(store::NodeWell{.closed = true}, [](Answer&) {});
}

void Loop::dismiss_watchers() {
  afar_.clear();
  for (auto& [key, watchers] : std::exchange(watchers_, {})) {
    for (auto& watcher : watchers)
      watcher.reply(
          Refusal{"ENGINE_STOPPED", "the engine was stopped while waiting for the run", ""});
  }
}

Batch Loop::take_batch() {
  ++counters_.batches;
  counters_.commands += outgoing_.commands.size();
  return std::exchange(outgoing_, std::exchange(spare_, {}));
}

bool Loop::committed(ExecutedBatch& executed, TimePoint now, std::size_t limit) {
  now_ = now;
  auto& [batch, answers, taken_up] = executed;
  if (!answers) {
    const base::Fault fault = answers.error();
    fail(batch, fault);
    lose_store(fault);
    return true;
  }
  SEMEL_ASSERT(answers->size() == batch.continuations_.size());
  for (; taken_up < answers->size() && limit > 0; ++taken_up, --limit) {
    go_on(batch.continuations_[taken_up], (*answers)[taken_up]);
  }
  if (taken_up < answers->size()) return false;
  batch.commands.clear();
  batch.continuations_.clear();
  spare_ = std::move(batch);
  top_up_keys();
  evict_over_budget();
  if (!draining_.empty()) go_on_draining();
  if (!without_worker_.empty()) move_stranded();
  return true;
}

void Loop::store_failed(const base::Fault& fault) {
  if (!lost_) lose_store(fault);
}

void Loop::fail(Batch& batch, const base::Fault& fault) {
  for (auto& continuation : batch.continuations_) {
    if (!continuation.handlers) continue;
    if (continuation.handlers->written) continuation.handlers->written(false);
    if (continuation.handlers->failed) continuation.handlers->failed(fault);
  }
}

void Loop::go_on(Batch::Continuation& continuation, Answer& answer) {
  if (!continuation.run) {
    continuation.handlers->answered(answer);
    return;
  }
  if (continuation.handlers)
    continuation.handlers->written(std::holds_alternative<store::Advanced>(answer));
  entry_committed(continuation.run, continuation.entry, answer);
}

void Loop::submit_entry(store::AdvanceRun command, const RunPtr& run, journal::Entry entry,
                        std::function<void(bool)> written) {
  if (lost_) {
    if (written) written(false);
    return;
  }
  using Handlers = Batch::Handlers;
  auto handlers =
      written ? std::make_unique<Handlers>(Handlers{std::move(written), {}, {}}) : nullptr;
  outgoing_.commands.emplace_back(std::move(command));
  outgoing_.continuations_.emplace_back(run, std::move(entry), std::move(handlers));
}

void Loop::submit(store::Command command, std::function<void(Answer&)> answered,
                  std::function<void(const base::Fault&)> failed) {
  if (lost_) {
    if (failed) failed({base::Errc::unavailable, "the store is not available"});
    return;
  }
  using Handlers = Batch::Handlers;
  outgoing_.commands.push_back(std::move(command));
  outgoing_.continuations_.emplace_back(
      nullptr, journal::Entry{},
      std::make_unique<Handlers>(Handlers{{}, std::move(answered), std::move(failed)}));
}

/// Memory ran ahead of a commit of which nobody knows whether it happened: the store is read anew before anything is
/// decided. Bodies under way go on; their results are kept for when the runs are back.
void Loop::lose_store(const base::Fault& fault) {
  host_.log({.level = LogLevel::warning,
             .name = "store.lost",
             .message = "the store was lost: " + fault.message,
             .fields = {}});
  lost_ = true;
  Batch unsent = std::exchange(outgoing_, {});
  fail(unsent, fault);
  // What was put off holds the run it belongs to, and somebody may wait for it: let go of at the end.
  std::vector<std::vector<std::function<void()>>> put_off;
  for (auto& [key, run] : live_) {
    uncounted_.insert(key);
    run->dropped = true;
    run->is_idle = false;
    put_off.push_back(std::exchange(run->deferred, {}));
  }
  live_.clear();
  disown_all();
  listeners_.clear();
  idle_.clear();
  frame_bytes_ = 0;
  loading_.clear();
  just_opened_.clear();
  suspects_.clear();
  suspect_.reset();
  without_worker_.clear();
  next_due_.reset();
  finding_due_ = false;
  for (auto& action : std::exchange(before_open_, {})) action();
  for (auto& [key, watchers] : std::exchange(watchers_, {})) {
    for (auto& watcher : watchers)
      watcher.reply(Refusal{"STORE_UNAVAILABLE", "the store was lost while waiting", ""});
  }
}

Loop::RunPtr Loop::live(RunKey key) const {
  const auto found = live_.find(key);
  return found == live_.end() ? nullptr : found->second;
}

void Loop::drop(const RunPtr& run) {
  if (run->dropped) return;
  run->dropped = true;
  if (run->is_idle) idle_.erase(run->idle_position);
  run->is_idle = false;
  frame_bytes_ -= run->charged_bytes;
  run->charged_bytes = 0;
  run->deferred.clear();
  bodies_.forget(run->key);
  stop_listening(*run);
  live_.erase(run->key);
  --live_in_[run->partition];
}

/// A run has ended, wherever that was decided: what is under way for it is asked to stop and not awaited.
void Loop::over(RunKey key, const detail::RunEnd& end) {
  bodies_.for_each_of(key, [](Body& body) { body.ask_to_stop(); });
  if (const RunPtr run = live(key)) drop(run);
  suspect_progress(key, true);
  notify_watchers(key, end);
}

void Loop::notify_watchers(RunKey key, const detail::RunEnd& end) {
  afar_.erase(key);
  const auto found = watchers_.find(key);
  if (found == watchers_.end()) return;
  auto watchers = std::move(found->second);
  watchers_.erase(found);
  for (auto& watcher : watchers) watcher.reply(end);
}

RunKey Loop::new_key() {
  if (next_key_ == keys_end_ && spare_keys_) {
    std::tie(next_key_, keys_end_) = *spare_keys_;
    spare_keys_.reset();
  }
  // A range is topped up long before its end; running out means that 65,536 runs began inside one batch.
  SEMEL_ASSERT(next_key_ < keys_end_);
  return next_key_++;
}

void Loop::top_up_keys() {
  if (!opened_ || lost_ || reserving_ || spare_keys_ || keys_end_ - next_key_ > keys_low) return;
  reserving_ = true;
  submit(store::ReserveKeys{}, [this](Answer& answer) {
    const RunKey first = std::get<store::KeysReserved>(answer).first_key;
    spare_keys_.emplace(first, first + store::ReserveKeys{}.keys_count);
    reserving_ = false;
  });
}

std::unique_ptr<Frame> Loop::new_frame() const {
  return std::make_unique<Frame>(registry_, random_,
                                 FrameLimits{options_.limits.payload_bytes_max});
}

/// Called whenever a run may have come to rest: charges its memory and lines it up for eviction.
void Loop::settle_memory(const RunPtr& run) {
  if (run->dropped || !run->frame) return;
  if (is_draining(*run) && run->uncommitted == 0 && !run->blocked &&
      run->frame->bodies_in_flight == 0) {
    drop(run);
    return;
  }
  const std::size_t bytes = run->frame->bytes() + live_run_bytes;
  frame_bytes_ += bytes - run->charged_bytes;
  run->charged_bytes = bytes;
  const bool rests = run->uncommitted == 0 && !run->blocked && run->deferred.empty() &&
                     run->frame->bodies_in_flight == 0 && !run->state.has_work();
  if (run->is_idle) idle_.erase(run->idle_position);
  run->is_idle = rests;
  if (!rests) return;
  run->idle_position = idle_.insert(idle_.end(), run.get());
  listen(*run);
}

void Loop::evict_over_budget() {
  while (frame_bytes_ > options_.frame_bytes_max && !idle_.empty()) {
    const RunPtr run = live(idle_.front()->key);
    ++counters_.evictions;
    drop(run);
  }
}

/// In tests: what a crash right now would bring back must be what is here.
void Loop::check_by_replay(const RunPtr& run) {
  const auto records = journal::read_journal(run->replayable->entries);
  SEMEL_ASSERT(records.has_value());
  auto again = replay(new_frame(), *run->type, run->replayable->input, *records, now_);
  const auto* diverged = std::get_if<Divergence>(&again);
  const bool asks_more = diverged == nullptr && !std::get<Replayed>(again).fresh.empty();
  if (diverged == nullptr && !asks_more) return;
  const std::string message =
      diverged != nullptr ? diverged->message() : "recorded: nothing more; asked: more";
  mark(run->key, names_of(*run), run->state.next, store::Status::diverged,
       {.code = "RUN_DIVERGED", .message = message, .details = {}, .name = {}, .op = {}});
}

}  // namespace semel::engine
