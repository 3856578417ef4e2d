#include "store/sqlite/sqlite_store.hpp"
#include "tests/crash/stores.hpp"

namespace semel::crash {

namespace {

constexpr std::int64_t keys_per_era = 2;  // so that there are several

}  // namespace

engine::StoreFactory fresh_stores() {
  return [database = store::make_memory_database()]() -> base::Result<engine::OpenedStore> {
    auto opened = store::SqliteStore::open(database, nullptr, keys_per_era);
    if (!opened) return opened.error();
    auto reader = (*opened)->reader();
    if (!reader) return reader.error();
    return engine::OpenedStore{std::move(*opened), std::move(*reader)};
  };
}

}  // namespace semel::crash
