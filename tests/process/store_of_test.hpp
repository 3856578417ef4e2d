// Which store a process test is about: a file, or with SEMEL_STORE=postgres a server that the test starts.
#pragma once

#include "tests/support/postgres_server.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>

namespace semel::process {

inline bool is_on_postgres() {
  const char* store = std::getenv("SEMEL_STORE");
  return store != nullptr && std::string{store} == "postgres";
}

/// The URL of a store with nothing in it; a file is in `directory`.
inline std::string store_of_test(const std::filesystem::path& directory) {
  if (!is_on_postgres()) return "sqlite:" + (directory / "store.db").string();
  semel::testing::PostgresServer& server = semel::testing::PostgresServer::shared();
  server.clear();
  server.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
  return server.url();
}

}  // namespace semel::process
