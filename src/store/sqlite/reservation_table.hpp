// Rows of semel_reservation. Who has a key is decided by a unique index.
#pragma once

#include "store/sqlite/database.hpp"
#include "store/sqlite/reservation_sweeps.hpp"
#include "store/tables.hpp"

#include <optional>
#include <string>

namespace semel::store::sqlite {

class ReservationTable final : public store::ReservationTable {
 public:
  explicit ReservationTable(Database& database) : database_(database) {}

  std::optional<Fence> insert(const ReservationPlace& place, const Reserve& command) override;
  std::optional<ReservationRow> find(const ReservationPlace& place) override;
  Fence replace(const ReservationPlace& place, const ReservationRow& row,
                const Reserve& command) override;
  bool complete(const ReservationPlace& place, const Complete& command) override;
  bool release(const ReservationPlace& place, const Release& command) override;
  bool renew(const ReservationPlace& place, const Renew& command) override;

  void remove(const ReservationPlace&, Fence fence) override { remove_.run(fence); }

  ReservationSweeps& sweeps() { return sweeps_; }

  /// After a transaction that was rolled back: the fences it set aside may not be.
  void forget_fences() { next_fence_ = fences_end_ = 0; }

 private:
  Fence next_fence();
  /// The row has the moment that a statement gave it; false if that found none.
  bool move(Fence fence, Rows& moved);

  Database& database_;
  ReservationSweeps sweeps_{database_};
  // Set aside many at a time: what nobody got is never given out.
  Fence next_fence_ = 0;
  Fence fences_end_ = 0;

  Statement insert_{
      database_,
      "INSERT INTO semel_reservation (fence, workspace, state, on_abandoned, lease_until, ttl,"
      " expires_at, sweep_at, fingerprint, ns, scope, key, owner, answer)"
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
      " ON CONFLICT (workspace, ns, scope, key) DO NOTHING"};
  Statement find_{database_,
                  "SELECT fence, state, on_abandoned, lease_until, expires_at, fingerprint, owner,"
                  " answer FROM semel_reservation"
                  " WHERE workspace = ?1 AND ns = ?2 AND scope = ?3 AND key = ?4"};
  Statement replace_{
      database_,
      "UPDATE semel_reservation SET fence = ?2, state = ?3, on_abandoned = ?4, lease_until = ?5,"
      " ttl = ?6, expires_at = ?7, sweep_at = ?8, fingerprint = ?9, owner = ?10,"
      " answer = ?11 WHERE fence = ?1"};
  // A fence is one reservation's for ever; that it is given with the texts of another is a mistake of its owner's.
  Statement complete_{
      database_,
      "UPDATE semel_reservation SET state = ?6, answer = ?7, expires_at = ?8 + ttl WHERE fence = ?1"
      " AND workspace = ?2 AND ns = ?3 AND scope = ?4 AND key = ?5"
      " AND state = 0 AND expires_at > ?8 AND sweep_at >= ?8 + ttl"};
  // The lease is over, or was renewed by less than its time: the sweep has to know.
  Statement complete_late_{
      database_,
      "UPDATE semel_reservation SET state = ?6, answer = ?7, expires_at = ?8 + ttl,"
      " sweep_at = ?8 + ttl WHERE fence = ?1 AND workspace = ?2 AND ns = ?3 AND scope = ?4"
      " AND key = ?5 AND state = 0 AND expires_at > ?8 RETURNING sweep_at"};
  Statement release_{database_,
                     "DELETE FROM semel_reservation WHERE fence = ?1 AND workspace = ?2"
                     " AND ns = ?3 AND scope = ?4 AND key = ?5 AND state = 0 AND expires_at > ?6"};
  Statement renew_{database_,
                   "UPDATE semel_reservation SET lease_until = max(lease_until, ?6),"
                   " expires_at = max(lease_until, ?6) + ttl"
                   " WHERE fence = ?1 AND workspace = ?2 AND ns = ?3 AND scope = ?4 AND key = ?5"
                   " AND state = 0 AND expires_at > ?7"};
  Statement sweep_later_{database_,
                         "UPDATE semel_reservation SET sweep_at = expires_at WHERE fence = ?1"
                         " AND sweep_at < expires_at RETURNING sweep_at"};
  Statement remove_{database_, "DELETE FROM semel_reservation WHERE fence = ?1"};
  Statement fences_{database_, "SELECT next FROM semel_counter WHERE name = 'fence'"};
  Statement set_fences_{database_,
                        "INSERT OR REPLACE INTO semel_counter (name, next) VALUES ('fence', ?1)"};
};

}  // namespace semel::store::sqlite
