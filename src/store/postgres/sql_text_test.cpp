#include "store/postgres/sql_text.hpp"

#include <doctest/doctest.h>

#include <array>

namespace semel::store::postgres {

TEST_CASE("statements end at semicolons that are theirs") {
  struct Case {
    const char* sql;
    std::size_t count;
  };

  for (const Case& each : std::to_array<Case>({
           {"", 0},
           {" ; ;", 0},
           {"-- nothing; here\n", 0},
           {"/* nor; /* here; */ */", 0},
           {"SELECT 1", 1},
           {"SELECT 1;", 1},
           {"SELECT 1; SELECT 2", 2},
           {"SELECT ';'; SELECT ''';'", 2},
           {R"(SELECT E'\';'; SELECT 1)", 2},
           {R"(SELECT '\'; SELECT 1)", 2},
           {R"(SELECT 1 AS "a;b")", 1},
           {"DO $$ BEGIN; END; $$; SELECT 1", 2},
           {"DO $a$ $$ ; $$ $a$; SELECT 1", 2},
           {"SELECT 1 -- one; \n; SELECT 2", 2},
           {"CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2); SELECT 3", 2},
           {"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END;"
            " SELECT 1",
            2},
           {"BEGIN; COMMIT", 2},
           {"SELECT 'unfinished; ", 1},
       })) {
    CAPTURE(each.sql);
    CHECK(split_sql(each.sql).size() == each.count);
  }
}

TEST_CASE("a statement's first word is known behind comments and brackets") {
  CHECK(split_sql("/* a */ select 1").front().verb == "SELECT");
  CHECK(split_sql("-- a\n commit").front().verb == "COMMIT");
  CHECK(split_sql("(SELECT 1)").front().verb == "(");
}

TEST_CASE("parameters are numbered, and written as PostgreSQL writes them") {
  const auto only = [](const char* sql) { return split_sql(sql).front(); };

  CHECK(only("SELECT ?1, ?12").text == "SELECT $1, $12");
  CHECK(only("SELECT ?1, ?12").parameters == 12);
  CHECK(only("SELECT $2").parameters == 2);
  CHECK(only("SELECT '?1', \"?1\", $$?1$$ -- ?1").parameters == 0);
  CHECK(only("SELECT '?1', \"?1\", $$?1$$ -- ?1").text == "SELECT '?1', \"?1\", $$?1$$ -- ?1");
  CHECK(only("SELECT a ? 'key', b ?| c").text == "SELECT a ? 'key', b ?| c");
  CHECK(only("SELECT a$1 FROM t").parameters == 0);
}

TEST_CASE("it is seen where semel's schema is named") {
  const auto names = [](const char* sql) { return split_sql(sql).front().names_semel; };

  CHECK(names("DROP TABLE semel.run"));
  CHECK(names("DROP TABLE Semel . run"));
  CHECK(names("DROP TABLE \"semel\".run"));
  CHECK_FALSE(names("DROP TABLE semel_run"));
  CHECK_FALSE(names("COMMENT ON TABLE t IS 'semel'"));
}

}  // namespace semel::store::postgres
