// What a batch has to read before it can be decided.
#pragma once

#include "store/command.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace semel::store::postgres {

/// Of a run, as bits. Its row, with the end of its journal, is always read.
using Parts = unsigned;

inline constexpr Parts row_part = 1U << 0U;
inline constexpr Parts texts_part = 1U << 1U;  ///< input and output
inline constexpr Parts attributes_part = 1U << 2U;
inline constexpr Parts hooks_part = 1U << 3U;  ///< with the oldest payloads of each
inline constexpr Parts inbox_part = 1U << 4U;
inline constexpr Parts entries_part = 1U << 5U;
inline constexpr Parts progress_part = 1U << 6U;
inline constexpr Parts timers_part = 1U << 7U;
inline constexpr Parts waiters_part = 1U << 8U;   ///< who waits for it
inline constexpr Parts children_part = 1U << 9U;  ///< the keys of its unfinished children
inline constexpr Parts record_parts = row_part | texts_part | attributes_part;
inline constexpr Parts all_parts = (1U << 10U) - 1;

/// Numbers that are drawn behind the locks.
enum class Number : std::uint8_t { item, hook, payload, fence, run };
inline constexpr std::size_t number_kinds = 5;

/// Workspace, and an id, a key or a token.
using Name = std::pair<std::int64_t, std::string>;
using ResumeName = std::tuple<std::int64_t, std::string, std::string>;

struct Wants {
  std::map<RunKey, Parts> runs;
  std::map<Name, Parts> ids;
  std::map<Name, Parts> keys;    ///< of the runs that hold them
  std::map<Name, Parts> tokens;  ///< of the runs that have them
  std::set<ResumeName> resumes;
  std::set<std::string> reservations;  ///< digests
  std::set<std::int64_t> hooks_whole;  ///< hooks of which all payloads are needed
  std::set<std::int64_t> payloads;
  std::array<std::int64_t, number_kinds> numbers{};
  std::set<std::string> names;       ///< of workspaces that may be there
  std::set<std::string> workspaces;  ///< that have no number yet and are to get one

  void add(const Wants& more);
  bool empty() const;
};

/// Whose runs the writer of a batch may go on with.
struct Ownership {
  bool is_all = true;                    ///< nobody else is there
  std::vector<std::int32_t> partitions;  ///< ascending

  bool has(std::int32_t partition) const {
    return is_all || std::ranges::binary_search(partitions, partition);
  }

  /// Where a new run goes.
  std::int32_t home(RunKey run) const;

  friend bool operator==(const Ownership&, const Ownership&) = default;
};

/// A run of the writer's as its last commit left it: pending, running or waiting.
struct OpenRun {
  Seq next = 0;  ///< where its next entry goes
  /// It has nothing but entries, as far as that is its owner's to write: no timer, no hook, no progress, no wait.
  bool is_alone = false;
};

/// Immutable, so it may be remembered for ever: the number of a workspace, the workspace of a run. And what is the
/// writer's.
struct Known {
  Ownership owned;
  /// Not immutable: others cancel runs and leave things for them. What is decided by it is borne out by the commit
  /// (`presumed.hpp`).
  std::unordered_map<RunKey, OpenRun> open;

  std::map<std::string, std::int64_t, std::less<>> workspaces;
  std::map<std::int64_t, std::string> names;  ///< of workspaces
  std::map<RunKey, std::int64_t> workspace_of;

  std::optional<std::int64_t> workspace(const std::string& name) const;
  void note_workspace(const std::string& name, std::int64_t number);
  void note_run(RunKey run, std::int64_t workspace);
};

/// Adds what `command` usually needs. It need not be all: what is missing is asked for when it is met. Nothing where `presumes`
/// and what it needs is presumed (`presumed.hpp`).
void foresee(const Command& command, const Known& known, Wants& wants, bool presumes);

/// The workspace a command names, and whether it is made where it is not there.
struct NamedWorkspace {
  const std::string* name = nullptr;
  bool is_made = false;
};

NamedWorkspace workspace_of(const Command& command);

}  // namespace semel::store::postgres
