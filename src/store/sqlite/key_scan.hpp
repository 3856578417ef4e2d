// All keys that a file has reservations of, for what remembers them in memory.
#pragma once

#include "store/key_claims.hpp"

namespace semel::store::sqlite {

class Database;

/// Nothing is reserved, nor ever was that was not swept.
bool has_no_keys(Database& database);

/// In slices, so that a connection of its own keeps nobody from beginning the log anew. Throws `Failed`.
void scan_keys(Database& database, const KeyClaims::Visit& visit);

}  // namespace semel::store::sqlite
