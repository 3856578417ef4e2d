// One process owns a file; others are told so, and may look.
#include "store/sqlite/sqlite_store.hpp"
#include "tests/process/process.hpp"

#include <semel/semel.hpp>

#include <doctest/doctest.h>

#include <algorithm>

namespace semel::process {
namespace {

using namespace std::chrono_literals;

/// An engine at work in another process.
struct Owner {
  Owner() { REQUIRE_MESSAGE(process.is_ready_within(60s), text_of(log)); }

  std::string file() const { return (directory.path() / "runs.db").string(); }

  /// True if it acknowledges a start from now on.
  bool works_on() {
    const auto acknowledged = [this] {
      const auto lines = ledger.lines();
      return std::ranges::count_if(
          lines, [](const std::string& line) { return line.starts_with("ack "); });
    };
    const auto before = acknowledged();
    return comes_true([&] { return acknowledged() > before; }, 60s);
  }

  TemporaryDirectory directory;
  std::filesystem::path log = directory.path() / "log";
  Ledger ledger{directory.path() / "ledger"};
  Child process{{SEMEL_KILL_WORKER, "sqlite:" + file(), directory.path(), "work", "0", "4"}, log};
};

TEST_CASE("a second process is told that the file is taken and by whom, and the first works on") {
  Owner owner;
  REQUIRE(owner.works_on());

  std::string code;
  std::string message;
  try {
    Engine second{"sqlite:" + owner.file()};
  } catch (const Error& error) {
    code = error.code();
    message = error.what();
  }

  CHECK(code == "STORE_UNAVAILABLE");
  CAPTURE(message);
  CHECK(message.find(owner.file()) != std::string::npos);
  CHECK(message.find(std::to_string(owner.process.id())) != std::string::npos);
  CHECK(owner.works_on());
}

TEST_CASE("a file is free as soon as its owner is killed, and the next one has all there was") {
  Owner owner;
  REQUIRE(owner.works_on());
  owner.process.kill();

  Engine next{"sqlite:" + owner.file()};

  CHECK(!next.runs().empty());
}

TEST_CASE("a reader looks beside a running engine and sees runs come and journals grow") {
  Owner owner;
  REQUIRE(owner.works_on());
  auto reader = store::open_reader(owner.file());
  REQUIRE(reader.has_value());
  const auto newest = [&] {
    const auto runs = (*reader)->list({.limit = 1});
    REQUIRE(runs.has_value());
    REQUIRE(runs->size() == 1);
    return runs->front();
  };

  const auto first = newest();
  for (int look = 0; look < 200; ++look) {
    const auto run = newest();
    const auto journal = (*reader)->journal(run.key, 0, 1000);
    REQUIRE(journal.has_value());
    for (std::size_t seq = 0; seq < journal->size(); ++seq) REQUIRE(journal->at(seq).seq == seq);
    REQUIRE((*reader)->orphans(10)->empty());
  }

  CHECK(owner.works_on());
  CHECK(newest().id != first.id);
  CHECK(!owner.process.ends_within(0us).has_value());
}

}  // namespace
}  // namespace semel::process
