// A process that owns a reservation is stopped (SIGSTOP) until its lease has passed and another has taken over. When it goes
// on it believes to be the owner still; nobody else does.
#include "tests/process/kernel_client.hpp"
#include "tests/process/process.hpp"
#include "tests/process/store_of_test.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <csignal>

namespace semel::process {
namespace {

using namespace std::chrono_literals;

constexpr auto patience = 30s;

struct Stage {
  Stage()
      : port(port_to_return_to()),
        server({SEMEL_SERVE_WORKER, directory.path().string(), std::to_string(port),
                store_of_test(directory.path())},
               directory.path() / "server.log") {
    REQUIRE_MESSAGE(server.is_ready_within(patience), text_of(directory.path() / "server.log"));
  }

  std::string ledger_file() const { return (directory.path() / "owner").string(); }

  TemporaryDirectory directory;
  std::uint16_t port;
  Child server;
};

/// Until it has stopped itself.
void wait_until_stopped(const Child& child) {
  siginfo_t what{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child.id()), &what, WSTOPPED | WEXITED | WNOWAIT) == 0);
  REQUIRE(what.si_code == CLD_STOPPED);
}

/// As a duplicate does that insists: asks until the owner's lease has passed.
std::string take_over(std::uint16_t port, const std::string& key) {
  Reserved taken;
  REQUIRE(comes_true(
      [&] {
        taken = reserve(port, key);
        return taken.outcome == "acquired";
      },
      patience));
  return taken.fence;
}

const std::vector<std::string> all_refused{"renewed 204", "renew 409 FENCE_LOST",
                                           "complete 409 FENCE_LOST", "release 409 FENCE_LOST"};

TEST_CASE("an owner that slept past its lease cannot change the answer of the one that took over") {
  const Stage stage;
  Child owner({SEMEL_PAUSED_OWNER, std::to_string(stage.port), "k", stage.ledger_file()},
              stage.directory.path() / "owner.log");
  wait_until_stopped(owner);
  const std::string fence = take_over(stage.port, "k");
  REQUIRE(
      kernel_call(stage.port, "complete", "k", {{"fence", fence}, {"response", "second"}}).status ==
      204);

  ::kill(owner.id(), SIGCONT);

  CHECK(owner.ends_within(patience) == 0);
  CHECK(Ledger(stage.ledger_file()).lines() == all_refused);
  const Reserved duplicate = reserve(stage.port, "k");
  CHECK(duplicate.outcome == "replay");
  CHECK(duplicate.response == "\"second\"");
}

TEST_CASE("nor can it end the work of the one that took over and is not done yet") {
  const Stage stage;
  Child owner({SEMEL_PAUSED_OWNER, std::to_string(stage.port), "k", stage.ledger_file()},
              stage.directory.path() / "owner.log");
  wait_until_stopped(owner);
  const std::string fence = take_over(stage.port, "k");
  const auto renew = [&] {
    return kernel_call(stage.port, "renew", "k", {{"fence", fence}, {"lease", "1h"}}).status;
  };
  REQUIRE(renew() == 204);

  ::kill(owner.id(), SIGCONT);

  CHECK(owner.ends_within(patience) == 0);
  CHECK(Ledger(stage.ledger_file()).lines() == all_refused);
  CHECK(reserve(stage.port, "k").outcome == "inProgress");
  CHECK(renew() == 204);
}

}  // namespace
}  // namespace semel::process
