// Writes what a batch made of its rows: one statement per table and kind of change, however many rows.
#pragma once

#include "store/postgres/connection.hpp"
#include "store/postgres/held.hpp"

namespace semel::store::postgres {

/// Rows go before others come that take their place, and what a unique index may have to wait for comes in one order, the
/// same for every batch: so two batches never wait for each other.
void add_writing(Pipeline& pipeline, const Held& held);

}  // namespace semel::store::postgres
