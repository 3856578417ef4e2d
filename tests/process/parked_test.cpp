// Runs that wait cost nothing to restart.
#include "tests/process/process.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>

namespace semel::process {
namespace {

using namespace std::chrono_literals;

TEST_CASE(
    "100,000 sleeping runs survive kill -9, and the first due one runs within a second of "
    "opening") {
  const int count = setting("SEMEL_PARKED", 100'000);
  const std::string program = SEMEL_PARKED_WORKER;
  TemporaryDirectory directory;
  const auto log = directory.path() / "log";
  const Ledger ledger(directory.path() / "ledger");
  {
    Child filling({program, directory.path(), "fill", std::to_string(count)}, log);
    REQUIRE_MESSAGE(filling.is_ready_within(300s), text_of(log));
    filling.kill();
  }
  pause(500ms);  // so that the due one is due when the store is opened

  Child waking({program, directory.path(), "wake", std::to_string(count)}, log);
  REQUIRE_MESSAGE(waking.ends_within(120s) == 0, text_of(log));

  std::map<std::string, long> found;
  for (const std::string& line : ledger.lines()) {
    const auto word = words(line);
    if (word.at(0) == "woken") {
      CHECK(word.at(2) == "1");
      CHECK(word.at(3) == word.at(1));
    } else {
      found[word.at(0)] = std::stol(word.at(1));
    }
  }
  CHECK(found["waiting"] == count);
  CHECK(found["due-ran-after-us"] < 3'000'000);  // a second on a quiet machine; this one may not be
  MESSAGE(fmt::format(
      "{} runs parked in {:.1f} s ({} MiB resident); killed; opened again, the due one had run "
      "after {:.1f} ms "
      "({} MiB resident)",
      count, static_cast<double>(found["filled-ms"]) / 1000, found["filled-kib"] / 1024,
      static_cast<double>(found["due-ran-after-us"]) / 1000, found["opened-kib"] / 1024));
}

}  // namespace
}  // namespace semel::process
