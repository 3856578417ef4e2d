// Code of somebody else's inside a batch's transaction.
#pragma once

#include "store/sqlite/tables.hpp"
#include "store/sqlite/user_sql.hpp"
#include "store/unit_of_work.hpp"

namespace semel::store::sqlite {

/// `execute` answers the commands that the work makes. Throws `Poisoned`.
Answer transact(Tables& tables, UserSql& user, const Transact& command,
                const std::function<Answer(const Command&)>& execute,
                const std::function<RunKey()>& new_run_key);

}  // namespace semel::store::sqlite
