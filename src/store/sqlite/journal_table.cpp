#include "store/sqlite/journal_table.hpp"

namespace semel::store::sqlite {

bool JournalTable::append_if_next(RunKey run, Seq seq, TimePoint at, std::string_view entry) {
  const auto known = open_runs_.next(run);
  // No gap; whether the place is free is for the index to say.
  if (known && seq > *known) return false;
  Statement& append = known ? append_known_ : seq == 0 ? append_first_ : append_next_;
  if (append.run(run, seq, at, Blob{entry}) != 1) return false;
  open_runs_.has_written(run, seq + 1);
  return true;
}

std::optional<Seq> JournalTable::last(RunKey run) {
  Rows rows = last_.select(run);
  if (!rows.next() || rows.is_null(0)) return std::nullopt;
  return static_cast<Seq>(rows.integer(0));
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
