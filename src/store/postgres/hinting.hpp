// What a command did to runs that others drive: their owners are left a hint, and the writer's own engine is not told.
#pragma once

#include "store/postgres/held.hpp"

namespace semel::store::postgres {

/// Takes out of `answer` what is not the writer's business.
void leave_hints(Held& held, const Command& command, Answer& answer);

/// A run that code inside a transaction starts for later is among no effects: its owner has to know of its time all the same.
void hint_later_start(Held& held, const Command& command, const Answer& answer);

}  // namespace semel::store::postgres
