// The tables, and how an older database becomes a newer one.
#pragma once

#include "store/postgres/connection.hpp"

namespace semel::store::postgres {

/// As many as the first migration makes.
inline constexpr std::int32_t partition_count = 64;

/// The schema this program writes.
int schema_version_known();

/// Applies what the database lacks, one migration per transaction, while no other process does. Throws `Failed` with
/// `Errc::refused` where the database is newer than the program.
void migrate(Connection& connection);

/// For readers, which change nothing: throws `Failed` with `Errc::refused` unless the database has exactly our schema.
void require_schema(Connection& connection);

}  // namespace semel::store::postgres
