// Commands about the store as a whole: which run keys are used up, what is due, what may be forgotten.
// They look through tables and not at single rows, so they are statements of their own; what the batch wrote before them
// has been sent by then.
#pragma once

#include "store/answer.hpp"
#include "store/command.hpp"
#include "store/postgres/connection.hpp"

namespace semel::store::postgres {

KeysReserved reserve_keys(Connection& connection, const ReserveKeys& command);
/// `node`: whose partitions are looked through; 0: all.
TimersDue find_due(Connection& connection, const FindDue& command, std::int64_t node);
RunsFound find_work(Connection& connection, const FindWork& command, std::int64_t node);
RunsFound find_ended(Connection& connection, const FindEnded& command);
Swept sweep(Connection& connection, const Sweep& command);

}  // namespace semel::store::postgres
