// Commands about the store as a whole: who has it open, which run keys are used up, what is due, what may be forgotten.
// They look through tables and not at single rows, so they are statements of their own; what the batch wrote before them
// has been sent by then.
#pragma once

#include "store/postgres/connection.hpp"
#include "store/store.hpp"

namespace semel::store::postgres {

/// Takes the partition over: `epoch` is the new one, and whoever knew the last can no longer write. Waits for batches of
/// its owner that are under way.
NodeOpened open_node(Connection& connection, const OpenNode& command, std::int64_t& epoch);
KeysReserved reserve_keys(Connection& connection, const ReserveKeys& command);
Done node_well(Connection& connection, const NodeWell& command);
TimersDue find_due(Connection& connection, const FindDue& command);
RunsFound find_work(Connection& connection, const FindWork& command);
Swept sweep(Connection& connection, const Sweep& command);

}  // namespace semel::store::postgres
