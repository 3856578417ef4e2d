#include "store/sqlite/sqlite_store.hpp"
#include "tests/contract/stores.hpp"

namespace semel::store {

namespace {

constexpr std::int64_t keys_per_era = 2;  // so that there are several

class SqliteSubject : public Subject {
 protected:
  void use(base::Result<std::unique_ptr<SqliteStore>> opened) {
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message);
    auto reader = (*opened)->reader();
    REQUIRE_MESSAGE(reader.has_value(), reader.error().message);
    store_ = *std::move(opened);
    reader_ = *std::move(reader);
  }
};

class SqliteMemorySubject final : public SqliteSubject {
 public:
  SqliteMemorySubject() { use(SqliteStore::open(database_, nullptr, keys_per_era)); }

  void reopen() override {
    store_.reset();
    use(SqliteStore::open(database_, nullptr, keys_per_era));
  }

 private:
  std::shared_ptr<sqlite::Database> database_ = make_memory_database();
};

class SqliteFileSubject final : public SqliteSubject {
 public:
  SqliteFileSubject() { use(SqliteStore::open(options_)); }

  void reopen() override {
    store_.reset();
    use(SqliteStore::open(options_));
  }

 private:
  TemporaryDirectory directory_;
  SqliteOptions options_{.path = directory_.file("store.db"), .keys_per_era = keys_per_era};
};

}  // namespace

std::unique_ptr<Subject> sqlite_memory_subject() { return std::make_unique<SqliteMemorySubject>(); }

std::unique_ptr<Subject> real_subject() { return sqlite_memory_subject(); }

void for_each_store(const std::function<void(Subject&)>& test) {
  const auto run = [&](const char* name, std::unique_ptr<Subject> subject) {
    CAPTURE(name);
    test(*subject);
  };
  run("model", model_subject());
  run("SQLite in memory", sqlite_memory_subject());
  run("SQLite in a file", std::make_unique<SqliteFileSubject>());
}

}  // namespace semel::store
