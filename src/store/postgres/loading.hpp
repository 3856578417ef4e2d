// Reads what a batch needs: locks first, in the order of their keys, then looks. All of it in one round trip.
#pragma once

#include "store/postgres/connection.hpp"
#include "store/postgres/held.hpp"

namespace semel::store::postgres {

/// Adds to `pipeline` what fills `held` with what its wants say. With `locks`, everything that is read is this
/// transaction's until it ends. What turns out to belong to a run that was not locked is noted in `held.more`, and has
/// to be read again.
void add_loading(Pipeline& pipeline, Held& held, bool locks);

/// To be called once the pipeline has run: what was read is complete.
void finish_loading(Held& held);

}  // namespace semel::store::postgres
