// Moves a workspace from a SQLite file to PostgreSQL.
//
// The source is marked before anything is copied, and from then on no engine opens it: what was copied stays true. Rows arrive in
// the target in a workspace with a name that nobody can ask for and in partitions that nobody has; how far it has come
// is written in the commits of the rows it is about. The last commit gives the workspace its name and its runs to the nodes.
// So it may be killed at any moment and begun again: it goes on where it was.
//
// Ids of runs, instances, generations and operations stay, and with them the ids that outside effects are known by. Keys of rows
// are shifted by numbers drawn once; fences stay, so that owners of reservations can still complete them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace semel::app {

struct CopyProgress {
  std::int64_t done = 0;  ///< runs and reservations
  std::int64_t all = 0;
};

struct CopyOptions {
  std::string from;  ///< sqlite:FILE
  std::string to;    ///< postgres://…
  std::string workspace = "default";
  std::int64_t rows_per_commit = 200;  ///< at most; the entries of a run go with it
  /// Told behind every commit.
  std::function<void(const CopyProgress&)> progress = [](const CopyProgress&) {};
};

struct Copied {
  std::int64_t runs = 0;
  std::int64_t entries = 0;
  std::int64_t payloads = 0;
  std::int64_t reservations = 0;
  bool was_done = false;               ///< before this call
  std::vector<std::string> left_over;  ///< workspaces that are still in the source alone
};

/// Throws Error: VALIDATION_ERROR where the command makes no sense, STORE_UNAVAILABLE where a store is not to be had; both say
/// what to do. Called again after any end it goes on; after its success it changes nothing.
Copied copy_workspace(const CopyOptions& options);

/// Forgets a copy that was not finished, in the target and then in the source. Called again it changes nothing.
void undo_copy(const CopyOptions& options);

}  // namespace semel::app
