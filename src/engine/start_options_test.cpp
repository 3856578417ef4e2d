#include "engine/start_options.hpp"

#include <semel/error.hpp>

#include <doctest/doctest.h>

#include <array>

namespace semel::engine {

namespace {

using namespace std::chrono_literals;

struct Case {
  const char* what;
  StartOptions options;
  std::string code;
  std::string path;
};

}  // namespace

TEST_CASE("options are refused with a code and the name of the option") {
  const std::string invalid = "VALIDATION_ERROR";
  const std::string bad_key = "IDEMPOTENCY_KEY_INVALID";
  const auto cases = std::to_array<Case>({
      {"no key", {.key = ""}, bad_key, "/key"},
      {"a long key", {.key = std::string(256, 'k')}, bad_key, "/key"},
      {"a key forgotten before its run ends", {.key = "k", .key_ttl = -1ms}, invalid, "/key_ttl"},
      {"no id", {.run_id = ""}, invalid, "/run_id"},
      {"an id with a slash", {.run_id = "a/b"}, invalid, "/run_id"},
      {"an id with a letter that is not ASCII", {.run_id = "\xc3\xa4"}, invalid, "/run_id"},
      {"a long id", {.run_id = std::string(256, 'i')}, invalid, "/run_id"},
      {"a start in the past", {.delay = -1ms}, invalid, "/delay"},
      {"a deadline that is over", {.deadline = 0ms}, invalid, "/deadline"},
      {"an attribute without a name", {.attributes = {{"", ""}}}, invalid, "/attributes"},
      {"an attribute's name that is no text",
       {.attributes = {{"\xff", "v"}}},
       invalid,
       "/attributes"},
      {"an attribute that is no text", {.attributes = {{"a", "\xff"}}}, invalid, "/attributes/a"},
      {"a long attribute", {.attributes = {{"a", std::string(1025, 'v')}}}, invalid, "/attributes"},
  });

  for (const Case& c : cases) {
    CAPTURE(c.what);
    try {
      check_start_options(c.options);
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == c.code);
      CHECK(std::string(error.what()).starts_with(c.path + ":"));
    }
  }
}

TEST_CASE("options at their limits are fine") {
  check_start_options({});
  check_start_options({.key = std::string(255, 'k'),
                       .key_ttl = 0ms,
                       .run_id = "Az09._:-" + std::string(247, 'i'),
                       .delay = 0ms,
                       .deadline = 1ms,
                       .attributes = {{std::string(255, 'n'), std::string(1024, 'v')}}});
  check_start_options({.key = "\xff any bytes \n"});
}

}  // namespace semel::engine
