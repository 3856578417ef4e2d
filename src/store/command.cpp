#include "store/command.hpp"

#include <array>

namespace semel::store {

namespace {

constexpr std::array<std::string_view, std::variant_size_v<Command>> command_names{
    "open_node",  "reserve_keys", "node_well",     "start_run", "advance_run",      "cancel_run",
    "reopen_run", "mark_run",     "save_progress", "sweep",     "load_run",         "read_inbox",
    "find_due",   "find_work",    "find_run",      "deliver",   "resume_or_start",  "reserve",
    "complete",   "release",      "renew",         "forget",    "find_reservation", "transact",
    "keep_node",  "give_up",      "find_ended",    "move_runs"};

}  // namespace

std::string_view command_name(std::size_t index) {
  return index < command_names.size() ? command_names[index] : "unknown";
}

}  // namespace semel::store
