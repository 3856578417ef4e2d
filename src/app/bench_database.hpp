// The PostgreSQL database a benchmark is given: empty before it, and empty again after it.
#pragma once

#include "store/postgres/connection.hpp"

#include <string>

namespace semel::app::bench {

class BenchDatabase {
 public:
  /// Throws Error where it cannot be reached or somebody's store is in it. What a benchmark that was killed left there
  /// is removed.
  explicit BenchDatabase(const std::string& url);
  BenchDatabase(const BenchDatabase&) = delete;
  BenchDatabase& operator=(const BenchDatabase&) = delete;
  ~BenchDatabase();

  /// "PostgreSQL 15.20".
  std::string version();

 private:
  store::postgres::Connection connection_;
};

/// Removes the tables of a store in a benchmark's database; nobody may have it open.
void remove_tables(const std::string& url);

/// The one number that a question gives; 0 where it gives none.
double ask(store::postgres::Connection& connection, const std::string& sql);

}  // namespace semel::app::bench
