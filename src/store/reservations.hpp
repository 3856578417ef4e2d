// Reservations: who may do the work of a key, and what came of it.
#pragma once

#include "store/tables.hpp"

namespace semel::store {

Answer reserve(Tables& tables, const Reserve& command);
Answer complete(Tables& tables, const Complete& command);
Answer release(Tables& tables, const Release& command);
Answer renew(Tables& tables, const Renew& command);
Answer forget(Tables& tables, const Forget& command);
Answer find_reservation(Tables& tables, const FindReservation& command);

}  // namespace semel::store
