// Rows of one table as a batch sees them: as they were read, and as they are to be.
#pragma once

#include <cstddef>
#include <map>
#include <memory_resource>
#include <optional>
#include <utility>
#include <vector>

namespace semel::store::postgres {

template <class Key, class Value>
class Ledger {
 public:
  struct Slot {
    std::optional<Value> now;  ///< none: it is not to be there
    bool is_stored = false;    ///< the database has it
    bool is_changed = false;
  };

  using Slots = std::pmr::map<Key, Slot>;

  /// Rows go all at once, with the batch.
  explicit Ledger(std::pmr::memory_resource& memory) : slots_(&memory), undo_(&memory) {}

  /// As the database has it.
  void load(const Key& key, Value value) {
    slots_.insert_or_assign(key, Slot{.now = std::move(value), .is_stored = true});
  }

  /// None: it is not there, or was not read.
  const Value* find(const Key& key) const {
    const auto slot = slots_.find(key);
    return slot == slots_.end() || !slot->second.now ? nullptr : &*slot->second.now;
  }

  void put(const Key& key, Value value) { remember(key).now = std::move(value); }

  /// Also what was not read: then it may be there.
  void erase(const Key& key) { remember(key).now.reset(); }

  /// To be changed in place; it must be there.
  Value& edit(const Key& key) { return *remember(key).now; }

  const Slots& slots() const { return slots_; }

  /// Everything with `first <= key`, in order; for keys that begin with what is looked for.
  typename Slots::const_iterator from(const Key& first) const { return slots_.lower_bound(first); }

  std::size_t mark() const { return undo_.size(); }

  void undo_to(std::size_t mark) {
    while (undo_.size() > mark) {
      auto& [key, before] = undo_.back();
      if (before) {
        slots_.insert_or_assign(key, *std::move(before));
      } else {
        slots_.erase(key);
      }
      undo_.pop_back();
    }
  }

 private:
  Slot& remember(const Key& key) {
    const auto found = slots_.find(key);
    undo_.emplace_back(key,
                       found == slots_.end() ? std::nullopt : std::optional<Slot>{found->second});
    Slot& slot = found == slots_.end() ? slots_[key] : found->second;
    slot.is_changed = true;
    return slot;
  }

  Slots slots_;
  std::pmr::vector<std::pair<Key, std::optional<Slot>>> undo_;
};

}  // namespace semel::store::postgres
