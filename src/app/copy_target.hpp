// The PostgreSQL database that a workspace is moved to.
#pragma once

#include "store/postgres/connection.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace semel::app {

/// How far a copy has come.
struct CopyState {
  std::string copy;
  std::int64_t workspace = 0;
  bool is_done = false;
  std::int64_t run_shift = 0;
  std::int64_t item_shift = 0;
  std::int64_t hook_shift = 0;
  std::int64_t payload_shift = 0;
  std::int64_t last_run = 0;
  std::int64_t last_fence = 0;
  std::string last_token;
  std::string last_resume;
  std::int64_t runs = 0;
  std::int64_t entries = 0;
  std::int64_t payloads = 0;
  std::int64_t reservations = 0;
};

/// The highest number of each kind in the source.
struct Drawn {
  std::int64_t runs = 0;
  std::int64_t items = 0;
  std::int64_t hooks = 0;
  std::int64_t payloads = 0;
  std::int64_t fences = 0;
};

class CopyTarget {
 public:
  /// Throws Error, or `store::Failed`, as all of it does.
  explicit CopyTarget(const std::string& url);

  /// Refuses where the name is taken, or where a node is at work, which would not look for what is new.
  void require_room(const std::string& workspace);

  /// The state of this copy; new, where it has none.
  CopyState begin(const std::string& copy, const Drawn& drawn);

  /// Gives the workspace its name and its runs to whoever comes.
  void finish(const CopyState& state, const std::string& workspace, bool was_cut_off);

  /// False: it is done, and stays.
  bool forget(const std::string& copy);

  std::int32_t partitions() const { return partitions_; }

  /// One that no node has, and from which `finish` finds the right one.
  std::int64_t partition_until_done(std::int64_t run) const;

  store::postgres::Connection& connection() { return connection_; }

 private:
  CopyState read(const std::string& copy);
  std::int64_t number(std::string_view sql, const store::postgres::Parameters& parameters = {});
  std::int64_t draw(const std::string& sequence, std::int64_t count);

  store::postgres::Connection connection_;
  std::int32_t partitions_ = 0;
};

enum class CopyTable : std::uint8_t {
  run,
  journal,
  timer,
  inbox,
  waiter,
  attribute,
  progress,
  hook,
  payload,
  resume,
  reservation
};

/// One transaction.
class CopyBatch {
 public:
  explicit CopyBatch(CopyTarget& target);

  /// The columns are those of the table's statement.
  void add(CopyTable table, const store::postgres::Columns& columns);

  /// With how far it has come now.
  void commit(const CopyState& state);

 private:
  store::postgres::Pipeline pipeline_;
};

}  // namespace semel::app
