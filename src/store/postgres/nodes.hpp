// Who drives which runs: nodes, their leases, and the partitions they share out among themselves.
//
// Nobody decides for the others. A node that works takes partitions that are nobody's, up to its share, and leaves what it
// has too much of. One that was not heard of for its lease, or whose connection is gone, is removed by whoever notices
// first. None of this needs a lock on more than the rows it changes.
#pragma once

#include "store/answer.hpp"
#include "store/command.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/identity.hpp"
#include "store/postgres/wants.hpp"

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace semel::store::postgres {

/// What a batch knows of its node, and what it makes of it.
struct Membership {
  std::int64_t node = 0;  ///< 0: none
  bool is_open = false;   ///< on this connection; otherwise it was on the last one
  Ownership owned;

  /// Whose runs are looked for; 0: all.
  std::int64_t seeker() const { return is_open ? node : 0; }

  void gain(const std::vector<Gained>& gained);
};

/// In place of what `identity` was before: waits for batches of its own that are under way.
NodeOpened open_node(Connection& connection, const OpenNode& command, const NodeIdentity& identity,
                     Membership& membership);
/// Outside of a transaction: it is one by itself. None: there is more to do than to be heard of, by `keep_node`.
std::optional<NodeKept> keep_settled_node(Connection& connection, const KeepNode& command,
                                          const NodeIdentity& identity,
                                          const Membership& membership,
                                          const std::function<void(std::int64_t)>& see_clock);
NodeKept keep_node(Connection& connection, const KeepNode& command, const NodeIdentity& identity,
                   Membership& membership, const std::function<void(std::int64_t)>& see_clock);
Done give_up(Connection& connection, const GiveUp& command, Membership& membership);
/// `hinted`: partitions whose owners have something to look at are added to it.
RunsFound move_runs(Connection& connection, const MoveRuns& command, const Membership& membership,
                    std::set<std::int32_t>& hinted);
Done node_well(Connection& connection, const NodeWell& command, Membership& membership);

/// Ends transactions of nodes whose process has said nothing for its lease: as `idle_in_transaction_session_timeout` does, also
/// where it was stopped in the middle of sending one. Their locks are free a moment later.
void end_silent(Connection& connection);

/// The channel on which a node is told that there are hints for it.
std::string channel_of(std::int64_t node);

}  // namespace semel::store::postgres
