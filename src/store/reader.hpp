// Looks at what a store has: for lists, people and metrics, and for nobody's decisions.
#pragma once

#include "base/result.hpp"
#include "store/answer.hpp"
#include "store/command.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace semel::store {

struct ListFilter {
  std::string workspace = "default";
  std::optional<std::string> workflow;
  std::optional<Status> status;
  std::optional<std::string> idempotency_key;
  std::map<std::string, std::string> attributes;
  std::optional<TimePoint> since;  ///< inclusive
  std::optional<TimePoint> until;  ///< exclusive
  std::optional<std::pair<TimePoint, std::string>>
      before;  ///< created_at and id of the last run of the page before
  std::size_t limit = 200;
};

struct StoredEntry {
  Seq seq = 0;
  TimePoint at{};
  std::string bytes;
};

/// An active hook.
struct HookRecord {
  std::string token;
  std::string id;
  std::string run_id;
  std::string op;  ///< empty: not adopted by the workflow's own hook yet
  std::string shape;
  bool webhook = false;
  TimePoint since{};
  std::uint64_t waiting = 0;  ///< payloads

  bool operator==(const HookRecord&) const = default;
};

/// Active hooks, the newest first.
struct HookFilter {
  std::string workspace = "default";
  std::optional<std::string> run_id;
  std::optional<std::int64_t> before;  ///< id of the last hook of the page before
  std::size_t limit = 200;
};

/// A hook that is reachable by its token alone, and whose it is.
struct PublicHook {
  std::string workspace;
  HookRecord hook;
};

/// A payload whose hook is gone.
struct Undelivered {
  std::int64_t id = 0;
  std::string token;
  std::string value;
  TimePoint at{};

  bool operator==(const Undelivered&) const = default;
};

/// An unfinished run that nothing would ever wake; there should be none.
struct Orphan {
  std::string workspace;
  std::string id;
  Status status = Status::waiting;
};

/// A process that has the store open.
struct NodeRecord {
  std::int64_t number = 1;  ///< never used again
  std::string name{};       ///< empty where nobody said one
  TimePoint since{};
  TimePoint kept_at{};                       ///< last heard of
  std::chrono::nanoseconds lease{0};         ///< 0: it has the store to itself
  bool works = true;                         ///< takes partitions
  bool is_this = false;                      ///< the one that looks
  std::int64_t partitions = 0;               ///< that are its own
  std::vector<WorkflowVersion> workflows{};  ///< that it can drive, by name; of one with a lease
};

struct NodeList {
  std::vector<NodeRecord> nodes;  ///< by number
  std::int64_t unowned = 0;       ///< partitions that nobody has
};

/// Who drives a run.
struct RunOwner {
  std::string node;        ///< its name; empty: nobody just now
  bool has_worker = true;  ///< a node that works can drive it, this or another
};

/// Looks without touching: sees what is committed, never waits for a writer. Any thread; calls are serialised inside.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual base::Result<std::optional<RunRecord>> find(std::string_view workspace,
                                                      std::string_view id) = 0;
  virtual base::Result<std::vector<RunRecord>> list(
      const ListFilter& filter) = 0;  ///< newest first
  virtual base::Result<std::vector<StoredEntry>> journal(RunKey run, Seq from,
                                                         std::size_t limit) = 0;
  virtual base::Result<std::vector<Timer>> timers(RunKey run) = 0;
  virtual base::Result<std::optional<HookRecord>> hook(std::string_view workspace,
                                                       std::string_view token) = 0;
  virtual base::Result<std::vector<HookRecord>> hooks(const HookFilter& filter) = 0;
  /// Of all workspaces; where several have one with this token, the oldest: a latecomer takes nothing over.
  virtual base::Result<std::optional<PublicHook>> public_hook(std::string_view token) = 0;
  /// Payloads that were accepted for a run and never read by it, in order.
  virtual base::Result<std::vector<Undelivered>> undelivered(RunKey run) = 0;
  /// The predicate behind "no run is ever stuck"; see docs/guarantees.md.
  virtual base::Result<std::vector<Orphan>> orphans(std::size_t limit) = 0;

  virtual base::Result<NodeList> nodes() { return NodeList{}; }

  /// None: the store is one process's, and so are its runs.
  virtual base::Result<std::optional<RunOwner>> owner(const RunRecord&) {
    return std::optional<RunOwner>{};
  }
};

}  // namespace semel::store
