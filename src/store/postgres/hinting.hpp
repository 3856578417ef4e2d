// What a command did to runs that others drive: their owners are left a hint, and the writer's own engine is not told.
#pragma once

#include "store/postgres/held.hpp"

namespace semel::store::postgres {

/// Takes out of `answer` what is not the writer's business.
void leave_hints(Held& held, const Command& command, Answer& answer);

}  // namespace semel::store::postgres
