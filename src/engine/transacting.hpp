// Users' functions as work for the store's transaction.
#pragma once

#include "store/unit_of_work.hpp"

#include <semel/sql.hpp>

#include <functional>
#include <memory>
#include <string>

namespace semel::engine {

/// Runs `function` inside the transaction; gives its result as JSON. `workspace`: whose keys its reservations are.
std::shared_ptr<store::Work> make_work(std::string workspace,
                                       std::function<std::string(sql::Transaction&)> function);

/// True on a thread that is inside such a function: it is the one that commits, so engine calls that wait for a commit
/// would wait for ever.
bool inside_transaction();

/// A session that keeps its unit: for transactions that are not the engine's to end.
std::shared_ptr<sql::Session> make_session(std::shared_ptr<store::UnitOfWork> unit,
                                           std::string workspace);

/// What `transaction` stands on.
store::UnitOfWork& unit_of(sql::Transaction& transaction);

}  // namespace semel::engine
