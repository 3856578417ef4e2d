// Commands that read runs.
#pragma once

#include "store/tables.hpp"

namespace semel::store {

Answer load_run(Tables& tables, const LoadRun& command);
InboxRead read_inbox(Tables& tables, const ReadInbox& command);
Answer find_run(Tables& tables, const FindRun& command);

}  // namespace semel::store
