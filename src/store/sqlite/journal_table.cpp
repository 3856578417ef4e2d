#include "store/sqlite/journal_table.hpp"

namespace semel::store::sqlite {

std::optional<Seq> JournalTable::last(RunKey run) {
  Rows rows = last_.select(run);
  if (!rows.next() || rows.is_null(0)) return std::nullopt;
  return static_cast<Seq>(rows.integer(0));
}

Seq JournalTable::next(RunKey run) {
  const auto end = last(run);
  return end ? *end + 1 : 0;
}

std::vector<std::string> JournalTable::entries(RunKey run) {
  std::vector<std::string> found;
  Rows rows = entries_.select(run);
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
