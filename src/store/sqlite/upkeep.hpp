// What keeps the store in order: who has it open, which run keys are used up, what may be forgotten.
#pragma once

#include "store/sqlite/tables.hpp"

namespace semel::store::sqlite {

class Upkeep {
 public:
  explicit Upkeep(Database& database) : database_(database) {}

  NodeOpened open_node(const OpenNode& command);
  void node_well(const NodeWell& command);
  /// The first of `count` run keys nobody ever gets again.
  RunKey reserve_keys(std::int64_t count);

 private:
  Database& database_;

  // One process owns the file, so there is one node.
  Statement node_{database_, "SELECT open, well, crashes FROM semel_node WHERE node = 1"};
  Statement open_node_{database_,
                       "INSERT OR REPLACE INTO semel_node (node, opened_at, open, well, crashes)"
                       " VALUES (1, ?1, 1, 0, ?2)"};
  Statement node_well_{
      database_, "UPDATE semel_node SET well = 1, crashes = 0, open = open AND ?1 WHERE node = 1"};
  Statement next_key_{database_, "SELECT next FROM semel_counter WHERE name = 'run'"};
  Statement set_next_key_{database_,
                          "INSERT OR REPLACE INTO semel_counter (name, next) VALUES ('run', ?1)"};
};

/// Answers for `Sweep`.
Swept sweep(Tables& tables, const Sweep& command);

}  // namespace semel::store::sqlite
