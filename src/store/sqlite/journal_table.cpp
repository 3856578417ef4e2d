#include "store/sqlite/journal_table.hpp"

namespace semel::store::sqlite {

namespace {

/// More ends are not worth remembering: the busy ones are soon known again.
constexpr std::size_t ends_max = std::size_t{1} << 16;

}  // namespace

bool JournalTable::append_if_next(RunKey run, Seq seq, TimePoint at, std::string_view entry) {
  if (const auto known = ends_.find(run); known != ends_.end()) {
    // No gap; whether the place is free is for the index to say.
    if (seq > known->second || append_known_.run(run, seq, at, Blob{entry}) != 1) return false;
    known->second = seq + 1;
    return true;
  }
  if ((seq == 0 ? append_first_ : append_next_).run(run, seq, at, Blob{entry}) != 1) return false;
  if (ends_.size() == ends_max) ends_.clear();
  ends_.emplace(run, seq + 1);
  return true;
}

std::optional<Seq> JournalTable::last(RunKey run) {
  Rows rows = last_.select(run);
  if (!rows.next() || rows.is_null(0)) return std::nullopt;
  return static_cast<Seq>(rows.integer(0));
}

Seq JournalTable::next(RunKey run) {
  const auto end = last(run);
  return end ? *end + 1 : 0;
}

std::vector<std::string> JournalTable::entries(RunKey run, Seq first) {
  std::vector<std::string> found;
  Rows rows = entries_.select(run, first);
  while (rows.next()) found.push_back(rows.text(0));
  return found;
}

std::int64_t JournalTable::remove_discarded(std::int64_t limit) {
  std::int64_t removed = 0;
  while (removed < limit) {
    RunKey run = 0;
    {
      Rows rows = first_discarded_.select();
      if (!rows.next()) break;
      run = rows.integer(0);
    }
    removed += remove_entries_.run(run, limit - removed);
    // At the limit there may be more of this run; the next sweep finds out.
    if (removed < limit) forget_discarded_.run(run);
  }
  return removed;
}

}  // namespace semel::store::sqlite
