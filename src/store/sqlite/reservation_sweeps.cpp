#include "store/sqlite/reservation_sweeps.hpp"

#include <algorithm>

namespace semel::store::sqlite {

namespace {

/// Of entries whose rows have gone by themselves so many are passed over at once.
constexpr int entries_at_once = 1000;

}  // namespace

void ReservationSweeps::begin() {
  new_.clear();
  changed_.clear();
}

void ReservationSweeps::enter(Fence fence, std::int64_t sweep_at) {
  Fences& fences = new_.try_emplace(sweep_at, Fences{fence, fence}).first->second;
  fences.first = std::min(fences.first, fence);  // one that was undone may be drawn again
  fences.last = std::max(fences.last, fence);
}

void ReservationSweeps::move(Fence fence, std::int64_t sweep_at) {
  changed_.emplace_back(sweep_at, fence);
}

void ReservationSweeps::write() {
  for (const auto& [sweep_at, fences] : new_) write_.run(sweep_at, fences.first, fences.last);
  for (const auto& [sweep_at, fence] : changed_) write_.run(sweep_at, fence, fence);
  begin();
}

ReservationSweeps::Removed ReservationSweeps::sweep(TimePoint now, std::int64_t limit) {
  write();
  std::int64_t rows = 0;
  for (std::int64_t seen = 0; rows < limit && seen < limit + entries_at_once; ++seen) {
    std::int64_t sweep_at = 0;
    Fences fences;
    {
      Rows next = next_.select(now);
      if (!next.next()) return {.rows = rows, .more = false};
      sweep_at = next.integer(0);
      fences = {.first = next.integer(1), .last = next.integer(2)};
    }
    rows += remove_rows_.run(sweep_at, fences.first, fences.last, limit - rows);
    if (rows < limit) remove_entry_.run(sweep_at, fences.first);
  }
  return {.rows = rows, .more = true};
}

}  // namespace semel::store::sqlite
