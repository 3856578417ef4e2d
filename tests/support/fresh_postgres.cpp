#include "tests/support/fresh_store.hpp"
#include "tests/support/postgres_server.hpp"

namespace semel::testing {

std::string fresh_store() {
  PostgresServer& server = PostgresServer::shared();
  server.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
  server.empty();
  return server.url();
}

}  // namespace semel::testing
