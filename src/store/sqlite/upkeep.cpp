#include "store/sqlite/upkeep.hpp"

#include "store/starting.hpp"

namespace semel::store::sqlite {

NodeOpened Upkeep::open_node(const OpenNode& command) {
  Gained whole;
  {
    Rows rows = node_.select();
    if (rows.next()) {
      const bool left_open = rows.integer(0) != 0;
      const bool got_well = rows.integer(1) != 0;
      whole.clean = !left_open;
      if (left_open && !got_well) whole.crashes = static_cast<std::int32_t>(rows.integer(2)) + 1;
    }
  }
  open_node_.run(command.now, whole.crashes);
  return {.first_key = reserve_keys(command.keys_count), .gained = {whole}};
}

void Upkeep::node_well(const NodeWell& command) { node_well_.run(command.closed ? 0 : 1); }

RunKey Upkeep::reserve_keys(std::int64_t count) {
  RunKey first = 1;
  {
    Rows rows = next_key_.select();
    if (rows.next()) first = rows.integer(0);
  }
  set_next_key_.run(first + count);
  return first;
}

Swept sweep(Tables& tables, const Sweep& command) {
  Swept answer;
  std::int64_t left = command.limit;
  // Before the keys: most go with their runs.
  for (const RunKey run : tables.runs.runs_expired(command.now, left)) {
    remove_run(tables.common, run);
    ++answer.runs;
  }
  left -= answer.runs;
  for (const RunKey run : tables.runs.keys_expired(command.now, left)) {
    tables.runs.release_key(run);
    ++answer.keys;
  }
  left -= answer.keys;
  answer.resume_ids = tables.hooks.forget_resume_ids(command.now, left);
  left -= answer.resume_ids;
  const auto reservations = tables.reservations.sweeps().sweep(command.now, left);
  answer.reservations = reservations.rows;
  left -= answer.reservations;
  answer.entries = tables.journal.remove_discarded(left);
  answer.more = answer.entries == left || reservations.more;
  return answer;
}

}  // namespace semel::store::sqlite
