// The tables, and how an older file becomes a newer one.
#pragma once

#include "store/sqlite/database.hpp"

namespace semel::store::sqlite {

/// The schema this program writes.
int schema_version_known();

/// Of the tables in the file; 0: there are none of ours.
int schema_version(Database& database);

/// Applies what the file lacks, one migration per transaction. Throws `Failed` with `Errc::refused` where the file is
/// newer than the program.
void migrate(Database& database);

/// For readers, which change nothing: throws `Failed` with `Errc::refused` unless the file has exactly our schema.
void require_schema(Database& database);

/// Throws `Failed` with `Errc::refused` where a workspace was moved to another store, or is about to be.
void refuse_moved(Database& database);

}  // namespace semel::store::sqlite
