#include "store/postgres/held.hpp"

namespace semel::store::postgres {

namespace {

class HeldWakeups final : public Wakeups {
 public:
  explicit HeldWakeups(Held& held) : held_(held) {}

  void set_timer(RunKey run, TimerKind kind, const std::string& op, TimePoint due) override {
    held_.timers.put({run, kind, op}, due);
  }

  void clear_timer(RunKey run, TimerKind kind, const std::string& op) override {
    held_.timers.erase({run, kind, op});
  }

  std::optional<TimePoint> due(RunKey run, TimerKind kind, const std::string& op) override {
    held_.need(run, timers_part);
    const TimePoint* due = held_.timers.find({run, kind, op});
    return due == nullptr ? std::nullopt : std::optional{*due};
  }

  void put(RunKey run, const InboxItem& item) override {
    // Its row is locked by that: a run that ends at the same time clears its inbox before or after.
    held_.need(run, row_part);
    InboxItem numbered = item;
    numbered.id = held_.draw(Number::item);
    held_.inbox.put({run, numbered.id}, numbered);
  }

  void consume(RunKey run, std::int64_t item) override { held_.inbox.erase({run, item}); }

  std::vector<InboxItem> inbox(RunKey run) override {
    held_.need(run, inbox_part);
    std::vector<InboxItem> items;
    for (auto at = held_.inbox.from({run, 0});
         at != held_.inbox.slots().end() && at->first.first == run; ++at) {
      if (at->second.now) items.push_back(*at->second.now);
    }
    return items;
  }

  void wait_for(RunKey target, RunKey run, const std::string& op) override {
    held_.waits_by_target[target].emplace(run, op);
    held_.waits.put({run, op}, target);
  }

  void stop_waiting(RunKey run, const std::string& op) override { held_.waits.erase({run, op}); }

  std::vector<Waiter> take_waiters(RunKey target) override {
    if (held_.presumed_ends.find(target) != nullptr) return {};
    held_.need(target, waiters_part);
    std::vector<Waiter> found;
    for (const Operation& operation : held_.waits_by_target[target]) {
      const RunKey* waits_for = held_.waits.find(operation);
      if (waits_for == nullptr || *waits_for != target) continue;
      // Behind its lock: it may have given up waiting.
      held_.need(operation.first, row_part);
      found.push_back({.run = operation.first, .op = operation.second});
    }
    for (const Waiter& waiter : found) held_.waits.erase({waiter.run, waiter.op});
    return found;
  }

  void save_progress(RunKey run, const std::string& op, const std::string& value) override {
    const RunRow* row = held_.row(run);
    if (row != nullptr && !is_end(row->status)) held_.progress.put({run, op}, value);
  }

  std::vector<std::pair<std::string, std::string>> progress(RunKey run) override {
    held_.need(run, progress_part);
    std::vector<std::pair<std::string, std::string>> found;
    for (auto at = held_.progress.from({run, ""});
         at != held_.progress.slots().end() && at->first.first == run; ++at) {
      if (at->second.now) found.emplace_back(at->first.second, *at->second.now);
    }
    return found;
  }

  void clear_generation(RunKey run) override {
    Cleared cleared = what_is_cleared(run);
    cleared.generation = true;
    held_.cleared.put(run, cleared);
    erase_of(held_.timers, TimerName{run, TimerKind::sleep, ""}, run, [](const auto& slot) {
      const TimerKind kind = std::get<TimerKind>(slot.first);
      return kind == TimerKind::sleep || kind == TimerKind::retry;
    });
    erase_of(held_.inbox, ItemName{run, 0}, run, [](const auto& slot) {
      return slot.second.now && slot.second.now->kind == InboxItem::Kind::result;
    });
    clear_operations(run);
  }

  void clear(RunKey run) override {
    if (held_.presumed_ends.find(run) != nullptr) return;
    held_.cleared.put(run, {.generation = true, .all = true});
    const auto every = [](const auto&) { return true; };
    erase_of(held_.timers, TimerName{run, TimerKind::sleep, ""}, run, every);
    erase_of(held_.inbox, ItemName{run, 0}, run, every);
    clear_operations(run);
  }

 private:
  Cleared what_is_cleared(RunKey run) const {
    const Cleared* cleared = held_.cleared.find(run);
    return cleared == nullptr ? Cleared{} : *cleared;
  }

  void clear_operations(RunKey run) {
    const auto every = [](const auto&) { return true; };
    erase_of(held_.waits, Operation{run, ""}, run, every);
    erase_of(held_.progress, Operation{run, ""}, run, every);
  }

  /// Rows of `run` that `goes` says so of.
  template <class Table, class Key, class Goes>
  static void erase_of(Table& table, const Key& first, RunKey run, const Goes& goes) {
    std::vector<Key> keys;
    for (auto at = table.from(first); at != table.slots().end() && std::get<0>(at->first) == run;
         ++at) {
      if (goes(*at)) keys.push_back(at->first);
    }
    for (const Key& key : keys) table.erase(key);
  }

  Held& held_;
};

}  // namespace

std::unique_ptr<Wakeups> make_wakeups(Held& held) { return std::make_unique<HeldWakeups>(held); }

}  // namespace semel::store::postgres
