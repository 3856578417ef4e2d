// Which part of the index of run keys a new key goes to.
//
// Keys come in no order. In one index of all keys that ever were nearly each start would dirty a page of its own, and what a
// commit and a checkpoint cost is their pages. So a key's place in the index begins with an era: the newest keys are near
// each other, however many there are, and the pages of older eras are left alone. A unique index decides who has a key in
// an era. Whether an older era has it is looked up before, where a filter over all keys does not rule it out; that is as
// good, because one connection writes, one transaction after the other.
#pragma once

#include "store/known_keys.hpp"
#include "store/sqlite/database.hpp"

#include <cstdint>
#include <string_view>

namespace semel::store::sqlite {

class KeyEras {
 public:
  explicit KeyEras(Database& database) : database_(database) {}

  /// Before the first key. Not while a transaction is open.
  void open(std::int64_t keys_per_era);

  /// The era of a key that is about to be inserted; begins one where the newest is full.
  std::int64_t newest();

  /// Behind `newest`: whether a run of another era may hold the key.
  bool may_be_older(std::int64_t workspace, std::string_view key);

  /// A run holds the key.
  void took(std::int64_t workspace, std::string_view key);

  /// After a transaction that was rolled back.
  void forget() { is_known_ = false; }

  /// Not while a transaction is open.
  void renew_if_due() { known_.renew_if_due(); }

 private:
  void look_up();
  void begin_next();
  std::int64_t keys_max() const;  ///< of the newest era

  Database& database_;
  std::int64_t keys_per_era_ = 0;
  bool is_known_ = false;   ///< what follows is as the tables have it
  std::int64_t era_ = -1;   ///< the newest
  std::int64_t count_ = 0;  ///< of eras
  std::int64_t used_ = 0;   ///< of the newest, or more: what was undone counts
  KnownKeys known_;         ///< of all eras

  Statement eras_{database_, "SELECT coalesce(max(era), 0), count(*) FROM semel_key_era"};
  Statement used_of_{database_,
                     "SELECT count(*) FROM (SELECT 1 FROM semel_run WHERE key_era = ?1"
                     " AND idempotency_key IS NOT NULL LIMIT ?2)"};
  Statement begin_{database_, "INSERT INTO semel_key_era (era) VALUES (?1)"};
  Statement drop_empty_{database_,
                        "DELETE FROM semel_key_era WHERE NOT EXISTS (SELECT 1 FROM semel_run"
                        " WHERE key_era = era AND idempotency_key IS NOT NULL)"};
};

}  // namespace semel::store::sqlite
