// What a node need not look up of the runs it drives, because its last commit left them so.
//
// A run's owner knows where its journal ends: nobody else drives it. What others do to it meanwhile either takes the next
// position in the journal (a cancel, a wake-up) or leaves the journal alone (a payload, a result, somebody who waits). So a
// command that only appends entries is written without having read or locked anything, and borne out by the same commit:
//
//  - the unique index on positions says that nobody has the next one, whether committed or not;
//  - a look behind the insert says that the run is there and open. (Ended and swept by others, its positions would be free
//    again. Whoever ends it from here on needs the position we have.)
//  - an end is an UPDATE of a row that is open, which locks it; a look behind that says that nobody waits for the run and
//    nothing came for it. What only its owner can have written is known not to be there.
//
// Where anything is otherwise the transaction fails, everything here is forgotten, and the batch is done over from rows
// read behind their locks. Nothing is refused by what is presumed.
#pragma once

#include "store/postgres/connection.hpp"
#include "store/postgres/held.hpp"

#include <cstdint>
#include <string>

namespace semel::store::postgres {

/// SQLSTATE of a statement that says by failing that something is not as it was presumed: division by zero.
inline constexpr const char* not_borne_out = "22012";

/// An end is looked at apart.
bool is_only_entries(const Changes& changes);

bool can_presume(const AdvanceRun& command, const Known& known);

/// The ends of runs that were not read.
void write_presumed_ends(Pipeline& pipeline, const Held& held);

/// A few entries of runs that were not read, and nothing else; so it is with one run that goes from step to step.
bool is_few_entries(const Held& held);

/// A transaction that is just that, without BEGIN and COMMIT: what is sent together is one. Statements that write assert the
/// node's lease, those behind them bear out what was presumed. Where any fails the batch is done over at length.
void write_few_entries(Pipeline& pipeline, const Held& held, std::int64_t node);

/// Behind everything that rests on it was written.
void bear_out(Pipeline& pipeline, const Held& held);

/// What was just written is what is known from here on. To be forgotten unless it is committed.
void remember(const Held& held);

}  // namespace semel::store::postgres
