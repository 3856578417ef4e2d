#include "store/postgres/postgres_store.hpp"
#include "tests/contract/stores.hpp"
#include "tests/support/postgres_server.hpp"

namespace semel::store {

namespace {

class PostgresSubject final : public Subject {
 public:
  PostgresSubject() {
    server_.empty();
    use();
  }

  void reopen() override {
    reader_.reset();
    store_.reset();
    use();
  }

 private:
  void use() {
    auto opened = PostgresStore::open({.url = server_.url(), .identity = identity_});
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message);
    auto reader = (*opened)->reader();
    REQUIRE_MESSAGE(reader.has_value(), reader.error().message);
    store_ = *std::move(opened);
    reader_ = *std::move(reader);
  }

  semel::testing::PostgresServer& server_ = semel::testing::PostgresServer::shared();
  std::shared_ptr<postgres::NodeIdentity> identity_ = std::make_shared<postgres::NodeIdentity>();
};

}  // namespace

std::unique_ptr<Subject> real_subject() { return std::make_unique<PostgresSubject>(); }

void for_each_store(const std::function<void(Subject&)>& test) { test(*real_subject()); }

}  // namespace semel::store
