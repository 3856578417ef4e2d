// Commands inside a transaction on a connection of the program's own.
#pragma once

#include "store/unit_of_work.hpp"

#include <functional>
#include <memory>

struct pg_conn;

namespace semel::store::postgres {

/// Keys of runs come from elsewhere: drawn inside the transaction, they would keep all others from drawing theirs until it is
/// over.
struct AdoptedNeeds {
  std::function<TimePoint()> clock;
  std::function<RunKey()> new_run_key;
};

/// What can be done inside the transaction that is open there; it is the program's to commit it or not. Commands leave hints
/// for the engine. Each call throws Error where the connection is not fit for it: STORE_UNAVAILABLE where it is broken,
/// VALIDATION_ERROR where no transaction goes on, or not at READ COMMITTED, or the database is no store of ours.
std::shared_ptr<UnitOfWork> adopt(pg_conn* connection, AdoptedNeeds needs);

}  // namespace semel::store::postgres
