// When reservations are swept. One entry for all that a transaction makes and that expire together, not one each: an index of
// moments would be a third of what a reservation costs.
//
// An entry says: from `sweep_at` on, look at these fences. What has another moment by then has another entry, and what
// is gone is gone, so an entry may say too much and never too little.
#pragma once

#include "store/changes.hpp"
#include "store/reservation.hpp"
#include "store/sqlite/database.hpp"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace semel::store::sqlite {

class ReservationSweeps {
 public:
  explicit ReservationSweeps(Database& database) : database_(database) {}

  /// A transaction begins; what was entered in one that was rolled back is forgotten.
  void begin();

  /// A new row, swept with those that this transaction made before.
  void enter(Fence fence, std::int64_t sweep_at);
  /// A row that is there has another moment from here on.
  void move(Fence fence, std::int64_t sweep_at);

  /// What was entered becomes rows, at the end of the transaction: code that is undone inside of it takes none with it.
  void write();

  struct Removed {
    std::int64_t rows = 0;
    bool more = false;  ///< there are entries that were not looked at
  };

  /// Removes up to `limit` rows whose moment has come, the oldest first.
  Removed sweep(TimePoint now, std::int64_t limit);

 private:
  struct Fences {
    Fence first = 0;
    Fence last = 0;
  };

  Database& database_;
  std::map<std::int64_t, Fences> new_;  ///< by moment
  std::vector<std::pair<std::int64_t, Fence>> changed_;

  Statement write_{database_,
                   "INSERT INTO semel_reservation_sweep (sweep_at, first, last) VALUES (?1, ?2, ?3)"
                   " ON CONFLICT (sweep_at, first) DO UPDATE SET last = max(last, excluded.last)"};
  Statement next_{database_,
                  "SELECT sweep_at, first, last FROM semel_reservation_sweep"
                  " WHERE sweep_at <= ?1 ORDER BY sweep_at, first LIMIT 1"};
  Statement remove_rows_{database_,
                         "DELETE FROM semel_reservation WHERE fence IN (SELECT fence FROM"
                         " semel_reservation WHERE fence BETWEEN ?2 AND ?3 AND sweep_at = ?1"
                         " ORDER BY fence LIMIT ?4)"};
  Statement remove_entry_{database_,
                          "DELETE FROM semel_reservation_sweep WHERE sweep_at = ?1 AND first = ?2"};
};

}  // namespace semel::store::sqlite
