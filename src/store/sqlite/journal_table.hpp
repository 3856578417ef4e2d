// Rows of semel_journal. The unique index on (run, seq) is the optimistic lock of every command.
#pragma once

#include "store/sqlite/database.hpp"
#include "store/tables.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace semel::store::sqlite {

class JournalTable final : public store::JournalTable {
 public:
  JournalTable(Database& database, OpenRuns& open_runs)
      : database_(database), open_runs_(open_runs) {}

  bool append_if_next(RunKey run, Seq seq, TimePoint at, std::string_view entry) override;

  void append(RunKey run, Seq seq, TimePoint at, std::string_view entry) override {
    append_.run(run, seq, at, Blob{entry});
    if (open_runs_.next(run)) open_runs_.has_written(run, seq + 1);
  }

  std::optional<Seq> last(RunKey run) override;
  std::vector<std::string> entries(RunKey run, Seq first) override;

  void discard(RunKey run) override { discard_.run(run); }

  /// Removes at most `limit` entries of discarded runs; says how many.
  std::int64_t remove_discarded(std::int64_t limit);

 private:
  Database& database_;
  OpenRuns& open_runs_;

  // Where the guard finds nothing the seq is NULL, and OR IGNORE skips the row, as it does where the position is taken.
  // The index alone would accept a gap. (INSERT … SELECT … WHERE EXISTS says the same and takes twice as long: reading
  // the table it writes to, SQLite puts the row into a temporary table first.)
  Statement append_next_{
      database_,
      "INSERT OR IGNORE INTO semel_journal (run, seq, at, entry) VALUES (?1,"
      " (SELECT ?2 FROM semel_run r CROSS JOIN semel_journal p"
      " WHERE r.run = ?1 AND r.status < 3 AND p.run = ?1 AND p.seq = ?2 - 1), ?3, ?4)"};
  Statement append_first_{
      database_,
      "INSERT OR IGNORE INTO semel_journal (run, seq, at, entry) VALUES (?1,"
      " (SELECT ?2 FROM semel_run r WHERE r.run = ?1 AND r.status < 3), ?3, ?4)"};
  Statement append_known_{
      database_,
      "INSERT OR IGNORE INTO semel_journal (run, seq, at, entry) VALUES (?1, ?2, ?3, ?4)"};
  Statement append_{database_,
                    "INSERT INTO semel_journal (run, seq, at, entry) VALUES (?1, ?2, ?3, ?4)"};
  Statement last_{database_, "SELECT max(seq) FROM semel_journal WHERE run = ?1"};
  Statement entries_{database_,
                     "SELECT entry FROM semel_journal WHERE run = ?1 AND seq >= ?2 ORDER BY seq"};
  Statement discard_{database_, "INSERT INTO semel_garbage (run) VALUES (?1)"};
  Statement first_discarded_{database_, "SELECT run FROM semel_garbage ORDER BY run LIMIT 1"};
  Statement remove_entries_{database_,
                            "DELETE FROM semel_journal WHERE id IN"
                            " (SELECT id FROM semel_journal WHERE run = ?1 ORDER BY seq LIMIT ?2)"};
  Statement forget_discarded_{database_, "DELETE FROM semel_garbage WHERE run = ?1"};
};

}  // namespace semel::store::sqlite
