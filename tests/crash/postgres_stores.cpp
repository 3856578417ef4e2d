#include "store/postgres/postgres_store.hpp"
#include "tests/crash/stores.hpp"
#include "tests/support/fresh_store.hpp"

namespace semel::crash {

engine::StoreFactory fresh_stores() {
  auto identity = std::make_shared<store::postgres::NodeIdentity>();
  identity->name = "stage";
  // The clock moves when it is told to; a lease must not end because it did.
  identity->lease = std::chrono::hours{24 * 365 * 50};
  return [options =
              store::PostgresOptions{.url = testing::fresh_store(),
                                     .identity = identity}]() -> base::Result<engine::OpenedStore> {
    auto opened = store::PostgresStore::open(options);
    if (!opened) return opened.error();
    auto reader = (*opened)->reader();
    if (!reader) return reader.error();
    return engine::OpenedStore{std::move(*opened), std::move(*reader)};
  };
}

}  // namespace semel::crash
