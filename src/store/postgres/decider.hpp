// Decides commands on rows in memory: locks and reads what they need, applies the rules, again where something was missing.
#pragma once

#include "store/postgres/connection.hpp"
#include "store/postgres/held.hpp"
#include "store/postgres/postgres_store.hpp"

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace semel::store::postgres {

/// Commands that are about single rows, one behind the other.
struct Segment {
  std::span<const Command> commands;
  Wants wants;
  bool presumes = false;
};

/// Workspaces have to be made first, outside of the batch.
struct NewWorkspaces : Internal {
  explicit NewWorkspaces(std::set<std::string> unnamed) : names(std::move(unnamed)) {}

  std::set<std::string> names;
};

/// A command that was taken for one without SQL.
struct AloneWithSql : Internal {
  explicit AloneWithSql(const Command* one) : command(one) {}

  const Command* command;
};

/// Commands about the store as a whole see what the ones before them wrote, so those are sent first.
bool looks_at_all(const Command& command);

class Decider {
 public:
  Decider(Connection& connection, Known& known, base::ShapeChecker& shapes,
          PostgresCounters& counters)
      : connection_(connection), known_(known), shapes_(shapes), counters_(counters) {}

  struct Around {
    bool locks = true;
    std::function<void(Pipeline&)> lead;  ///< sent before the first read, if there is one
  };

  /// What it makes of the rows is still to be written; answers are added to `answers`. It refers to `segment`.
  std::unique_ptr<Held> decide(Segment& segment, const Around& around,
                               std::vector<Answer>& answers);

  /// A command inside a transaction that has begun. `wrote` is told of what was written.
  Answer decide_and_write(const Command& command,
                          const std::function<void(const Held&)>& wrote = {});

  /// Makes those of `made` that are not there; then all of `asked` that are there are known.
  void make_workspaces(const std::set<std::string>& made, const std::set<std::string>& asked);

 private:
  Answer answer(Held& held, const Command& command);
  std::optional<std::vector<Answer>> apply(Held& held, std::span<const Command> commands);

  Connection& connection_;
  Known& known_;
  base::ShapeChecker& shapes_;
  PostgresCounters& counters_;
};

}  // namespace semel::store::postgres
