// What the store knows by heart about open runs it has written to. Nobody else writes while it has the file, so looking
// it up would find the same. Forgotten where a transaction is rolled back.
#pragma once

#include "store/changes.hpp"

#include <optional>
#include <unordered_map>

namespace semel::store {

class OpenRuns {
 public:
  OpenRuns() = default;

  /// For a store that others write to as well: it knows nothing by heart.
  static OpenRuns forgetful() {
    OpenRuns runs;
    runs.remembers_ = false;
    return runs;
  }

  /// The run was just created, with no entry.
  void created(RunKey run) { insert(run, {.next = 0, .alone = true}); }

  /// Its journal ends at `next - 1` and it is pending, running or waiting.
  void has_written(RunKey run, Seq next) {
    if (const auto known = runs_.find(run); known != runs_.end()) {
      known->second.next = next;
    } else {
      insert(run, {.next = next, .alone = false});
    }
  }

  /// Where its next entry goes; none: it is not known.
  std::optional<Seq> next(RunKey run) const {
    const auto known = runs_.find(run);
    return known == runs_.end() ? std::nullopt : std::optional{known->second.next};
  }

  /// Something was written that its end has to look for: a timer, a hook, something in its inbox, somebody who waits.
  void involve(RunKey run) {
    if (const auto known = runs_.find(run); known != runs_.end()) known->second.alone = false;
  }

  /// Its end has nothing to look for.
  bool is_alone(RunKey run) const {
    const auto known = runs_.find(run);
    return known != runs_.end() && known->second.alone;
  }

  /// It is no longer pending, running or waiting, or gone.
  void closed(RunKey run) { runs_.erase(run); }

  void forget() { runs_.clear(); }

 private:
  /// Beyond this many they are looked up again.
  static constexpr std::size_t known_max = 1U << 16U;

  struct Known {
    Seq next = 0;
    bool alone = false;
  };

  void insert(RunKey run, Known known) {
    if (!remembers_) return;
    if (runs_.size() == known_max) runs_.clear();
    runs_.insert_or_assign(run, known);
  }

  bool remembers_ = true;
  std::unordered_map<RunKey, Known> runs_;
};

}  // namespace semel::store
