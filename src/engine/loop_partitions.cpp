// Which runs are this node's: the partitions it has, gains, and leaves to others, and what happens to runs elsewhere.
#include "engine/loop.hpp"

#include <algorithm>

namespace semel::engine {

using store::Answer;
using store::RunKey;

namespace {

constexpr std::chrono::seconds well_after{10};
/// A newcomer asks soon whether something is free now, and then less often.
constexpr std::chrono::milliseconds keep_first_after{50};
/// So long bodies under way in a partition that is to go have to end; otherwise it stays for now.
constexpr std::chrono::seconds drain_patience{10};
/// How often runs of others are looked at that somebody here waits for; and more for every so many of them.
constexpr std::chrono::milliseconds look_afar_every{50};
constexpr std::size_t afar_per_millisecond = 100;
/// So many runs are moved in one go.
constexpr std::size_t moved_at_once = 1000;

std::vector<store::WorkflowVersion> workflows_in(const Registry& registry) {
  std::vector<store::WorkflowVersion> workflows;
  for (const detail::WorkflowType* type : registry.all())
    workflows.push_back({type->name, type->version});
  return workflows;
}

}  // namespace

bool Loop::owns(std::int32_t partition) const {
  return owned_.contains(partition) && !draining_.contains(partition);
}

std::int32_t Loop::home(RunKey key) const {
  if (homes_.empty()) return store::any_partition;
  return homes_[static_cast<std::size_t>(key) % homes_.size()];
}

void Loop::add_live(const RunPtr& run) {
  live_.emplace(run->key, run);
  ++live_in_[run->partition];
}

void Loop::own(const std::vector<store::Gained>& gained) {
  for (store::Gained each : gained) {
    // What was ours before the store was lost, nobody crashed with.
    if (owned_before_.contains(each.partition)) each = {.partition = each.partition};
    owned_[each.partition] = each;
    homes_.push_back(each.partition);
  }
  owned_before_.clear();
  counters_.partitions_gained += gained.size();
  if (gained.empty()) return;
  well_at_ = now_ + well_after;
  tell_share("gained", gained.size());
}

/// Only where there are others to share with.
void Loop::tell_share(const char* change, std::size_t count) {
  if (lease_ == std::chrono::nanoseconds{0} || !tells(LogLevel::info)) return;
  host_.log({.level = LogLevel::info,
             .name = "node.partitions",
             .message = "this node's share of the runs changes",
             .fields = {{"change", change},
                        {"count", static_cast<std::int64_t>(count)},
                        {"owned", static_cast<std::int64_t>(owned_.size())}}});
}

void Loop::disown_all() {
  for (const auto& [partition, gained] : owned_) owned_before_.insert(partition);
  owned_.clear();
  homes_.clear();
  live_in_.clear();
  draining_.clear();
  afar_.clear();
  told_workflows_ = false;
  keeping_ = false;
  next_keep_.reset();
  keep_after_ = {};
  finding_ended_ = false;
  next_look_afar_.reset();
}

void Loop::keep() {
  keeping_ = true;
  const bool works = workers_ && !stopping_;
  store::KeepNode command{.now = now_, .works = works};
  if (!told_workflows_) command.workflows = workflows_in(registry_);
  told_workflows_ = true;
  submit(std::move(command), [this, works](Answer& answer) {
    const auto& kept = std::get<store::NodeKept>(answer);
    keeping_ = false;
    nodes_ = kept.nodes;
    own(kept.gained);
    // Others set timers of our runs, too; whose hint was lost is found here.
    next_due_ = now_;
    if (!kept.gained.empty()) find_work(0);
    const bool is_waiting = works && owned_.empty();
    keep_after_ =
        is_waiting ? std::min(std::max<std::chrono::nanoseconds>(keep_after_ * 2, keep_first_after),
                              lease_ / 3)
                   : lease_ / 3;
    next_keep_ = told_workflows_ ? now_ + keep_after_ : now_;
    if (!stopping_) give_up_surplus(kept.surplus);
    for (auto& [workflow, stranded] : without_worker_) stranded.asked = false;
    move_stranded();
    if (!draining_.empty()) go_on_draining();
  });
}

/// Those with the fewest bodies under way go first. What is just being left counts.
void Loop::give_up_surplus(std::int64_t count) {
  count -= std::ssize(draining_);
  if (count <= 0) return;
  std::map<std::int32_t, int> busy;
  bodies_.for_each([&](Body& body) { ++busy[body.run->partition]; });
  std::ranges::sort(homes_, [&](std::int32_t left, std::int32_t right) {
    return std::pair{busy[right], right} < std::pair{busy[left], left};
  });
  for (; count > 0 && !homes_.empty(); --count) {
    draining_.emplace(homes_.back(), now_ + drain_patience);
    homes_.pop_back();
  }
  std::vector<RunPtr> leaving;
  for (const auto& [key, run] : live_) {
    if (is_draining(*run)) leaving.push_back(run);
  }
  for (const RunPtr& run : leaving) settle_memory(run);
}

void Loop::go_on_draining() {
  std::vector<std::int32_t> empty;
  std::vector<std::int32_t> late;
  for (const auto& [partition, until] : draining_) {
    const auto live = live_in_.find(partition);
    if (live == live_in_.end() || live->second == 0) {
      empty.push_back(partition);
    } else if (until <= now_) {
      late.push_back(partition);
    }
  }
  for (const std::int32_t partition : empty) {
    draining_.erase(partition);
    owned_.erase(partition);
  }
  if (!empty.empty()) {
    tell_share("left", empty.size());
    // Whoever waits for a run there will not hear of it here.
    for (const auto& [key, watchers] : watchers_) {
      if (!live(key)) watch_afar(key);
    }
    counters_.partitions_left += empty.size();
    submit(store::GiveUp{std::move(empty)}, [](Answer&) {});
  }
  for (const std::int32_t partition : late) take_back(partition);
}

/// Something takes its time there. Runs that were dropped meanwhile are found by their state.
void Loop::take_back(std::int32_t partition) {
  draining_.erase(partition);
  homes_.push_back(partition);
  std::vector<RunPtr> held_up;
  for (const auto& [key, run] : live_) {
    if (run->partition == partition) held_up.push_back(run);
  }
  for (const RunPtr& run : held_up) when_ready(run, [this, run] { begin_attempts(run); });
  next_due_ = now_;
  find_work(0);
}

void Loop::begin_attempts(const RunPtr& run) {
  std::vector<std::string> steps;
  for (const journal::Operation& operation : run->state.pending) {
    if (operation.kind == journal::RequestKind::step) steps.push_back(operation.op);
  }
  for (const std::string& op : steps) begin_attempt(run, op);
}

/// Never diverged: it waits for a program that has the workflow, here or elsewhere.
void Loop::await_worker(const store::RunRecord& run) {
  without_worker_[{run.workflow, run.code_version}].runs.insert(run.key);
}

/// Some node may be able to drive what this one cannot. Where none is, it is asked again when the lease is renewed: nodes
/// have come by then, or learnt.
void Loop::move_stranded() {
  if (lease_ == std::chrono::nanoseconds{0} || !workers_ || stopping_ || lost_) return;
  std::erase_if(without_worker_, [](const auto& each) { return each.second.runs.empty(); });
  for (auto& [workflow, stranded] : without_worker_) {
    if (stranded.asked) continue;
    stranded.asked = true;
    store::MoveRuns command{.runs = {}, .now = now_};
    for (const RunKey key : stranded.runs) {
      if (command.runs.size() == moved_at_once) break;
      command.runs.push_back(key);
    }
    std::ranges::sort(command.runs);
    const std::vector<RunKey> asked = command.runs;
    submit(std::move(command), [this, workflow, asked](Answer& answer) {
      const auto& stay = std::get<store::RunsFound>(answer).runs;
      const auto found = without_worker_.find(workflow);
      for (const RunKey key : asked) {
        if (std::ranges::binary_search(stay, key)) continue;
        ++counters_.runs_moved;
        if (found != without_worker_.end()) found->second.runs.erase(key);
        // Whoever waits for it here will not hear of it here.
        if (watchers_.contains(key)) watch_afar(key);
      }
      if (stay.size() < asked.size() && found != without_worker_.end()) found->second.asked = false;
    });
  }
}

void Loop::watch_afar(RunKey key) {
  afar_.insert(key);
  if (!next_look_afar_) next_look_afar_ = now_ + look_afar_every;
}

/// One look for all of them.
void Loop::find_ended() {
  next_look_afar_.reset();
  std::erase_if(afar_, [this](RunKey key) {
    const auto found = watchers_.find(key);
    if (found == watchers_.end()) return true;
    std::erase_if(found->second, [](const Watcher& watcher) { return watcher.is_gone(); });
    if (!found->second.empty()) return false;
    watchers_.erase(found);
    return true;
  });
  if (afar_.empty()) return;
  finding_ended_ = true;
  tell_ended({afar_.begin(), afar_.end()}, [this] {
    finding_ended_ = false;
    next_look_afar_ =
        now_ + look_afar_every + std::chrono::milliseconds{afar_.size() / afar_per_millisecond};
  });
}

/// Those who wait for one of them that is over, wherever that was decided.
void Loop::tell_ended(std::vector<RunKey> keys, std::function<void()> then) {
  submit(store::FindEnded{std::move(keys)}, [this, then = std::move(then)](Answer& answer) {
    then();
    for (const RunKey key : std::get<store::RunsFound>(answer).runs) {
      submit(store::LoadRun{key}, [this, key](Answer& loaded) {
        const auto* found = std::get_if<store::RunLoaded>(&loaded);
        if (found == nullptr) return notify_watchers(key, {RunStatus::cancelled, {}, {}});
        if (const auto end = end_of(found->run)) notify_watchers(key, *end);
      });
    }
  });
}

/// What others did is found by the state of runs. Those at rest are dropped, as if memory had run out: what has something to
/// do is read anew, entries of others with it. Those at work look for what they got, and find such entries in the place of
/// their next one.
void Loop::hints_lost(TimePoint now) {
  now_ = now;
  if (lost_ || !opened_ || stopping_) return;
  std::vector<RunPtr> at_rest;
  for (const auto& [key, run] : live_) {
    if (run->is_idle) {
      at_rest.push_back(run);
    } else {
      read_inbox(key);
    }
  }
  for (const RunPtr& run : at_rest) drop(run);
  std::vector<RunKey> watched;
  watched.reserve(watchers_.size());
  for (const auto& [key, watchers] : watchers_) watched.push_back(key);
  if (!watched.empty()) tell_ended(std::move(watched), [] {});
  if (!workers_) return;
  next_due_ = now_;
  find_work(0);
}

}  // namespace semel::engine
