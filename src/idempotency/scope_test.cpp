#include "idempotency/scope.hpp"

#include <doctest/doctest.h>

#include <set>

namespace semel::idempotency {

TEST_CASE("a scope is stored, so its text never changes") {
  CHECK(scope_text({}) == "");
  CHECK(scope_text({{"tenant", "t1"}, {"actor", "p"}}) == "5:actor=1:p;6:tenant=2:t1;");
  CHECK(scope_text(Scope::global, "p", "t") == "");
  CHECK(scope_text(Scope::actor, "p", "") == "5:actor=1:p;");
  CHECK(scope_text(Scope::tenant, "", "t1") == "6:tenant=2:t1;");
  CHECK(scope_text(Scope::actor_tenant, "p", "t1") ==
        scope_text({{"tenant", "t1"}, {"actor", "p"}}));
}

TEST_CASE("different scopes have different texts, whatever is in them") {
  std::set<std::string> seen;
  CHECK(seen.insert(scope_text({})).second);
  CHECK(seen.insert(scope_text({{"a", "b"}})).second);
  CHECK(seen.insert(scope_text({{"a", "b;1:c=1:d"}})).second);
  CHECK(seen.insert(scope_text({{"a", "b"}, {"c", "d"}})).second);
  CHECK(seen.insert(scope_text({{"a=1:b;", ""}})).second);
  CHECK(seen.insert(scope_text({{"", ""}})).second);
  CHECK(seen.insert(scope_text({{"", "a"}})).second);
  CHECK(seen.insert(scope_text({{"a", ""}})).second);
  CHECK(seen.insert(scope_text({{"ab", ""}})).second);
}

TEST_CASE("a scope needs whom it is about") {
  CHECK_FALSE(scope_text(Scope::actor, "", "t"));
  CHECK_FALSE(scope_text(Scope::tenant, "p", ""));
  CHECK_FALSE(scope_text(Scope::actor_tenant, "p", ""));
  CHECK_FALSE(scope_text(Scope::actor_tenant, "", "t"));
}

}  // namespace semel::idempotency
