#include "engine/registry.hpp"

#include <doctest/doctest.h>

namespace semel::engine {

namespace {

detail::WorkflowType type(const std::string& name, const std::string& function) {
  detail::WorkflowType made;
  made.name = name;
  made.function = function;
  return made;
}

template <class F>
std::string code_of(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("a workflow is found by its name and by its function") {
  Registry registry;
  registry.add(type("charge", "f1"));
  registry.add(type("ship", "f2"));

  REQUIRE(registry.find("ship") != nullptr);
  CHECK(registry.find("ship")->function == "f2");
  CHECK(registry.find("bill") == nullptr);
  CHECK(registry.name_of("f1") == "charge");
  CHECK(code_of([&] { registry.name_of("f3"); }) == "WORKFLOW_NOT_FOUND");
}

TEST_CASE("a function under several names does not name one of them") {
  Registry registry;
  registry.add(type("one", "f"));
  registry.add(type("two", "f"));

  CHECK(code_of([&] { registry.name_of("f"); }) == "WORKFLOW_NOT_FOUND");
  CHECK(registry.find("one") != nullptr);
  CHECK(registry.find("two") != nullptr);
}

TEST_CASE("a name is taken once and what is found stays where it is") {
  Registry registry;
  registry.add(type("first", "f1"));
  const detail::WorkflowType* first = registry.find("first");
  for (int i = 0; i < 100; ++i) registry.add(type("more " + std::to_string(i), "f"));

  CHECK(code_of([&] { registry.add(type("first", "f2")); }) == "WORKFLOW_EXISTS");
  CHECK(registry.find("first") == first);
  CHECK(code_of([&] { registry.name_of("f2"); }) == "WORKFLOW_NOT_FOUND");
}

TEST_CASE("a name has 1 to 255 bytes") {
  Registry registry;

  CHECK(code_of([&] { registry.add(type("", "f")); }) == "VALIDATION_ERROR");
  CHECK(code_of([&] { registry.add(type(std::string(256, 'n'), "f")); }) == "VALIDATION_ERROR");
  CHECK(code_of([&] { registry.add(type(std::string(255, 'n'), "f")); }) == "nothing");
}

}  // namespace semel::engine
